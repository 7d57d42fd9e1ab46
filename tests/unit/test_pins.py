"""What keys are pinned to: which count is in force when, what a cut-over may be, and who is right."""

import math

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.pins import (
    MemoryPinStore,
    Pin,
    agreed,
    check_delay,
    counts_in_force,
    decode_history,
    encode_history,
    first_pin,
    next_change,
    pin_at,
    with_cut_over,
)

SIX, TWELVE, EIGHTEEN = Pin(1, 6, 100.0), Pin(2, 12, 200.0), Pin(3, 18, 300.0)


class TestAHistory:
    def test_begins_with_the_count_of_first_sight(self) -> None:
        assert first_pin(6, 100.00049) == (Pin(1, 6, 100.0),)

    @pytest.mark.parametrize(
        ("now", "counts"),
        [(100.0, (6,)), (199.9, (6,)), (200.0, (6, 12)), (299.9, (6, 12)), (300.0, (6, 12, 18))],
    )
    def test_tells_which_counts_have_come_into_effect(self, now: float, counts: tuple[int, ...]) -> None:
        history = (SIX, TWELVE, EIGHTEEN)
        assert counts_in_force(history, now) == counts
        assert pin_at(history, now).count == counts[-1]

    def test_stays_in_force_when_a_clock_is_set_back(self) -> None:
        """NTP steps back over a cut-over: the keys would move three times, and on this instance only."""
        history = (SIX, TWELVE)
        assert counts_in_force(history, 199.0) == (6,)
        assert counts_in_force(history, 199.0, before=(6, 12)) == (6, 12)
        assert counts_in_force(history, 199.0, before=(4, 12)) == (6,), "somebody else's history"

    def test_holds_from_the_beginning_for_whom_the_clock_is_behind(self) -> None:
        assert counts_in_force((SIX,), 99.0) == (6,)
        assert next_change((SIX,), 99.0) is None

    @pytest.mark.parametrize(
        ("now", "change"), [(100.0, 200.0), (200.0, 300.0), (299.9, 300.0), (300.0, None)]
    )
    def test_tells_what_comes_next(self, now: float, change: float | None) -> None:
        assert next_change((SIX, TWELVE, EIGHTEEN), now) == change

    def test_is_the_same_after_json(self) -> None:
        assert decode_history(encode_history((SIX, TWELVE))) == (SIX, TWELVE)

    @pytest.mark.parametrize(
        "document",
        [
            None,
            [],
            {},
            [1],
            [{"generation": 1, "count": 6}],
            [{"generation": 0, "count": 6, "effective_at": 1.0}],
            [{"generation": 1, "count": 0, "effective_at": 1.0}],
            [{"generation": 1, "count": 6, "effective_at": math.inf}],
            [{"generation": 1, "count": 6, "effective_at": math.nan}],
            [{"generation": 1, "count": 6, "effective_at": -1.0}],
            [{"generation": 1, "count": 6, "effective_at": 1_704_067_200_000}],  # milliseconds
            [{"generation": 1, "count": "6", "effective_at": 1.0}],
            encode_history((TWELVE, SIX)),
        ],
    )
    def test_is_not_made_of_anything_else(self, document: object) -> None:
        with pytest.raises(ValueError, match=r"a history is|a pin has|generations of a history"):
            decode_history(document)


class TestACutOver:
    def test_is_one_more_pin_of_the_next_generation(self) -> None:
        assert with_cut_over((SIX,), 12, at=200.0, now=150.0) == (SIX, TWELVE)
        assert with_cut_over((SIX, TWELVE), 18, at=300.0, now=200.0) == (SIX, TWELVE, EIGHTEEN)

    def test_waits_for_the_one_that_is_pending(self) -> None:
        with pytest.raises(ConfigurationError, match="to 12 partitions is pending, 50 s from now"):
            with_cut_over((SIX, TWELVE), 18, at=300.0, now=150.0)

    @pytest.mark.parametrize("count", [6, 5, 0])
    def test_is_to_more_partitions(self, count: int) -> None:
        with pytest.raises(ConfigurationError, match=f"pinned to 6 partitions already.*not to {count}"):
            with_cut_over((SIX,), count, at=200.0, now=150.0)

    @pytest.mark.parametrize("at", [149.0, math.inf, math.nan])
    def test_lies_in_the_future(self, at: float) -> None:
        with pytest.raises(ConfigurationError, match="lies in the future"):
            with_cut_over((SIX,), 12, at=at, now=150.0)

    @pytest.mark.parametrize("delay", [367 * 86_400.0, 1e12, math.inf])
    def test_lies_no_farther_ahead_than_a_year_because_it_can_not_be_called_back(self, delay: float) -> None:
        check_delay(365 * 86_400.0, interval=1.0)
        with pytest.raises(ConfigurationError, match="at most 366 days ahead"):
            check_delay(delay, interval=1.0)

    @pytest.mark.parametrize("delay", [4.9, 0.0, -1.0, math.nan])
    def test_lies_so_far_ahead_that_everybody_can_have_read_it(self, delay: float) -> None:
        check_delay(5.0, interval=1.0)
        with pytest.raises(ConfigurationError, match="at least 5 s ahead"):
            check_delay(delay, interval=1.0)


class TestAnInstanceThatKnowsOneHistoryAndReadsAnother:
    def test_goes_by_the_store(self) -> None:
        assert agreed((SIX,), (SIX, TWELVE)) == (SIX, TWELVE)
        assert agreed((Pin(1, 7, 100.0),), (SIX,)) == (SIX,)
        assert agreed((SIX, Pin(2, 13, 150.0)), (SIX, TWELVE)) == (SIX, TWELVE)

    def test_a_first_sight_that_was_written_late_does_not_undo_a_cut_over(self) -> None:
        assert agreed((SIX, TWELVE), (Pin(1, 6, SIX.effective_at + 1),)) == (SIX, TWELVE)

    @pytest.mark.parametrize("stored", [None, (SIX,), (SIX, TWELVE)])
    def test_remembers_what_the_store_has_lost(self, stored: tuple[Pin, ...] | None) -> None:
        assert agreed((SIX, TWELVE), stored) == (SIX, TWELVE)


def test_a_memory_store_compares_and_sets() -> None:
    store = MemoryPinStore()
    assert store.read() == {}
    assert not store.replace("t", (SIX,), (SIX, TWELVE))
    assert store.replace("t", None, (SIX,))
    assert not store.replace("t", None, (TWELVE,))
    assert store.replace("t", (SIX,), (SIX, TWELVE))
    assert store.read() == {"t": (SIX, TWELVE)}
    store.close()
