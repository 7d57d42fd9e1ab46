"""Monotone hashes: growth moves a key to a new partition or not at all. Pure.

So a key is on a partition from when that is the newest one until it moves on: with every number of partitions
in between. The key alone does not say which of them placed it; `fewest_counts` explains all keys by few.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from kafka_partition_events.routing.hashing import KeyHash

Range = tuple[int, int]
"""From and to, both included."""


def fewest_counts(
    place: KeyHash, placements: Iterable[tuple[bytes, int]], partitions: int
) -> tuple[Range, ...]:
    """Return the fewest numbers of partitions with which a hash explains where keys are, ascending.

    It is the piercing of intervals by the fewest points, which is found by going through them by their ends.

    Args:
        place: A monotone hash.
        placements: Keys, and partitions on which the hash has put them at some time.
        partitions: How many there are now.

    Returns:
        For each of the numbers a range, of which any will do.
    """
    intervals = sorted((_last(place, key, on, partitions), on + 1) for key, on in placements)
    points: list[int] = []
    for last, first in intervals:
        if not points or points[-1] < first:
            points.append(last)
    # Each interval is left to the last point in it; the others are the freer then to lie farther ahead.
    firsts = dict.fromkeys(points, 1)
    for last, first in intervals:
        point = points[bisect_right(points, last) - 1]
        firsts[point] = max(first, firsts[point])
    return tuple((first, point) for point, first in firsts.items())


def mean_places(partitions: int) -> float:
    """Return on how many partitions a key is, one after the other, from 2 up to so many; the mean."""
    return 1 + sum(1 / count for count in range(3, partitions + 1))


def _last(place: KeyHash, key: bytes, partition: int, partitions: int) -> int:
    """Return the largest number of partitions with which a key is on this one."""
    if place(key, partitions) == partition:
        return partitions
    later = range(partition + 1, partitions)
    return partition + bisect_left(later, True, key=lambda count: place(key, count) != partition)
