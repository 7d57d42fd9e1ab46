"""Weights by a metric: proportions, and a source that raises, hangs or is too old; on a manual clock."""

import gc
import math
import threading
from collections.abc import Iterator, Mapping

import pytest
from structlog.testing import capture_logs

from kafka_partition_events import ConfigurationError
from kafka_partition_events.partitioners.choosers import Choice, by_metric
from kafka_partition_events.testing.clock import ManualClock
from tests.chooser_kit import choice_of, chosen

REFRESH_S = 5.0
MAX_AGE_S = 30.0
WAIT_S = 10.0
ELSEWHERE = 99


def elsewhere(_choice: Choice) -> int:
    """Stand for the chooser that is asked while there are no numbers."""
    return ELSEWHERE


def reading_thread() -> threading.Thread:
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "kpe-metric")
    return thread


class Meter:
    """A source whose answer a test sets, and which hangs if that is told."""

    def __init__(self) -> None:
        self.answer: Mapping[int, float] | Exception = {0: 0, 1: 0, 2: 0}
        self.read: list[str] = []
        self.threads: set[int] = set()
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.let_go.set()

    def __call__(self, topic: str) -> Mapping[int, float]:
        self.read.append(topic)
        self.threads.add(threading.get_ident())
        self.entered.release()
        assert self.let_go.wait(WAIT_S)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def wait_for_reads(self, count: int) -> None:
        """Wait until so many reads have begun."""
        while len(self.read) < count:
            assert self.entered.acquire(timeout=WAIT_S)


