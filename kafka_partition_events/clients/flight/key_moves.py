"""Where the records of a key go while its home needs a broker that is sick. Pure."""

from hashlib import blake2b
from typing import Final, Literal, NamedTuple

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.routing.table import Route

KeysMode = Literal["stay", "move"]
"""``"stay"``: a key's partition never changes. ``"move"``: while it needs a sick broker another one takes the
key's records, which name what they come after (see ``predecessors.py``)."""

_DRAWS: Final = 64  # partitions of a key's sequence that are tried before all that are well are
_FACTOR: Final = 6364136223846793005  # Knuth's, of MMIX


@frozen(kw_only=True)
class MoveKeys:
    """How keys move: ``keys="move"`` with other limits.

    Attributes:
        most_displaced: How many keys may be away from home at once; further ones wait. Each takes some 500
            bytes.
        compacted_ok: Keys move in compacted topics, too, and where one may not ask. There each
            partition keeps a latest value of the key, and the old one is never removed.
    """

    most_displaced: int = 100_000
    compacted_ok: bool = False

    def __attrs_post_init__(self) -> None:
        """Refuse a limit that lets no key move."""
        if self.most_displaced < 1:
            raise ConfigurationError(f"most_displaced must be at least 1, not {self.most_displaced}")


@frozen(kw_only=True)
class KeyStats:
    """What became of keyed records.

    Attributes:
        displaced: Keys that are away from home now.
        moved: How often a key has left its home.
        waiting: Records that wait until an earlier one of their key is acknowledged or has failed.
        refused: Topics whose keys stay, as they are compacted or one may not ask.
    """

    displaced: int = 0
    moved: int = 0
    waiting: int = 0
    refused: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where a record goes."""

    partition: int
    handle: int


def is_well(route: Route, partition: int) -> bool:
    """Return whether a partition has a leader and needs no suspect."""
    return route.is_online(partition) and route.is_safe(partition)


def stand_in(route: Route, key: bytes) -> int:
    """Return the partition that takes a key's records while its home is not well; there must be one.

    Each key has its own sequence of partitions, and the first that is well takes it: so it changes only when
    that one, or one before it, does.
    """
    state = int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
    for _ in range(_DRAWS):
        state = (state * _FACTOR + 1) % 2**64  # a linear congruential generator: the upper bits count
        if is_well(route, partition := (state >> 32) % route.count):
            return partition
    well = route.online if route.safe is None else sorted(route.safe)
    return well[(state >> 32) % len(well)]
