"""The place with the fewest records on their way."""

import random
from collections.abc import Sequence

from kafka_partition_events.partitioners.choosers.choice import Choice, Chooser
from kafka_partition_events.partitioners.choosers.weights import evenly

COMPARED = 8
"""So many places are compared; of more than that, so many are drawn."""

IN_TURN = 0.01
"""The share of records that ignores loads."""


def least_loaded(*, rng: random.Random | None = None) -> Chooser:
    """Choose the place with the fewest records outstanding, a random one of several. Thread-safe.

    Of more than 8 places 8 are drawn, some maybe twice, and the best of these is chosen: that takes the same
    time however many there are, and does not send everybody to one place.

    One record in a hundred goes to the next place in turn. So a place never starves, not even if a client
    never tells what became of its records there.

    Args:
        rng: Draws places; for tests.
    """
    draw = (rng or random.Random()).random
    in_turn = evenly()

    def choose(choice: Choice) -> int:
        if draw() < IN_TURN:
            return in_turn(choice)
        places: Sequence[int] = choice.places
        if len(places) > COMPARED:
            places = [places[int(draw() * len(places))] for _ in range(COMPARED)]
        loads = choice.outstanding(places)
        least = min(loads)
        best = [place for place, load in zip(places, loads, strict=True) if load == least]
        return best[int(draw() * len(best))]

    return choose
