"""What a `PartitioningProducer` has counted."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from attrs import field, frozen

from kafka_partition_events.clients.rescue import RescueStats
from kafka_partition_events.metadata.cluster import Cluster, TopicPartition
from kafka_partition_events.partitioners.adaptive import TurnStats
from kafka_partition_events.partitioners.deliveries import DeliveryStats


@frozen(kw_only=True)
class ProducerStats:
    """What became of unkeyed records whose partition was not given. Counts since the producer was made.

    Attributes:
        rerouted: Records that were placed while an admitted partition was offline.
        avoided: Records that were placed while partitions that need a suspect broker were left out.
        capped: Records that were placed while the budget left partitions out.
        fallbacks: Records whose chosen partition the producer did not know, so that librdkafka chose again.
        records: Records by partition; -1 stands for those that librdkafka placed, for want of metadata.
        turns: How the partitioner has been moving, if it is an `AdaptivePartitioner`.
        deliveries: What the delivery reports of all producers that share the partitioner have told.
        rescue: What the rescue has done.
    """

    rerouted: int = 0
    avoided: int = 0
    capped: int = 0
    fallbacks: int = 0
    records: Mapping[TopicPartition, int] = MappingProxyType({})
    turns: TurnStats = field(factory=TurnStats)
    deliveries: DeliveryStats = field(factory=DeliveryStats)
    rescue: RescueStats = field(factory=RescueStats)

    def by_broker(self, cluster: Cluster) -> Mapping[int, int]:
        """Return the records by the broker that leads their partition in a snapshot; -1 for offline ones."""
        counts: Counter[int] = Counter()
        for tp, count in self.records.items():
            leader = cluster.leader_for_partition(tp)
            counts[-1 if leader is None else leader] += count
        return counts
