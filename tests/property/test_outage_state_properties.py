"""However sightings arrive, the log says at last what all of them say at once."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_partition_events.spark.fleet.outage_spells import NAMES, Kind, Sighting
from kafka_partition_events.spark.fleet.outage_state import fold
from tests.outage_kit import SECOND, Log, World, batch, delivered, split

SEEDS = st.integers(0, 2**48)
FOR_EVER_US = 10**9 * SECOND


@settings(max_examples=300)
@given(seed=SEEDS, observers=st.integers(1, 3), steps=st.integers(1, 40), batches=st.integers(1, 8))
def test_any_order_and_any_batches_give_what_all_sightings_at_once_give(
    seed: int, observers: int, steps: int, batches: int
) -> None:
    chance = random.Random(seed)
    told = World(chance, observers=observers, steps=steps).run()
    rows = delivered(told, chance, disorder_s=0)
    chance.shuffle(rows)
    log = Log(FOR_EVER_US)
    for part in split(rows, chance, batches):
        log.take(part)
    assert log.latest == batch(told)
    assert not log.late


@settings(max_examples=300)
@given(
    seed=SEEDS,
    observers=st.integers(1, 3),
    steps=st.integers(40, 250),
    batches=st.integers(1, 40),
    late_s=st.sampled_from([60, 90, 300]),
)
def test_what_settles_is_what_it_was(
    seed: int, observers: int, steps: int, batches: int, late_s: int
) -> None:
    """Rows are out of order by as much as the log waits for: only a bound of what is settled can be late."""
    chance = random.Random(seed)
    told = World(chance, observers=observers, steps=steps).run()
    rows = delivered(told, chance, disorder_s=late_s, doubles=0)
    log, taken = Log(late_s * SECOND), list[Sighting]()
    for part in split(rows, chance, batches):
        taken += accepted(log, part)
    assert log.latest == batch(taken)
    assert all(word.began_after is not None for word in log.late)


@settings(max_examples=300)
@given(seed=SEEDS, observers=st.integers(1, 3), batches=st.integers(2, 40))
def test_what_is_not_given_back_as_late_is_in_the_log(seed: int, observers: int, batches: int) -> None:
    chance = random.Random(seed)
    told = World(chance, observers=observers, steps=120).run()
    rows = delivered(told, chance, disorder_s=chance.choice((30, 600, 3000)))
    log, taken = Log(60 * SECOND), list[Sighting]()
    for part in split(rows, chance, batches):
        taken += accepted(log, part)
    assert log.latest == batch(taken)


def accepted(log: Log, rows: list[Sighting]) -> list[Sighting]:
    """Let a log take a batch; return what it took of it."""
    words = log.take(rows)
    late = {(word.partition, word.late, word.began_after, word.began_by) for word in words if word.late}
    return [row for row in rows if (row.partition, NAMES[Kind(row.kind)], row.prev_at, row.at) not in late]


@settings(max_examples=100)
@given(seed=SEEDS)
def test_sightings_that_come_again_say_nothing(seed: int) -> None:
    chance = random.Random(seed)
    told = World(chance).run()
    log = Log(FOR_EVER_US)
    log.take(told)
    state = log.state
    assert log.take(delivered(told, chance, disorder_s=0)) == []
    assert log.state == state


@settings(max_examples=50)
@given(seed=SEEDS)
def test_a_batch_that_is_repeated_gives_the_same_state_and_words(seed: int) -> None:
    chance = random.Random(seed)
    rows = World(chance).run()
    half = len(rows) // 2
    state, _ = fold(None, rows[:half], late=60 * SECOND)
    again = rows[half:]
    first = fold(state, again, late=60 * SECOND)
    chance.shuffle(again)
    assert first == fold(state, again, late=60 * SECOND)
