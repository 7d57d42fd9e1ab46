"""Choice in exact proportions: every weight gets its share of each round, evenly spread over it. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import gcd

from attrs import frozen

FLOOR = 20
"""The best place gets at most this many times what the worst gets: nothing starves."""

_GOLDEN = 0.6180339887498949


@frozen
class Wheel:
    """Places and their share of each round of ``total`` steps.

    Step n is at ``n * stride mod total``, and the stride has no common divisor with the total: so a round
    visits each point once, and a stride near the golden section of the total spreads a place's points evenly.
    A drawn number (KIP-794) would have the proportions on average only.
    """

    places: tuple[int, ...]
    ends: tuple[int, ...]
    stride: int

    def at(self, step: int) -> int:
        """Return the place of a step. O(log n)."""
        return self.places[bisect_right(self.ends, step * self.stride % self.ends[-1])]


def make_wheel(places: Sequence[int], weights: Sequence[int]) -> Wheel:
    """Make a wheel of at least one place; weights are at least 1."""
    ends = tuple(accumulate(weights))
    total = ends[-1]
    stride = max(1, round(total * _GOLDEN))
    while gcd(stride, total) != 1:
        stride += 1
    return Wheel(tuple(places), ends, stride)


def adaptive_weights(queues: Sequence[int]) -> list[int]:
    """Return KIP-794's weights: the longest queue gets 1, and each one less in the queue one more.

    Unlike there, the longest queue gets a twentieth of the best weight at least.
    """
    best = max(queues) + 1
    least = -(-best // FLOOR)
    return [max(least, best - queue) for queue in queues]
