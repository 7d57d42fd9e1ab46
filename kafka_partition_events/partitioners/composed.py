"""A partitioner made of choosers."""

from typing import Literal, get_args

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.partitioners.choosers.choice import Choice, Chooser
from kafka_partition_events.partitioners.keys import KeyedPolicy
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.hashing import HashName
from kafka_partition_events.routing.table import Route

KeysBy = Literal["hash", "chooser"]


class ComposedPartitioner(Partitioner):
    """Unkeyed records go where a chooser says; keyed ones to their hash, or where the chooser says too.

    A chooser is asked about each record by itself, so batches are smaller than those of the partitioners that
    go by turns. What it says must be one of the choice's places; what it raises comes out of ``send``.
    """

    def __init__(
        self,
        chooser: Chooser,
        *,
        keys: KeysBy = "hash",
        budget: BufferBudget | None = None,
        keyed: KeyedPolicy = "pin",
        hash_name: HashName | None = None,
    ) -> None:
        """Make a partitioner.

        Args:
            chooser: Who chooses; see `kafka_partition_events.partitioners.choosers`.
            keys: ``"hash"``: keyed records go to their hash partition, as everywhere. ``"chooser"``: they are
                placed by the chooser, which sees the key. They avoid offline partitions and suspect brokers
                then, but for single ones that probe these, and records of one key lose their order where it
                has several places.
            budget: A cap on the partitions that the chooser chooses among; None: no cap.
            keyed: What happens to a keyed record whose hash partition is offline; see `Partitioner`.
            hash_name: The key hash. With ``keys="chooser"`` confluent-kafka places keyed records by it as
                long as a topic is unknown.

        Raises:
            ConfigurationError: an argument is not one of its choices, or ``keyed`` is given for keys that do
                not go by their hash.
        """
        if not callable(chooser):
            raise ConfigurationError(f"chooser must be a function, such as evenly() returns, not {chooser!r}")
        if keys not in get_args(KeysBy):
            raise ConfigurationError(f"keys must be one of {', '.join(get_args(KeysBy))}, not {keys!r}")
        if keys == "chooser" and keyed != "pin":
            raise ConfigurationError(
                f'keyed="{keyed}" is for keys that go to their hash, and with keys="chooser" none do'
            )
        super().__init__(budget=budget, keyed=keyed, hash_name=hash_name)
        self.ignores_keys = keys == "chooser"
        self.keying.by_hash = self.keying.by_hash and keys == "hash"
        self._chooser = chooser

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return a key's hash partition, or what the chooser says."""
        if key is not None and not self.ignores_keys:
            return self.keyed_partition(route, key)
        racks = self.routing.racks
        return self._chooser(Choice(route, topic, key, value, route.usable, self.deliveries, racks))
