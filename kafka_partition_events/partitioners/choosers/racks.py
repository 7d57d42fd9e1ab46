"""KIP-1123 with overflow: partitions that are led in the own rack first, unless they are too busy."""

import time
from collections.abc import Callable, Mapping
from itertools import compress
from operator import not_

from attrs import define

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.choosers.choice import Choice, Chooser
from kafka_partition_events.routing.table import Route

LOOK_S = 0.025
LOOK_S_PER_PLACE = 1e-5
"""How often loads are looked at: looking takes 1% of the time at most."""


@define(eq=False)
class _Split:
    """A topic's places, by whether they are led in the rack, and which ones are too busy."""

    route: Route
    places: tuple[int, ...]
    racks: Mapping[int, str | None]
    near: tuple[int, ...]
    far: tuple[int, ...]
    crowded: bool = False
    next_look: float = 0.0


def near_rack(
    rack: str, then: Chooser, *, spill: float, clock: Callable[[], float] = time.monotonic
) -> Chooser:
    """Choose among the places that are led in a rack, or among all while those are too busy. Thread-safe.

    All places are also chosen among if none is led in the rack, or racks are not known: they come with a
    poller's snapshot. Loads are looked at 40 times a second at most.

    KIP-1123 prefers the own rack whatever happens there; producers that are spread unevenly over racks then
    overload its brokers while others are idle.

    Args:
        rack: The rack that the producer is in (``client.rack``).
        then: Chooses among what is left.
        spill: How many more records may be on their way to a place in the rack than to one outside, on
            average. With 1,000 records/s for each place, 50 are 50 ms more than elsewhere; what lingers in
            the client to fill a batch counts too. ``math.inf``: never spill.
        clock: Monotonic seconds; for tests.

    Raises:
        ConfigurationError: ``spill`` is negative or no number.
    """
    if not spill >= 0:
        raise ConfigurationError(f"spill must be a number of records, 0 or more, not {spill!r}")
    splits: dict[str, _Split] = {}

    def choose(choice: Choice) -> int:
        split = splits.get(choice.topic)
        if (
            split is None
            or split.places is not choice.places
            or split.route is not choice.route
            or split.racks is not choice.racks
        ):
            split = splits[choice.topic] = _split(choice, rack)
        if not split.near or not split.far:
            return then(choice)
        now = clock()
        if now >= split.next_look:
            split.next_look = now + max(LOOK_S, LOOK_S_PER_PLACE * len(split.places))
            split.crowded = _mean_load(choice, split.near) - _mean_load(choice, split.far) > spill
        return then(choice if split.crowded else choice.among(split.near))

    return choose


def _split(choice: Choice, rack: str) -> _Split:
    is_near = [choice.rack(place) == rack for place in choice.places]
    near = tuple(compress(choice.places, is_near))
    far = tuple(compress(choice.places, map(not_, is_near)))
    return _Split(choice.route, choice.places, choice.racks, near, far)


def _mean_load(choice: Choice, places: tuple[int, ...]) -> float:
    return sum(choice.outstanding(places)) / len(places)
