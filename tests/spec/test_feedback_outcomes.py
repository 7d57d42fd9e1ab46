"""What delivery feedback comes to in a simulated world: faults that it must see, noise that it must not."""

import random

import pytest

from kafka_partition_events import Suspicion
from kafka_partition_events.routing.judgement import Policy
from tests.feedback_simulator import Dead, Frozen, Latency, Pause, Simulation, Slow, noisy, usual

NOBODY = Policy(least_silence=1e9, most_silence=1e9)
SEEDS = range(5)
RNG = random.Random(7)
STOPS = [Pause(at=1 + 0.9 * i, seconds=RNG.uniform(0.1, 0.5)) for i in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_healthy_cluster_is_used_evenly_and_nobody_is_suspected(seed: int) -> None:
    outcome = Simulation(seed=seed, seconds=10).run()
    assert outcome.suspected == []
    assert outcome.late == 0
    assert all(outcome.share_to(broker) == pytest.approx(1 / 3, abs=0.005) for broker in (1, 2, 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_brown_out_at_most_one_record_in_200_is_late(seed: int) -> None:
    """One of three brokers stands still for 0.4 s of each 0.5 s. Without feedback a quarter is late."""
    since = 2.5 + seed / 10
    outcome = Simulation(seed=seed, since=since, faults={1: Frozen(since=since)}).run()
    assert outcome.late_share <= 0.005
    assert outcome.share_to(1) <= 0.02
    assert {event.broker for _, event in outcome.suspected} == {1}
    without = Simulation(seed=seed, since=since, faults={1: Frozen(since=since)}, policy=NOBODY).run()
    assert without.late_share > 0.1, "else this shows nothing"


def test_brown_out_that_lasts_costs_less_with_time() -> None:
    outcome = Simulation(seconds=60, since=2.7, faults={1: Frozen(since=2.7)}).run()
    assert outcome.late_share <= 0.001
    assert outcome.probes <= 60


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("told_after", [0.002, None], ids=["connection lost", "host lost"])
def test_kill_at_most_40_records_go_to_the_dead_broker(seed: int, told_after: float | None) -> None:
    since = 2.5 + seed / 10
    outcome = Simulation(seed=seed, since=since, faults={1: Dead(since=since, told_after=told_after)}).run()
    assert outcome.to[1] <= 40
    ((_, event),) = outcome.suspected
    assert event.reason is (Suspicion.SILENT if told_after is None else Suspicion.UNREACHABLE)
    assert outcome.suspects == {1}


@pytest.mark.parametrize("whole_process", [True, False], ids=["whole process", "one thread"])
@pytest.mark.parametrize("seed", SEEDS)
def test_our_own_stops_make_nobody_suspect(seed: int, whole_process: bool) -> None:
    stops = [Pause(at=p.at, seconds=p.seconds, whole_process=whole_process) for p in STOPS]
    outcome = Simulation(seed=seed, seconds=20, pauses=stops).run()
    assert outcome.suspected == []
    assert sum(outcome.excluded_s.values()) == 0


@pytest.mark.parametrize(
    "latency",
    [usual(spread=0.6), noisy(spread=0.6, spikes=0), noisy(spread=0.6, spikes=0.002, longest=0.06)],
    ids=["spread", "slower and spread", "spikes"],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_noise_that_all_brokers_have_excludes_them_for_less_than_2_percent(
    seed: int, latency: Latency
) -> None:
    outcome = Simulation(seed=seed, seconds=20, latency=latency).run()
    assert sum(outcome.excluded_s.values()) <= 0.02 * 3 * 20
    assert len(outcome.suspected) <= 30
    assert all(outcome.share_to(broker) == pytest.approx(1 / 3, abs=0.02) for broker in (1, 2, 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_heavy_noise_makes_at_most_twice_as_many_records_late_as_without_feedback(seed: int) -> None:
    """One answer in a hundred takes up to 150 ms longer; on average feedback makes some more late."""
    late = {
        policy: Simulation(seed=seed, seconds=30, latency=noisy(), policy=policy).run().late_share
        for policy in (Policy(), NOBODY)
    }
    assert late[Policy()] <= 2 * late[NOBODY]
    assert late[Policy()] < 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_a_broker_that_stays_slow_is_used_again_within_two_minutes(seed: int) -> None:
    simulation = Simulation(seed=seed, seconds=120, since=2.7, rate=1000, faults={1: Slow(since=2.7)})
    outcome = simulation.run()
    assert outcome.by_broker_and_second[1, 5] < 20, "not at once"
    assert sum(outcome.by_broker_and_second[1, second] for second in range(110, 120)) > 1000


def test_a_seed_has_one_history() -> None:
    def history(seed: int, start: float) -> object:
        outcome = Simulation(
            seed=seed, seconds=5, since=2, faults={1: Frozen(since=2)}, rate=1024, start=start
        ).run()
        return outcome.to, outcome.late, outcome.probes, [broker for _, broker in outcome.suspected]

    assert history(3, 0.0) == history(3, 0.0)
    assert history(3, 0.0) != history(4, 0.0)
