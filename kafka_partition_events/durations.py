"""How long something took, time after time: a histogram, cheap to keep and consistent to read. Pure."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from attrs import field, frozen


@frozen
class Durations:
    """How often something took how long. One writer at a time puts a new value in place of the old one.

    So a reader on any thread has bounds, counts and total of one moment without a lock. A count costs
    microseconds: not for what happens with each record.

    Attributes:
        bounds: Seconds, ascending.
        counts: How often it took at most so long, and longer than the bound before; the last: longer than
        all.
        total: Seconds that all of it took together.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...] = field()
    total: float = 0.0

    @counts.default
    def _none(self) -> tuple[int, ...]:
        return (0,) * (len(self.bounds) + 1)

    def plus(self, *seconds: float) -> "Durations":
        """Return these and some more; less than nothing, as clocks that differ may say, counts as nothing."""
        counts, total = list(self.counts), self.total
        for each in seconds:
            counts[bisect_left(self.bounds, each)] += 1
            total += max(0.0, each)
        return Durations(self.bounds, tuple(counts), total)

    def __add__(self, other: "Durations") -> "Durations":
        """Return both together.

        Raises:
            ValueError: their bounds differ.
        """
        if self.bounds != other.bounds:
            raise ValueError(f"durations with bounds {self.bounds} and {other.bounds} can't be added up")
        pairs = zip(self.counts, other.counts, strict=True)
        return Durations(self.bounds, tuple(a + b for a, b in pairs), self.total + other.total)

    @property
    def count(self) -> int:
        """How often it happened."""
        return sum(self.counts)

    def at_most(self) -> Iterator[tuple[float, int]]:
        """Yield each bound, then infinity, with how often it took at most so long."""
        return zip((*self.bounds, math.inf), accumulate(self.counts), strict=True)


NO_WORK: Final = Durations((0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0))
"""Nothing yet, with bounds for what this process does or asks for."""

NO_DELAYS: Final = Durations((0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0, 600.0, 3_600.0))
"""Nothing yet, with bounds for what waits until others can take it."""
