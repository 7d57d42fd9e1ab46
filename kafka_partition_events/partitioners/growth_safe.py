"""Keys by the jump hash: a topic grows, and no more keys move than must."""

from typing import Literal, Unpack, get_args

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.base import PartitionerOptions
from kafka_partition_events.routing.hashing import HashName, KeyHash, key_hash
from kafka_partition_events.routing.jump import jump_hash

KeyMapping = Literal["rendezvous"]


class GrowthSafePartitioner(AdaptivePartitioner):
    """Few keys move when their topic grows; unkeyed records go as with `AdaptivePartitioner`.

    A key goes to its jump hash (`routing.jump`) over the partitions that there are, which moves as few keys
    as rendezvous hashing, after which ``mapping`` is called, for less work. Growth from m to n moves
    1 - m/n of the keys, all of them to new partitions, as soon as an instance sees it. Other clients place
    keys elsewhere, but for a Java program with Guava. With ``key_partitions`` no key moves at all.

    A client must not place a key by its own hash: `requires_metadata` is true for every topic.
    """

    def __init__(
        self, *, mapping: KeyMapping, rack: str | None = None, **options: Unpack[PartitionerOptions]
    ) -> None:
        """Make a partitioner.

        Args:
            mapping: How keys are spread over partitions: ``"rendezvous"``. It has no default, so that who
                reads the application sees that its keys are not where another client puts them.
            rack: See `AdaptivePartitioner`.
            **options: Those of `Partitioner`; the jump hash is on top of ``hash_name``.

        Raises:
            ConfigurationError: an argument is not one of its choices.
        """
        if mapping not in get_args(KeyMapping):
            raise ConfigurationError(
                f'mapping must be "rendezvous", not {mapping!r}; where no key may move, give any '
                'partitioner key_partitions={"orders": 12}'
            )
        super().__init__(rack=rack, **options)

    def _key_hash(self, name: HashName) -> KeyHash:
        return jump_hash(key_hash(name))

    def requires_metadata(self, topic: str) -> bool:
        """Return True: no client places a key by the jump hash."""
        return True
