"""What a `PartitioningProducer` has counted."""

from attrs import field, frozen

from kafka_partition_events.clients.flight.key_moves import KeyStats
from kafka_partition_events.clients.flight.rescue import RescueStats
from kafka_partition_events.health.tracker import TrackerStats


@frozen(kw_only=True)
class ProducerStats:
    """What became of unkeyed records whose partition was not given. Counts since the producer was made.

    Attributes:
        rerouted: Records that were placed while an admitted partition was offline.
        avoided: Records that were placed while partitions that need a suspect broker were left out.
        capped: Records that were placed while the budget left partitions out.
        fallbacks: Records whose chosen partition the producer did not know, so that librdkafka chose again.
        deliveries: What the delivery reports of all producers that share the partitioner have shown.
        rescue: What the rescue has done.
        keys: What became of keyed records while brokers were sick.
    """

    rerouted: int = 0
    avoided: int = 0
    capped: int = 0
    fallbacks: int = 0
    deliveries: TrackerStats = field(factory=TrackerStats)
    rescue: RescueStats = field(factory=RescueStats)
    keys: KeyStats = field(factory=KeyStats)
