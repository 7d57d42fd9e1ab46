"""The service's time: a step of the machine's clock moves it late, or not at all."""

from datetime import timedelta

import pytest

from kafka_partition_events.observe.steady_clock import DRIFT_S, TRUSTED_AFTER_S, SteadyClock
from kafka_partition_events.testing.clock import ManualClock

HOUR = 3600.0


@pytest.fixture
def machine() -> ManualClock:
    return ManualClock()


def test_time_passes_as_the_machine_says(machine: ManualClock) -> None:
    clock = SteadyClock(machine)
    machine.advance(10)
    assert (clock.now(), clock.monotonic(), clock.offset) == (machine.now(), machine.monotonic(), 0)


def test_small_corrections_are_taken_over_at_once(machine: ManualClock) -> None:
    clock = SteadyClock(machine)
    for _ in range(100):
        machine.set_back(DRIFT_S * 0.9)
        assert clock.now() == machine.now()


@pytest.mark.parametrize("step", [HOUR, -HOUR, -200 * HOUR])
class TestAStep:
    def test_that_is_taken_back_moves_nothing(self, machine: ManualClock, step: float) -> None:
        clock = SteadyClock(machine)
        begin = clock.now()
        machine.set_back(step)
        machine.advance(TRUSTED_AFTER_S - 1)
        assert clock.now() == begin + timedelta(seconds=TRUSTED_AFTER_S - 1)
        assert clock.offset == -step
        machine.set_back(-step)
        machine.advance(2)
        assert clock.now() == machine.now()
        machine.set_back(step)
        assert clock.offset == -step, "it counts anew"

    def test_that_stays_is_believed_in_the_end(self, machine: ManualClock, step: float) -> None:
        clock = SteadyClock(machine)
        machine.set_back(step)
        assert clock.offset == -step
        machine.advance(TRUSTED_AFTER_S)
        assert clock.now() == machine.now()
        machine.advance(1)
        assert clock.offset == 0
