"""What becomes of records with a key when a broker hangs: in a simulated world."""

import pytest

from kafka_partition_events.clients.flight.key_moves import MoveKeys
from tests.feedback_simulator import Frozen, Latency, Simulation, noisy, usual
from tests.keyed_simulator import KeyedRun

SEEDS = [
    0,
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 3)),
    *(pytest.param(seed, marks=pytest.mark.weekly) for seed in range(3, 12)),
]
FREEZE = 3.0


def run(seed: int, latency: Latency, *, brokers: int, replication: int, partitions: int, keys: int) -> float:
    """Freeze a broker; return the share of the records that do not need it, and are late all the same."""
    victim = 1 + seed % brokers
    world = Simulation(
        seed=seed, seconds=FREEZE + 4, since=FREEZE, rate=500, time_out=20, session=90, ways=3,
        brokers=brokers, replication=replication, partitions=partitions, latency=latency,
        faults={victim: Frozen(since=FREEZE, stopped=90, period=100)},
    )  # fmt: skip
    done = KeyedRun(world, keys)
    done.run()
    return done.late({p for p in range(partitions) if victim not in done.cluster.replicas[p]})


@pytest.mark.parametrize("seed", SEEDS)
def test_what_does_not_need_a_frozen_broker_goes_on(seed: int) -> None:
    """Late is what was on its way by the first handle when that was found blocked, and what has its keys."""
    assert run(seed, usual(0.004, 0.6), brokers=4, replication=2, partitions=12, keys=1_000) <= 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_healthy_broker_that_is_suspect_by_mistake_is_trusted_again(seed: int) -> None:
    """Where all answers vary the wrong one is named, too; and nothing of the first handle can clear it."""
    assert run(seed, noisy(median=0.003), brokers=4, replication=2, partitions=12, keys=1_000) <= 0.25


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_with_three_replicas_and_many_keys(seed: int) -> None:
    assert run(seed, noisy(median=0.003), brokers=6, replication=3, partitions=24, keys=20_000) <= 0.19


@pytest.mark.parametrize("burst", [1, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_keys_leave_a_frozen_broker_though_it_blocks_all_connections_at_once(seed: int, burst: int) -> None:
    """Of a burst one record is tracked, so that what a connection waits for is any of its partitions."""
    seed += 18
    world = Simulation(
        seed=seed, seconds=FREEZE + 4, since=FREEZE, rate=200, time_out=20, session=90, ways=3,
        brokers=6, replication=3, partitions=24, latency=usual(0.004, 0.6),
        faults={1 + seed % 6: Frozen(since=FREEZE, stopped=90, period=100)},
    )  # fmt: skip
    done = KeyedRun(world, 20_000, moves=MoveKeys(), burst=burst)
    done.run()
    assert done.late(set(range(24))) <= 0.1
