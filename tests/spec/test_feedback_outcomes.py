"""What delivery feedback comes to in a simulated world: faults that it must see, noise that it must not."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafka_partition_events import Suspicion
from kafka_partition_events.health.policy import DetectorPolicy
from tests.feedback_simulator import (
    Dead,
    Fault,
    Frozen,
    Latency,
    Pause,
    Refused,
    Restarted,
    Simulation,
    Slow,
    Throttled,
    noisy,
    once,
    usual,
)

NOBODY = DetectorPolicy(shortest_stall=1e9, longest_stall=1e9)
SEEDS = range(5)
SLOW = pytest.mark.slow
EACH_SEED = [
    0,
    *(pytest.param(seed, marks=SLOW) for seed in SEEDS[1:3]),
    *(pytest.param(seed, marks=pytest.mark.weekly) for seed in SEEDS[3:]),
]
TWO_SEEDS = [0, pytest.param(1, marks=SLOW)]
RNG = random.Random(7)
STOPS = [Pause(at=1 + 0.9 * i, seconds=RNG.uniform(0.1, 0.5)) for i in range(20)]


@pytest.mark.parametrize("seed", EACH_SEED)
def test_a_healthy_cluster_is_used_evenly_and_nobody_is_suspected(seed: int) -> None:
    outcome = Simulation(seed=seed, seconds=10).run()
    assert outcome.suspected == []
    assert outcome.late == 0
    assert all(outcome.share_to(broker) == pytest.approx(1 / 3, abs=0.005) for broker in (1, 2, 3))


@pytest.mark.parametrize("seed", EACH_SEED)
def test_brown_out_at_most_one_record_in_200_is_late(seed: int) -> None:
    """One of three brokers stands still for 0.4 s of each 0.5 s. Without feedback a quarter is late."""
    since = 2.5 + seed / 10
    outcome = Simulation(seed=seed, since=since, faults={1: Frozen(since=since)}).run()
    assert outcome.late_share <= 0.005
    assert outcome.share_to(1) <= 0.02
    assert {event.broker for _, event in outcome.suspected} == {1}
    without = Simulation(seed=seed, since=since, faults={1: Frozen(since=since)}, policy=NOBODY).run()
    # Without a judge turns still go where no queue grows.
    assert without.late_share > outcome.late_share, "else this shows nothing"


@SLOW
def test_brown_out_that_lasts_costs_less_with_time() -> None:
    outcome = Simulation(seconds=60, since=2.7, faults={1: Frozen(since=2.7)}).run()
    assert outcome.late_share <= 0.001
    assert outcome.probes <= 60


@pytest.mark.parametrize("seed", EACH_SEED)
@pytest.mark.parametrize("told_after", [0.002, None], ids=["connection lost", "host lost"])
def test_kill_at_most_40_records_go_to_the_dead_broker(seed: int, told_after: float | None) -> None:
    since = 2.5 + seed / 10
    outcome = Simulation(seed=seed, since=since, faults={1: Dead(since=since, told_after=told_after)}).run()
    assert outcome.to[1] <= 40
    ((_, event),) = outcome.suspected
    assert event.reason is (Suspicion.SILENT if told_after is None else Suspicion.UNREACHABLE)
    assert outcome.suspects == {1}


@pytest.mark.parametrize("whole_process", [True, False], ids=["whole process", "one thread"])
@pytest.mark.parametrize("seed", EACH_SEED)
def test_our_own_stops_make_nobody_suspect(seed: int, whole_process: bool) -> None:
    stops = [Pause(at=p.at, seconds=p.seconds, whole_process=whole_process) for p in STOPS]
    outcome = Simulation(seed=seed, seconds=20, pauses=stops).run()
    assert outcome.suspected == []
    assert sum(outcome.excluded_s.values()) == 0


@SLOW
@pytest.mark.parametrize(
    "latency",
    [usual(spread=0.6), noisy(spread=0.6, spikes=0), noisy(spread=0.6, spikes=0.002, longest=0.06)],
    ids=["spread", "slower and spread", "spikes"],
)
def test_noise_that_all_brokers_have_excludes_them_for_less_than_2_percent(latency: Latency) -> None:
    outcomes = [Simulation(seed=seed, seconds=20, latency=latency).run() for seed in SEEDS]
    assert sum(sum(o.excluded_s.values()) for o in outcomes) <= 0.02 * 3 * 20 * len(outcomes)
    assert max(len(o.suspected) for o in outcomes) <= 30
    for o in outcomes:
        assert all(o.share_to(broker) == pytest.approx(1 / 3, abs=0.02) for broker in (1, 2, 3))


@SLOW
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_heavy_noise_makes_at_most_twice_as_many_records_late_as_without_feedback(seed: int) -> None:
    """One answer in a hundred takes up to 150 ms longer; on average feedback makes some more late."""
    late = {
        policy: Simulation(seed=seed, seconds=30, latency=noisy(), policy=policy).run().late_share
        for policy in (DetectorPolicy(), NOBODY)
    }
    assert late[DetectorPolicy()] <= 2 * late[NOBODY]
    assert late[DetectorPolicy()] < 0.02


@SLOW
@pytest.mark.parametrize("seed", SEEDS[:2])
def test_a_broker_that_stays_slow_is_used_again_within_two_minutes(seed: int) -> None:
    simulation = Simulation(seed=seed, seconds=120, since=2.7, rate=1000, faults={1: Slow(since=2.7)})
    outcome = simulation.run()
    assert outcome.by_broker_and_second[1, 5] < 20, "not at once"
    assert sum(outcome.by_broker_and_second[1, second] for second in range(110, 120)) > 1000


# -- acks=all: six brokers, 24 partitions, three replicas, two ways ---------------------------------


def six(**words: Any) -> Simulation:
    usually: dict[str, Any] = {
        "brokers": 6, "partitions": 24, "replication": 3, "ways": 2, "rate": 500.0, "latency": usual(0.001),
        "time_out": 5.0, "since": 2.5, "seconds": 12.0,
    }  # fmt: skip
    return Simulation(**usually | words)


Faults = Mapping[int, Fault | Sequence[Fault]]


@pytest.mark.parametrize(
    ("faults", "most_late", "most_failed"),
    [
        pytest.param({2: once(2.5, 6)}, 0.005, 30, id="frozen for 6 s"),
        pytest.param({1: once(2.5, 2), 3: once(5, 2), 5: once(7.5, 2)}, 0.01, 0, id="frozen in turns"),
        pytest.param({2: Frozen(since=2.5, until=9)}, 0.01, 0, id="brown-out"),
        pytest.param({2: Dead(since=2.5)}, 0.005, 30, id="dead"),
        pytest.param({2: Dead(since=2.5, told_after=None)}, 0.005, 30, id="host lost"),
        pytest.param({2: once(2.5, 6, "replica")}, 0.01, 30, id="as a replica only"),
        pytest.param({2: once(2.5, 6, "clients")}, 0.005, 10, id="its link to clients is silent"),
        pytest.param({2: Slow(since=2.5, until=9, hits="clients")}, 0.01, 0, id="its link is slow"),
    ],
)
@pytest.mark.parametrize("seed", TWO_SEEDS)
def test_replicas_few_records_are_late_and_nobody_else_is_named(
    seed: int, faults: Faults, most_late: float, most_failed: int
) -> None:
    outcome = six(seed=seed, seconds=14.0, faults=faults).run()
    assert outcome.late_share <= most_late
    assert outcome.failed <= most_failed
    assert outcome.accused().keys() == faults.keys()
    assert not outcome.avoidance
    assert not outcome.standby


@pytest.mark.parametrize("ways", [1, pytest.param(2, marks=SLOW)])
@pytest.mark.parametrize("a_batch", [0.05, pytest.param(0.07, marks=SLOW)])
def test_replicas_whose_links_let_too_little_through_are_left_though_nobody_falls_silent(
    a_batch: float, ways: int
) -> None:
    faults = {2: Throttled(since=2.5, a_batch=a_batch)}
    outcome = six(rate=2000.0, latency=usual(), seconds=10.0, ways=ways, faults=faults).run()
    assert outcome.late_share <= 0.01
    assert outcome.accused().keys() <= {2}
    assert outcome.excluded_s[2] > 6
    assert sum(s for broker, s in outcome.excluded_s.items() if broker != 2) < 1


def test_replicas_that_take_a_little_longer_than_others_are_worth_no_detour() -> None:
    outcome = six(rate=2000.0, latency=usual(), faults={2: Throttled(since=2.5, a_batch=0.01)}).run()
    assert outcome.late == 0
    assert outcome.excluded_s == {}


@pytest.mark.parametrize("rate", [5.0, 50.0])
@pytest.mark.parametrize("hits", ["all", "replica"])
def test_replicas_at_low_rates_too_the_sick_broker_is_named(rate: float, hits: Any) -> None:
    outcome = six(rate=rate, seconds=40.0, time_out=60.0, faults={2: once(2.5, 20, hits)}, session=30.0).run()
    assert outcome.accused().keys() == {2}
    assert outcome.late <= 10
    assert sum(s for broker, s in outcome.excluded_s.items() if broker != 2) <= 2 * 40 / rate
    assert not outcome.avoidance


def test_replicas_a_partition_that_refuses_costs_its_own_records() -> None:
    outcome = six(refused=[Refused(partition=3, since=2.5, until=8)]).run()
    assert outcome.late_share <= 0.005
    assert outcome.accused().keys() <= {4}, "its leader may be named: nothing else was sent there meanwhile"
    assert not outcome.avoidance


@pytest.mark.parametrize("seed", [79, *(pytest.param(seed, marks=SLOW) for seed in (86, 94))])
def test_replicas_on_a_busy_machine_a_brown_out_is_found_as_well(seed: int) -> None:
    # A hiccup may have made the sick one suspect as a leader before it holds up what others lead, or somebody
    # else, or others' answers late: none of that may let what waits for it wait for longer.
    rng, stops, at = random.Random(seed), [], 0.0
    while at < 11:
        at += rng.expovariate(2.0)
        stops.append(Pause(at=at, seconds=rng.uniform(0.005, 0.06)))
    busy = {"pauses": stops, "latency": noisy(0.9, 0, median=0.006), "copying": noisy(0.9, 0, median=0.003)}
    brown_out = {3: Frozen(since=3, until=9)}
    outcome = six(seed=seed, since=3, seconds=11, rate=2_000, ways=3, faults=brown_out, **busy).run()
    assert outcome.late_share <= 0.05
    assert outcome.failed == 0


def test_replicas_where_every_partition_needs_the_sick_one_records_go_on() -> None:
    outcome = six(brokers=3, partitions=6, faults={2: once(2.5, 6)}).run()
    assert not outcome.avoidance
    assert all(outcome.by_broker_and_second[b, 11] > 100 for b in (1, 2, 3))


@pytest.mark.parametrize("seed", TWO_SEEDS)
@pytest.mark.parametrize("latency", [usual(0.001), noisy(median=0.002, spread=0.6, spikes=0)])
def test_replicas_quiet_minutes_suspect_nobody(seed: int, latency: Latency) -> None:
    outcome = six(seed=seed, seconds=60.0, rate=250.0, latency=latency).run()
    assert outcome.suspected == []
    assert outcome.standby_s == 0


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param({2: [once(5 + 12 * i, 2) for i in range(4)]}, id="garbage collections"),
        pytest.param({b: Restarted(since=3 + 8 * b, seconds=5) for b in range(1, 7)}, id="rolling restart"),
    ],
)
def test_replicas_only_those_that_stop_are_suspected(faults: Faults) -> None:
    outcome = six(seconds=60.0, rate=250.0, faults=faults).run()
    assert outcome.accused().keys() <= faults.keys()
    assert outcome.late_share <= 0.005
    assert not outcome.avoidance


def test_replicas_our_own_stops_make_nobody_suspect() -> None:
    outcome = six(seconds=20, pauses=STOPS).run()
    assert outcome.suspected == []
    assert outcome.standby_s == 0
