"""Choice in exact proportion to weights, among whatever sets of places are asked about."""

from collections.abc import Callable, Sequence
from itertools import count
from math import gcd
from random import randrange
from typing import Generic, TypeVar

from attrs import evolve, frozen

from kafka_partition_events.partitioners.choosers.choice import Choice
from kafka_partition_events.routing.wheel import Wheel, make_wheel

_MOST = 10_000
"""Wheels are kept for so many sets of places; beyond that all begin anew, each at a random step."""

Source = TypeVar("Source")


@frozen(eq=False)
class _Spin:
    """The wheel of one set of places, what its weights were made from, and how far it has turned."""

    places: tuple[int, ...]
    source: object
    wheel: Wheel
    steps: "count[int]"


class Wheels(Generic[Source]):
    """A wheel for each topic and set of places, which waits where it is while others turn. Thread-safe.

    One counter for all would be unfair: where two sets are asked about by turns, each would see every other
    step only. ``next`` on a C counter is atomic, so that no step is taken twice.
    """

    def __init__(self, weigh: Callable[[Choice, Source], Sequence[int]]) -> None:
        """Make wheels when they are needed.

        Args:
            weigh: Returns the weight of each place, 0 or more. It is asked again for another set of places,
                and for another source.
        """
        self._weigh = weigh
        self._latest: dict[str, _Spin] = {}
        self._spins: dict[tuple[str, tuple[int, ...]], _Spin] = {}

    def turn(self, choice: Choice, source: Source) -> int:
        """Return the next place. O(log n), and O(n) for another set of places or another source.

        Args:
            choice: What is to be chosen among.
            source: What the weights are made from: they are taken to be the same for the same object.
        """
        spin = self._latest.get(choice.topic)
        if spin is None or spin.places is not choice.places or spin.source is not source:
            spin = self._latest[choice.topic] = self._spin(choice, source)
        return spin.wheel.at(next(spin.steps))

    def _spin(self, choice: Choice, source: Source) -> _Spin:
        places, key = choice.places, (choice.topic, choice.places)
        spin = self._spins.get(key)
        if spin is None:
            wheel = _wheel(places, self._weigh(choice, source))
            if len(self._spins) >= _MOST:
                self._latest.clear()
                self._spins.clear()
            # Of two threads that come here together, both take the steps of the first one.
            spin = _Spin(places, source, wheel, count(randrange(wheel.ends[-1])))
            return self._spins.setdefault(key, spin)
        if spin.source is not source:
            wheel = _wheel(places, self._weigh(choice, source))
            spin = self._spins[key] = _Spin(places, source, wheel, spin.steps)
        elif spin.places is not places:
            spin = self._spins[key] = evolve(spin, places=places)
        return spin


def _wheel(places: tuple[int, ...], weights: Sequence[int]) -> Wheel:
    """Return the wheel of the places that weigh something, of all if none does."""
    unit = gcd(*weights)
    if not unit:
        return make_wheel(places, [1] * len(places))
    heavy = [(place, weight // unit) for place, weight in zip(places, weights, strict=True) if weight]
    return make_wheel([place for place, _ in heavy], [weight for _, weight in heavy])
