"""The ready-made listeners.

Each name is loaded on first use, so importing this module imports no Kafka client and no CloudEvents
library, and an application needs only the extras of the listeners that it uses.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_partition_events_listeners.cloudevents import to_cloudevent, to_record
    from kafka_partition_events_listeners.cloudevents_listener import CloudEventsListener
    from kafka_partition_events_listeners.kafka_events import KafkaEventListener, PublishStats
    from kafka_partition_events_listeners.kafka_sink import KafkaSink
    from kafka_partition_events_listeners.recorder import RecorderListener, RecorderStats
    from kafka_partition_events_listeners.structlog_listener import StructlogListener

__all__ = [
    "CloudEventsListener",
    "KafkaEventListener",
    "KafkaSink",
    "PublishStats",
    "RecorderListener",
    "RecorderStats",
    "StructlogListener",
    "to_cloudevent",
    "to_record",
]

_HOME = {
    "CloudEventsListener": "cloudevents_listener",
    "KafkaEventListener": "kafka_events",
    "KafkaSink": "kafka_sink",
    "PublishStats": "kafka_events",
    "RecorderListener": "recorder",
    "RecorderStats": "recorder",
    "StructlogListener": "structlog_listener",
    "to_cloudevent": "cloudevents",
    "to_record": "cloudevents",
}
_EXTRA = {
    "cloudevents": "events",
    "cloudevents_listener": "events",
    "kafka_events": "events",
    "kafka_sink": "events",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    try:
        return getattr(importlib.import_module(f"kafka_partition_events_listeners.{home}"), name)
    except ModuleNotFoundError as error:
        if home not in _EXTRA:
            raise
        hint = f"{name} needs {error.name}: pip install 'kafka-partition-events[{_EXTRA[home]}]'"
        raise ModuleNotFoundError(hint, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
