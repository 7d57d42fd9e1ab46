"""Shuffle sharding: a few partitions for each key, so that one key's flood reaches few of the others."""

import hashlib
import struct
from heapq import nlargest
from zlib import crc32

from attrs import define, evolve, field

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.choosers.choice import Choice, Chooser

SHARDS = 65_536
"""Keys are first put into so many shards: places are worked out for each shard, and not for each key."""

_MOST_TOPICS = 1_000


@define(eq=False)
class _Members:
    """The members of the shards that were asked for, of one set of places."""

    places: tuple[int, ...]
    by_shard: dict[int, tuple[int, ...]] = field(factory=dict)
    sets: dict[tuple[int, ...], tuple[int, ...]] = field(factory=dict)
    """One object for shards with the same members: the next chooser recognizes it."""


def shuffle_sharded(k: int, then: Chooser) -> Chooser:
    """Choose among the ``k`` places that belong to the record's key; unkeyed: among all places. Thread-safe.

    A key's places depend on the key and the places alone: they are the same in every process, after every
    restart, and for all topics with the same partitions. When places come or go, a key loses those that go,
    and swaps no more than it must (rendezvous hashing): growth from n to n + 1 changes one place of
    k / (n + 1) of the keys. Two keys share some places, rarely all: with 3 of 12, one pair in 220 does.

    Compose it outside of what depends on the producer (`near_rack`), or a key's places do so too.

    Args:
        k: How many places a key has; all, if there are fewer.
        then: Chooses among them, `least_loaded` for example.

    Raises:
        ConfigurationError: ``k`` is less than 1.
    """
    if k < 1:
        raise ConfigurationError(f"k must be at least 1 place, not {k}")
    topics: dict[str, _Members] = {}

    def choose(choice: Choice) -> int:
        if choice.key is None or len(choice.places) <= k:
            return then(choice)
        members = topics.get(choice.topic)
        if members is None or members.places is not choice.places:
            members = topics[choice.topic] = _renewed(members, choice.places)
            if len(topics) > _MOST_TOPICS:
                topics.clear()
        shard = crc32(choice.key) % SHARDS
        own = members.by_shard.get(shard)
        if own is None:
            own = places_of(shard, k, choice.places)
            own = members.by_shard[shard] = members.sets.setdefault(own, own)
        return then(choice.among(own))

    return choose


def _renewed(members: _Members | None, places: tuple[int, ...]) -> _Members:
    if members is None or members.places != places:
        return _Members(places)
    return evolve(members, places=places)  # some leader has changed, and no place


def places_of(shard: int, k: int, places: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ``k`` places that score highest in a shard, ascending. O(highest id).

    SHAKE-128 gives the scores of all partitions at once. Growth changes none of them: a longer output begins
    with the shorter one.
    """
    count = max(places) + 1
    scores = struct.unpack(f"<{count}I", hashlib.shake_128(struct.pack("<H", shard)).digest(4 * count))
    return tuple(sorted(nlargest(k, places, key=scores.__getitem__)))
