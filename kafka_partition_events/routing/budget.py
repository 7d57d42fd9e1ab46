"""How many partitions a producer can afford, and which ones (KIP-34). Pure.

A producer that batches needs a batch buffer for every partition that it writes to. When a topic grows, a
producer whose memory was sized for fewer partitions blocks or drops records. A budget keeps such a producer
on as many partitions as its memory affords.
"""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from kafka_partition_events.errors import ConfigurationError


@frozen
class Share:
    """What one topic is granted, if that is not all of it.

    Attributes:
        count: How many partitions.
        ranking: Every partition of the topic in this instance's order of preference.
    """

    count: int
    ranking: tuple[int, ...]

    def among(self, up: Iterable[int]) -> tuple[int, ...]:
        """Return those of first choice, ascending; for each that is not up the next one that is stands in."""
        there = frozenset(up)
        return tuple(sorted(islice((p for p in self.ranking if p in there), self.count)))


def _positive(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")


def numbers_by_topic(numbers: Any, option: str = "max_partitions") -> Mapping[str, int]:
    """Return numbers of partitions by topic, read-only; raise `ConfigurationError` if they are none."""
    if not isinstance(numbers, Mapping):
        raise ConfigurationError(
            f'{option} must be numbers by topic, such as {{"orders": 12}}, not {numbers!r}'
        )
    for topic, number in numbers.items():
        _positive(f"{option}[{topic!r}]", number)
    return MappingProxyType(dict(numbers))


@frozen(kw_only=True)
class BufferBudget:
    """A cap on the partitions that unkeyed records of one producer go to.

    Keyed records are not capped: their order and their co-partitioning with other topics come first.

    The instance id seeds which partitions are chosen: one instance chooses the same ones after every restart,
    and a fleet with different ids covers all (rendezvous hashing), evenly but for chance: 50 instances with 4
    of 12 partitions have up to about 1.5 times the mean.

    Attributes:
        buffer_memory: Bytes that the producer may use for batches, over all topics that it writes.
        batch_size: Bytes of one batch. ``buffer_memory // batch_size`` partitions are affordable.
        max_partitions: A limit of its own for some topics: name -> number of partitions.
        instance_id: What names this instance among others and stays the same over restarts: a pod name, say.
            Random when not given: then every restart chooses again.

    Raises:
        ConfigurationError: a value is not positive, or only one of the two sizes is given.
    """

    buffer_memory: int | None = None
    batch_size: int | None = None
    max_partitions: Mapping[str, int] = field(factory=dict, converter=numbers_by_topic)
    instance_id: str = field(factory=lambda: uuid.uuid4().hex)

    def __attrs_post_init__(self) -> None:
        _positive("buffer_memory", self.buffer_memory)
        _positive("batch_size", self.batch_size)
        if (self.buffer_memory is None) != (self.batch_size is None):
            raise ConfigurationError("buffer_memory and batch_size (both in bytes) must be given together")
        if self.affordable is not None and self.affordable < 1:
            raise ConfigurationError(
                f"buffer_memory={self.buffer_memory} holds not even one batch of batch_size={self.batch_size}"
            )

    @property
    def affordable(self) -> int | None:
        """How many partitions the memory affords over all topics; None: no such limit."""
        if self.buffer_memory is None or self.batch_size is None:
            return None
        return self.buffer_memory // self.batch_size

    def admit(self, counts: Mapping[str, int]) -> Mapping[str, Share]:
        """Return the share of each topic that does not get all its partitions, but one at least.

        ``counts``: how many partitions each topic has, without Kafka's own topics.

        Memory is shared evenly between the topics. What is granted follows from the cluster alone, so it does
        not matter which topic was seen first, or in which run. A topic that grows may take from others.
        """
        wanted = {n: min(count, self.max_partitions.get(n, count)) for n, count in counts.items()}
        granted = wanted if self.affordable is None else share_out(self.affordable, wanted)
        rankings = {
            n: _shuffled(f"{self.instance_id}\0{n}", counts[n]) for n in counts if granted[n] < counts[n]
        }
        return {n: Share(granted[n], ranking) for n, ranking in rankings.items()}


@lru_cache(maxsize=64)
def _shuffled(seed: str, count: int) -> tuple[int, ...]:
    """Return so many partitions, sorted by a hash of the seed and their id: each process gets the same."""
    seeded = hashlib.blake2b(f"{seed}\0".encode(), digest_size=8)

    def score(partition: int) -> bytes:
        mixed = seeded.copy()
        mixed.update(b"%d" % partition)
        return mixed.digest()

    return tuple(sorted(range(count), key=score))


def share_out(total: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Share evenly among all, at least one each, even beyond the total."""
    granted: dict[str, int] = {}
    # The most modest first: what it does not take is left to the others.
    for name in sorted(wanted, key=lambda name: (wanted[name], name)):
        granted[name] = max(1, min(wanted[name], total // (len(wanted) - len(granted))))
        total -= granted[name]
    return granted
