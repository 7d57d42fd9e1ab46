"""Histograms of durations: what is in which bucket, and what a deliverer counts with them."""

from datetime import timedelta

import pytest

from kafka_partition_events.durations import NO_DELAYS, NO_WORK, Durations
from kafka_partition_events.outbox import Deliverer, DeliveryError
from kafka_partition_events.testing import ManualClock
from tests.outbox_kit import NOW, ScriptedSink, append, entry, scratch_journal

NONE = Durations((0.1, 1.0))


class TestDurations:
    def test_less_than_nothing_is_nothing(self) -> None:
        assert NONE.plus(-3.0) == NONE.plus(0.0)

    def test_those_of_two_together(self) -> None:
        assert NONE.plus(0.05, 3.0) + NONE.plus(0.5) == NONE.plus(0.05, 3.0, 0.5)
        assert sum([NONE.plus(0.5), NONE.plus(0.5)], NONE).count == 2
        with pytest.raises(ValueError, match="bounds"):
            NO_WORK + NO_DELAYS

    @pytest.mark.parametrize("nothing", [NO_WORK, NO_DELAYS])
    def test_bounds_make_no_more_than_a_dozen_series(self, nothing: Durations) -> None:
        assert list(nothing.bounds) == sorted(set(nothing.bounds))
        assert len(nothing.bounds) + len(["+Inf", "count", "sum"]) <= 12


def test_a_deliverer_counts_how_long_each_entry_took_that_the_target_has() -> None:
    clock = ManualClock(wall=NOW)
    outbox = scratch_journal(clock=clock)
    has_two = DeliveryError("the third was too much", reason="http_413", delivered=2, refused=True)
    deliverer = Deliverer(outbox, ScriptedSink(has_two), clock=clock)
    append(outbox, *(entry(f"{s} s", recorded_at=NOW - timedelta(seconds=s)) for s in (0.25, 7, 8)))
    assert deliverer.stats.delays == NO_DELAYS
    deliverer.start()
    deliverer.close()
    assert deliverer.stats.delays == NO_DELAYS.plus(0.25, 7.0)
