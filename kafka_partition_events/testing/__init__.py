"""Public test kit: real and scripted clusters, a clock, a contract for partitioners.

Importing this package imports none of them; each name is loaded on first use, so the pytest plugin costs
nothing to those who use one part only.
"""

import importlib
from typing import TYPE_CHECKING, Any

from kafka_partition_events.testing.errors import KitError

if TYPE_CHECKING:
    from kafka_partition_events.testing.clock import ManualClock
    from kafka_partition_events.testing.cluster.kafka_cluster import KafkaCluster
    from kafka_partition_events.testing.contract import PartitionerContract
    from kafka_partition_events.testing.network.links import Link
    from kafka_partition_events.testing.recording import RecordingListener
    from kafka_partition_events.testing.scripted import Hang, ScriptedSource, cluster_of, observe

__all__ = [
    "Hang",
    "KafkaCluster",
    "KitError",
    "Link",
    "ManualClock",
    "PartitionerContract",
    "RecordingListener",
    "ScriptedSource",
    "cluster_of",
    "observe",
]

_HOME = {
    "Hang": "scripted",
    "KafkaCluster": "cluster.kafka_cluster",
    "Link": "network.links",
    "ManualClock": "clock",
    "PartitionerContract": "contract",
    "RecordingListener": "recording",
    "ScriptedSource": "scripted",
    "cluster_of": "scripted",
    "observe": "scripted",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
