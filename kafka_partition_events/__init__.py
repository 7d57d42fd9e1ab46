"""Metadata-aware partitioners for Kafka producers, with typed partition-change events.

One poller reads the cluster's metadata, compares it once for all, and pushes typed changes to
partitioners, which reroute around offline partitions, and to listeners. Importing this package imports no
Kafka client; ``kafka_partition_events.clients`` has what belongs to one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafka_partition_events.errors import (
        ConfigurationError,
        ControlTopicError,
        ForkedError,
        JvmError,
        KafkaPartitionEventsError,
        MetadataFetchError,
        PollerClosedError,
    )
    from kafka_partition_events.metadata.cluster import (
        EMPTY,
        Cluster,
        Node,
        PartitionInfo,
        TopicInfo,
        TopicPartition,
    )
    from kafka_partition_events.metadata.diff import diff
    from kafka_partition_events.metadata.events import (
        BrokerAdded,
        BrokerChanged,
        BrokerCleared,
        BrokerRemoved,
        BrokerSuspected,
        CapLifted,
        CapReached,
        Clearance,
        ClusterSummary,
        Event,
        IsrChanged,
        KeysMoved,
        KeysReturned,
        LeaderChanged,
        MetadataRecovered,
        MetadataRejected,
        MetadataStale,
        MetadataUnavailable,
        PartitionEvent,
        PartitionOffline,
        PartitionOnline,
        PartitionsAdded,
        RecordsRescued,
        Rejection,
        ReplicasChanged,
        Resync,
        Role,
        Suspicion,
        TopicAdded,
        TopicEvent,
        TopicIdLearned,
        TopicRecreated,
        TopicRemoved,
    )
    from kafka_partition_events.metadata.listener import PartitionChangeListener
    from kafka_partition_events.metadata.poller import MetadataPoller
    from kafka_partition_events.metadata.registration import Registration, RegistrationStats
    from kafka_partition_events.metadata.source import MetadataSource, Observation
    from kafka_partition_events.metadata.state import Health
    from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
    from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
    from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
    from kafka_partition_events.partitioners.round_robin import RoundRobinPartitioner
    from kafka_partition_events.partitioners.sticky import (
        DefaultPartitioner,
        StickyPartitioner,
        UniformStickyPartitioner,
    )
    from kafka_partition_events.routing.budget import BufferBudget
    from kafka_partition_events.routing.table import Route

__version__ = "0.1.0"

__all__ = [
    "EMPTY",
    "UNASSIGNED",
    "AdaptivePartitioner",
    "BrokerAdded",
    "BrokerChanged",
    "BrokerCleared",
    "BrokerRemoved",
    "BrokerSuspected",
    "BufferBudget",
    "CapLifted",
    "CapReached",
    "Clearance",
    "Cluster",
    "ClusterSummary",
    "ConfigurationError",
    "ControlTopicError",
    "DefaultPartitioner",
    "Event",
    "ForkedError",
    "GrowthSafePartitioner",
    "Health",
    "IsrChanged",
    "JvmError",
    "KafkaPartitionEventsError",
    "KeysMoved",
    "KeysReturned",
    "LeaderChanged",
    "MetadataFetchError",
    "MetadataPoller",
    "MetadataRecovered",
    "MetadataRejected",
    "MetadataSource",
    "MetadataStale",
    "MetadataUnavailable",
    "Node",
    "Observation",
    "PartitionChangeListener",
    "PartitionEvent",
    "PartitionInfo",
    "PartitionOffline",
    "PartitionOnline",
    "Partitioner",
    "PartitionsAdded",
    "PollerClosedError",
    "RecordsRescued",
    "Registration",
    "RegistrationStats",
    "Rejection",
    "ReplicasChanged",
    "Resync",
    "Role",
    "RoundRobinPartitioner",
    "Route",
    "StickyPartitioner",
    "Suspicion",
    "TopicAdded",
    "TopicEvent",
    "TopicIdLearned",
    "TopicInfo",
    "TopicPartition",
    "TopicRecreated",
    "TopicRemoved",
    "UniformStickyPartitioner",
    "diff",
]

_NAMES: Final = {
    "errors": (
        "ConfigurationError ControlTopicError ForkedError JvmError KafkaPartitionEventsError "
        "MetadataFetchError PollerClosedError"
    ),
    "metadata.cluster": "EMPTY Cluster Node PartitionInfo TopicInfo TopicPartition",
    "metadata.diff": "diff",
    "metadata.events": (
        "BrokerAdded BrokerChanged BrokerCleared BrokerRemoved BrokerSuspected "
        "CapLifted CapReached Clearance ClusterSummary Event IsrChanged KeysMoved KeysReturned "
        "LeaderChanged MetadataRecovered MetadataRejected MetadataStale MetadataUnavailable "
        "PartitionEvent PartitionOffline PartitionOnline PartitionsAdded RecordsRescued Rejection "
        "ReplicasChanged Resync Role Suspicion TopicAdded TopicEvent TopicIdLearned TopicRecreated "
        "TopicRemoved"
    ),
    "metadata.listener": "PartitionChangeListener",
    "metadata.poller": "MetadataPoller",
    "metadata.registration": "Registration RegistrationStats",
    "metadata.source": "MetadataSource Observation",
    "metadata.state": "Health",
    "partitioners.adaptive": "AdaptivePartitioner",
    "partitioners.base": "UNASSIGNED Partitioner",
    "partitioners.growth_safe": "GrowthSafePartitioner",
    "partitioners.round_robin": "RoundRobinPartitioner",
    "partitioners.sticky": "DefaultPartitioner StickyPartitioner UniformStickyPartitioner",
    "routing.budget": "BufferBudget",
    "routing.table": "Route",
}
"""The public names, by the module that each is imported from when it is asked for."""
_HOME: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # to a type checker, only what is imported above is there

    def __getattr__(name: str) -> Any:
        """Import a public name (PEP 562): all of them together are a quarter of a second."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOME})
