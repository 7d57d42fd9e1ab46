"""What a seed means: the same plan each time, and one that a cluster can recover from."""

from itertools import combinations

import pytest

from tests.chaos.plan import DOWN, FAULTS, KINDS, MOST_DOWN, SIZES, Step, plan

SEEDS = range(20)


def overlap(one: Step, other: Step) -> bool:
    return one.begin < other.begin + other.lasts and other.begin < one.begin + one.lasts


def test_the_same_seed_is_the_same_plan() -> None:
    assert plan(7, 600.0) == plan(7, 600.0) != plan(8, 600.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_done_twice_at_once_to_one_thing_and_one_broker_is_always_up(seed: int) -> None:
    for storm in range(len(plan(seed, 600.0).storms)):
        faults = [step for step in plan(seed, 600.0).steps_of(storm) if step.kind in FAULTS]
        for one, other in combinations(faults, 2):
            assert not (overlap(one, other) and one.claims & other.claims), (one, other)
        for step in faults:
            at_once = [each for each in faults if each.kind in DOWN and overlap(each, step)]
            assert len({each.target for each in at_once if each.begin <= step.begin}) <= MOST_DOWN


@pytest.mark.parametrize("seed", SEEDS)
def test_each_storm_ends_before_its_calm_begins(seed: int) -> None:
    planned = plan(seed, 300.0)
    for storm, (_, end) in enumerate(planned.storms):
        assert all(step.begin + step.lasts <= end + 0.01 for step in planned.steps_of(storm))


@pytest.mark.parametrize("seed", SEEDS)
def test_topics_only_grow_but_for_those_that_are_made_anew(seed: int) -> None:
    sizes = {topic: least for topic, (least, _) in SIZES.items()}
    for step in plan(seed, 3600.0).steps:
        if step.kind == "grow":
            assert sizes[step.target] < step.value <= SIZES[step.target][1]
        if step.kind in {"grow", "recreate"}:
            sizes[step.target] = round(step.value)
    assert all(sizes[topic] > SIZES[topic][0] for topic in ("orders", "kept", "gated"))


def test_an_hour_has_all_kinds_of_faults() -> None:
    assert {step.kind for step in plan(1, 3600.0).steps} == KINDS.keys()
