"""Metadata-aware partitioners for Kafka producers, with typed partition-change events.

One poller looks at the cluster's metadata, compares it once for everybody, and pushes typed changes to
partitioners, which reroute around offline partitions, and to listeners. Importing this package imports no
Kafka client; ``kafka_partition_events.clients`` has what belongs to one.
"""

from kafka_partition_events.errors import (
    ConfigurationError,
    ControlTopicError,
    ForkedError,
    JvmError,
    KafkaPartitionEventsError,
    MetadataFetchError,
    PartitionOfflineError,
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
from kafka_partition_events.metadata.diff import apply, diff
from kafka_partition_events.metadata.events import (
    AlternativesChanged,
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
from kafka_partition_events.metadata.listener import (
    PartitionChangeListener,
    Registration,
    RegistrationStats,
)
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import MetadataSource, Observation, Proof
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.metadata.stream import EventStream
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.round_robin import RoundRobinPartitioner
from kafka_partition_events.partitioners.sticky import DefaultPartitioner, StickyPartitioner
from kafka_partition_events.partitioners.uniform_sticky import UniformStickyPartitioner
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.table import Route, RoutingTable

__version__ = "0.1.0"

__all__ = [
    "EMPTY",
    "UNASSIGNED",
    "AdaptivePartitioner",
    "AlternativesChanged",
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
    "EventStream",
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
    "PartitionOfflineError",
    "PartitionOnline",
    "Partitioner",
    "PartitionsAdded",
    "PollerClosedError",
    "Proof",
    "RecordsRescued",
    "Registration",
    "RegistrationStats",
    "Rejection",
    "ReplicasChanged",
    "Resync",
    "Role",
    "RoundRobinPartitioner",
    "Route",
    "RoutingTable",
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
    "apply",
    "diff",
]