class Bench:
    """A chooser by metric, its source and its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(100.0)
        self.meter = Meter()
        self.chooser = by_metric(
            self.meter, elsewhere, refresh=REFRESH_S, max_age=MAX_AGE_S, clock=self.clock
        )
        self.choice = choice_of([1, 2, 3])

    def ask(self, times: int = 1) -> Mapping[int, int]:
        return chosen(self.chooser, self.choice, times)

    def falls_back(self) -> bool:
        return self.chooser(self.choice) == ELSEWHERE

    def settle(self) -> None:
        """Wait until the reading thread has nothing to do."""
        self.clock.wait_for_waiters()

    def pass_by(self, seconds: float) -> None:
        self.settle()
        self.clock.advance(seconds)
        self.settle()

    def hang_at_the_next_read(self) -> None:
        self.meter.let_go.clear()
        reads = len(self.meter.read)
        self.clock.advance(REFRESH_S)
        self.meter.wait_for_reads(reads + 1)

    def reads(self, answer: Mapping[int, float] | Exception) -> None:
        """Let the source answer so from now on, and be read."""
        self.meter.answer = answer
        self.ask()
        self.pass_by(REFRESH_S)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.meter.let_go.set()
    bench.chooser.close()


class TestProportions:
    def test_are_inverse_to_the_number_plus_one(self, bench: Bench) -> None:
        bench.reads({0: 0, 1: 1, 2: 3})
        for _ in range(3):
            assert bench.ask(7) == {0: 4, 1: 2, 2: 1}

    def test_are_even_where_the_numbers_are(self, bench: Bench) -> None:
        bench.reads({0: 70, 1: 70, 2: 70})
        assert bench.ask(9) == {0: 3, 1: 3, 2: 3}

    def test_leave_the_worst_a_twentieth_of_what_the_best_gets(self, bench: Bench) -> None:
        bench.reads({0: 0, 1: 1_000_000, 2: math.inf})
        assert bench.ask(22) == {0: 20, 1: 1, 2: 1}

    def test_hardly_differ_for_numbers_that_hardly_differ(self, bench: Bench) -> None:
        bench.reads({0: 1_000, 1: 1_001, 2: 1_002})
        placed = bench.ask(3_000)
        assert all(995 <= placed[place] <= 1_005 for place in range(3))

    @pytest.mark.parametrize("answer", [{0: 0, 2: 3}, {0: 0, 1: math.nan, 2: 3}])
    def test_take_a_partition_without_a_number_for_an_ordinary_one(
        self, bench: Bench, answer: Mapping[int, float]
    ) -> None:
        bench.choice = choice_of([1, 2, 3, 1])
        bench.reads({**answer, 3: 1})
        assert bench.ask(9) == {0: 4, 1: 2, 2: 1, 3: 2}

    def test_take_a_negative_number_for_none(self, bench: Bench) -> None:
        bench.reads({0: -5, 1: 0, 2: 1})
        assert bench.ask(5) == {0: 2, 1: 2, 2: 1}

    def test_are_even_where_no_place_has_a_number(self, bench: Bench) -> None:
        bench.reads({7: 1, 8: 100})
        assert bench.ask(9) == {0: 3, 1: 3, 2: 3}

    def test_follow_the_numbers(self, bench: Bench) -> None:
        bench.reads({0: 0, 1: 1, 2: 3})
        bench.reads({0: 3, 1: 1, 2: 0})
        assert bench.ask(7) == {0: 1, 1: 2, 2: 4}

    def test_are_those_of_the_places_that_are_left(self, bench: Bench) -> None:
        bench.reads({0: 0, 1: 1, 2: 3})
        bench.choice = choice_of([None, 2, 3])
        assert bench.ask(3) == {1: 2, 2: 1}


class TestReading:
    def test_begins_with_the_first_record_on_another_thread(self, bench: Bench) -> None:
        assert bench.meter.read == []
        bench.ask()
        bench.settle()
        assert bench.meter.read == ["t"]
        assert threading.get_ident() not in bench.meter.threads

    def test_until_it_has_succeeded_the_other_chooser_is_asked_without_a_warning(self, bench: Bench) -> None:
        bench.meter.let_go.clear()
        with capture_logs() as logs:
            assert bench.falls_back()
            bench.meter.wait_for_reads(1)
            bench.clock.advance(MAX_AGE_S)
            assert bench.falls_back()
            bench.meter.let_go.set()
            bench.settle()
            bench.ask()
            bench.pass_by(REFRESH_S)
            assert not bench.falls_back()
        assert not logs

    def test_comes_again_some_seconds_after_the_last_one(self, bench: Bench) -> None:
        bench.ask()
        bench.pass_by(REFRESH_S - 0.1)
        assert len(bench.meter.read) == 1
        bench.pass_by(0.1)
        assert len(bench.meter.read) == 2

    def test_of_another_topic_does_not_wait_nor_repeat_the_first(self, bench: Bench) -> None:
        bench.ask()
        bench.settle()
        bench.chooser(choice_of([1, 2], topic="u"))
        bench.meter.wait_for_reads(2)
        bench.pass_by(0.1)
        assert bench.meter.read == ["t", "u"]

    def test_ends_for_a_topic_that_no_record_is_placed_for(self, bench: Bench) -> None:
        bench.ask()
        for _ in range(20):
            bench.pass_by(REFRESH_S)
        reads = len(bench.meter.read)
        assert MAX_AGE_S / REFRESH_S <= reads < 10
        assert bench.falls_back(), "its numbers are forgotten"
        bench.meter.wait_for_reads(reads + 1)
        bench.pass_by(0.1)
        assert not bench.falls_back()

    def test_ends_with_the_chooser(self) -> None:
        bench = Bench()
        bench.ask()
        bench.settle()
        reader = reading_thread()
        del bench.chooser
        gc.collect()
        reader.join(WAIT_S)
        assert not reader.is_alive()

    def test_ends_when_it_is_closed_and_then_the_other_chooser_is_asked(self, bench: Bench) -> None:
        bench.reads({0: 0, 1: 1, 2: 3})
        with capture_logs() as logs:
            bench.chooser.close()
            bench.chooser.close()
            for _ in range(2):
                assert bench.falls_back()
                assert bench.chooser(choice_of([1, 2], topic="new")) == ELSEWHERE
                bench.clock.advance(2 * MAX_AGE_S)
        assert not logs
        assert "new" not in bench.meter.read

    def test_that_goes_on_while_it_is_closed_changes_nothing(self, bench: Bench) -> None:
        bench.meter.let_go.clear()
        bench.ask()
        bench.meter.wait_for_reads(1)
        reader = reading_thread()
        bench.chooser.close()
        bench.meter.let_go.set()
        reader.join(WAIT_S)
        assert bench.falls_back()


class TestFailures:
    def test_that_raise_hand_over_at_once_and_back_after_the_next_success(self, bench: Bench) -> None:
        bench.reads({0: 0, 1: 1, 2: 3})
        assert not bench.falls_back()
        bench.reads(RuntimeError("no coordinator"))
        assert bench.falls_back()
        bench.reads({0: 0, 1: 1, 2: 3})
        assert not bench.falls_back()

    def test_that_hang_hand_over_when_the_numbers_are_too_old_and_back_after_the_next_success(
        self, bench: Bench
    ) -> None:
        bench.reads({0: 0, 1: 1, 2: 3})
        bench.hang_at_the_next_read()
        bench.clock.advance(MAX_AGE_S - REFRESH_S)
        assert not bench.falls_back(), "the last numbers are 30 s old"
        bench.clock.advance(0.001)
        assert bench.falls_back()
        bench.meter.let_go.set()
        bench.pass_by(REFRESH_S)
        assert not bench.falls_back()

    def test_count_the_age_from_when_the_read_began(self, bench: Bench) -> None:
        bench.meter.let_go.clear()
        bench.ask()
        bench.meter.wait_for_reads(1)
        bench.clock.advance(MAX_AGE_S + 1)
        bench.meter.let_go.set()
        bench.settle()
        assert bench.falls_back(), "what came was too old already"

    def test_are_told_once_for_each_episode(self, bench: Bench) -> None:
        with capture_logs() as logs:
            for _ in range(2):
                bench.reads({0: 0})
                for _ in range(4):
                    bench.reads(RuntimeError("no coordinator"))
        assert [log["event"] for log in logs] == ["metric_unavailable"] * 2
        assert logs[0]["topic"] == "t"
        assert logs[0]["error"] == "RuntimeError('no coordinator')"
        assert logs[0]["log_level"] == "warning"

    def test_that_hang_are_told_once(self, bench: Bench) -> None:
        bench.reads({0: 0})
        bench.hang_at_the_next_read()
        bench.clock.advance(MAX_AGE_S)
        with capture_logs() as logs:
            bench.ask(10)
        assert [log["error"] for log in logs] == ["no answer for 30.0 s"]

    @pytest.mark.parametrize("answer", [{}, {0: math.nan}, {0: None}, {"zero": 1}, None, [1, 2]])
    def test_are_answers_that_make_no_sense_too(self, bench: Bench, answer: Mapping[int, float]) -> None:
        bench.reads(answer)
        assert bench.falls_back()
        assert bench.chooser.stats.failures > 0

    def test_are_counted(self, bench: Bench) -> None:
        bench.ask(3)
        bench.settle()
        bench.ask(5)
        bench.reads(RuntimeError("no coordinator"))
        bench.ask(2)
        stats = bench.chooser.stats
        assert (stats.reads, stats.failures, stats.last_error) == (1, 1, "RuntimeError('no coordinator')")
        assert 2 <= stats.fallbacks <= 5, "the first records may have found numbers"

    def test_of_one_topic_leave_another_alone(self, bench: Bench) -> None:
        def read(topic: str) -> Mapping[int, float]:
            if topic == "t":
                raise RuntimeError("no such group")
            return {0: 0, 1: 1}

        chooser = by_metric(read, elsewhere, clock=bench.clock)
        other = choice_of([1, 2], topic="u")
        chooser(bench.choice)
        chooser(other)
        bench.settle()
        bench.clock.advance(REFRESH_S)
        bench.settle()
        assert chooser(bench.choice) == ELSEWHERE
        assert chosen(chooser, other, 3) == {0: 2, 1: 1}
        chooser.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refresh": 0.0}, "refresh must be more than 0 seconds, not 0.0"),
        ({"refresh": math.nan}, "refresh must be more than 0 seconds, not nan"),
        ({"refresh": math.inf}, "refresh must be more than 0 seconds, not inf"),
        ({"max_age": 4.0}, r"max_age must be at least refresh, 5.0 seconds, not 4.0"),
        ({"max_age": math.nan}, r"max_age must be at least refresh"),
    ],
)
def test_times_must_make_sense(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        by_metric(dict, elsewhere, **options)  # type: ignore[arg-type]
