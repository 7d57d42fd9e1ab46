"""Shares that are known beforehand: the same for all, or by partition or broker."""

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal, get_args

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.choosers.choice import Choice, Chooser
from kafka_partition_events.partitioners.choosers.wheels import Wheels
from kafka_partition_events.routing.table import Route

WeightsBy = Literal["partition", "broker"]

_LEAST, _MOST = 1e-9, 1e15
"""Bounds of weights: as whole numbers in the same proportion, they still have to fit a float."""


def evenly() -> Chooser:
    """Choose each place once before any is chosen again.

    Of every set of places the records are spread to within one, also when sets alternate, and under threads.
    It begins at a random place. Thread-safe.
    """
    return weighted({})


def weighted(weights: Mapping[int, float], *, by: WeightsBy = "partition") -> Chooser:
    """Choose in exact proportion to weights, evenly mixed. Thread-safe.

    Args:
        weights: The weight of each partition or broker by its id: 0, or 1e-9 to 1e15. One that is not named
            has 1. With a weight of 0 it is chosen only if nothing else is left.
        by: Whether the ids are those of partitions or of brokers. A broker's share is divided evenly among
            the places that it leads, however many these are. Who leads is known from a poller: without one
            all brokers are the same.

    Raises:
        ConfigurationError: a weight is negative, out of bounds or no number, an id is none, or ``by`` is
            something else.
    """
    if by not in get_args(WeightsBy):
        raise ConfigurationError(f"by must be one of {', '.join(get_args(WeightsBy))}, not {by!r}")
    exact = {id_: _exact(by, id_, weight) for id_, weight in weights.items()}
    one = math.lcm(*(weight.denominator for weight in exact.values()))
    whole: dict[int | None, int] = {id_: int(weight * one) for id_, weight in exact.items()}

    def by_partition(choice: Choice, _route: Route) -> list[int]:
        return [whole.get(place, one) for place in choice.places]

    def by_broker(choice: Choice, route: Route) -> list[int]:
        leaders = [route.leader(place) for place in choice.places]
        led = Counter(leaders)
        divisible = math.lcm(*led.values())
        return [whole.get(leader, one) * divisible // led[leader] for leader in leaders]

    wheels = Wheels(by_partition if by == "partition" else by_broker)

    def choose(choice: Choice) -> int:
        return wheels.turn(choice, choice.route)

    return choose


def _exact(by: str, id_: object, weight: object) -> Fraction:
    """Return a weight as it is written: 0.1 is a tenth, and not the binary number next to it."""
    if isinstance(id_, bool) or not isinstance(id_, int):
        raise ConfigurationError(f"weights go by the {by}'s id, a whole number, not by {id_!r}")
    if (
        isinstance(weight, bool)
        or not isinstance(weight, int | float)
        or not (weight == 0 or _LEAST <= weight <= _MOST)
    ):
        raise ConfigurationError(
            f"the weight of {by} {id_} must be 0 or a number from {_LEAST:g} to {_MOST:g}, not {weight!r}"
        )
    return Fraction(str(weight))
