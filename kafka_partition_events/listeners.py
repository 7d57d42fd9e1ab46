"""The ready-made listeners.

Each name is loaded on first use, so importing this module imports no Kafka client and no CloudEvents
library, and an application needs only the extras of the listeners that it uses.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_partition_events.events.cloudevents import to_cloudevent, to_record
    from kafka_partition_events_listeners.cloudevents_listener import CloudEventsListener
    from kafka_partition_events_listeners.journal import JournalListener, JournalStats, load_snapshot
    from kafka_partition_events_listeners.kafka_sink import KafkaSink
    from kafka_partition_events_listeners.opentelemetry_registry import OpenTelemetryRegistry
    from kafka_partition_events_listeners.prometheus.listener import PrometheusListener
    from kafka_partition_events_listeners.prometheus.pipeline import PipelineCollector, PipelineReading
    from kafka_partition_events_listeners.sink_listener import SinkListener, SinkStats
    from kafka_partition_events_listeners.structlog_listener import StructlogListener
    from kafka_partition_events_listeners.webhook.sink import WebhookSink

__all__ = [
    "CloudEventsListener",
    "JournalListener",
    "JournalStats",
    "KafkaSink",
    "OpenTelemetryRegistry",
    "PipelineCollector",
    "PipelineReading",
    "PrometheusListener",
    "SinkListener",
    "SinkStats",
    "StructlogListener",
    "WebhookSink",
    "load_snapshot",
    "to_cloudevent",
    "to_record",
]

_HOME = {
    "CloudEventsListener": "cloudevents_listener",
    "JournalListener": "journal",
    "JournalStats": "journal",
    "KafkaSink": "kafka_sink",
    "OpenTelemetryRegistry": "opentelemetry_registry",
    "PipelineCollector": "prometheus.pipeline",
    "PipelineReading": "prometheus.pipeline",
    "PrometheusListener": "prometheus.listener",
    "SinkListener": "sink_listener",
    "SinkStats": "sink_listener",
    "StructlogListener": "structlog_listener",
    "WebhookSink": "webhook.sink",
    "load_snapshot": "journal",
    "to_cloudevent": "cloudevents",
    "to_record": "cloudevents",
}
_EXTRA = {
    "cloudevents": "events",
    "cloudevents_listener": "events",
    "journal": "events",
    "kafka_sink": "events",
    "opentelemetry_registry": "metrics",
    "prometheus.listener": "metrics",
    "prometheus.pipeline": "metrics",
    "sink_listener": "events",
    "webhook.sink": "webhook",
}
_BESIDE_EXTRA = {"opentelemetry_registry": " opentelemetry-api"}
"""What no extra brings."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    package = "kafka_partition_events.events" if home == "cloudevents" else "kafka_partition_events_listeners"
    try:
        return getattr(importlib.import_module(f"{package}.{home}"), name)
    except ModuleNotFoundError as error:
        if home not in _EXTRA:
            raise
        packages = f"'kafka-partition-events[{_EXTRA[home]}]'{_BESIDE_EXTRA.get(home, '')}"
        hint = f"{name} needs {error.name}: pip install {packages}"
        raise ModuleNotFoundError(hint, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
