"""Who writes what in the campaign, and what may be expected of it. Pure; it knows no library of ours."""

from collections.abc import Mapping
from typing import Final, Literal

from attrs import frozen

DELIVERY_S = 20.0
CAP = 4
KEYS = 40
"""Keys of each writer; no two writers share one."""

Hash = Literal["crc32", "murmur2"]


@frozen(kw_only=True)
class Writer:
    """One producing process, and what is promised to it.

    Attributes:
        client: ``confluent``, ``kafka-python`` or, of asyncio, ``confluent-aio`` or ``aiokafka``.
        ours: Whether the library chooses the partitions.
        topics: Which it writes, in turn.
        rate: Records a second.
        keyed: Which share of the records has a key.
        acks: As Kafka has it.
        idempotent: Whether its keyed records are in order within a partition, and there once.
        delivery_s: The time-out of one delivery.
        rescue: ``hedge``, or nothing.
        moves: Whether its keys leave a partition that needs a sick broker.
        special: What else: ``key_partitions``, ``capped``, ``gated``.
        hash: By which its keys are placed.
    """

    client: Literal["confluent", "kafka-python", "confluent-aio", "aiokafka"]
    ours: bool = True
    topics: tuple[str, ...] = ("orders", "volatile")
    rate: float = 10.0
    keyed: float = 0.5
    acks: Literal["all", "1"] = "all"
    idempotent: bool = True
    delivery_s: float = DELIVERY_S
    rescue: Literal["hedge"] | None = None
    moves: bool = False
    special: frozenset[str] = frozenset()

    @property
    def finish_s(self) -> float:
        """Beyond that a record without an outcome counts as lost by the client: four attempts fit in."""
        return 5 * self.delivery_s

    @property
    def hash(self) -> Hash:
        return "crc32" if self.librdkafka else "murmur2"

    @property
    def librdkafka(self) -> bool:
        return self.client in {"confluent", "confluent-aio"}


_KEPT: Final = frozenset({"key_partitions"})
WRITERS: Final[Mapping[str, Writer]] = {
    "plain-c": Writer(client="confluent", ours=False),
    "ours-c": Writer(client="confluent", topics=("orders", "volatile", "single"), idempotent=False),
    "hedge-c": Writer(client="confluent", rescue="hedge", keyed=0.2),
    "keyed-c": Writer(client="confluent", keyed=1.0),
    "kept-c": Writer(client="confluent", topics=("kept",), keyed=0.8, special=_KEPT),
    "capped-c": Writer(client="confluent", topics=("orders",), keyed=0.0, special=frozenset({"capped"})),
    "gated-c": Writer(client="confluent", topics=("gated",), special=frozenset({"gated"})),
    "moved-c": Writer(
        client="confluent", topics=("kept",), keyed=1.0, rescue="hedge", moves=True, special=_KEPT
    ),
    "aio-c": Writer(client="confluent-aio", rescue="hedge"),
    "loose-c": Writer(client="confluent", topics=("loose",), acks="1", idempotent=False),
    "plain-k": Writer(client="kafka-python", ours=False, idempotent=False),
    "ours-k": Writer(client="kafka-python"),
    "hedge-k": Writer(client="kafka-python", rescue="hedge", keyed=0.2),
    "moved-k": Writer(
        client="kafka-python", topics=("kept",), keyed=1.0, rescue="hedge", moves=True, special=_KEPT
    ),
    "aio-k": Writer(client="aiokafka", rescue="hedge", idempotent=False),
    "gated-k": Writer(client="kafka-python", topics=("gated",), special=frozenset({"gated"})),
}

WEAK: Final = frozenset({"loose"})
"""Topics whose acknowledged records may be lost: two replicas, acks=1, unclean elections. It is checked
that each record has one outcome and that nothing is there that nobody has sent."""
