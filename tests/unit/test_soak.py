"""The soak test's pure parts: how records are paced, which fault comes when, what has grown or is missing."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from tests.chaos.soak_load import PARTITIONS, Tally
from tests.chaos.soak_report import Found, as_json, markdown
from tests.chaos.steady import (
    FAULT_LASTS_S,
    ROUND,
    WRITERS,
    Counts,
    Pace,
    Sample,
    cpu_share,
    faults,
    growths,
    losses,
    rates,
)


class TestPace:
    def test_a_record_is_due_at_its_time(self) -> None:
        pace = Pace(100.0, began=50.0)
        assert [pace.due(at) for at in (50.0, 50.009, 50.25, 50.5)] == [0, 0, 25, 50]

    def test_what_was_sent_is_not_due_again(self) -> None:
        pace = Pace(100.0, began=0.0)
        pace.done += pace.due(0.5)
        assert pace.due(0.5) == 0
        assert pace.due(0.6) == 10

    def test_who_is_behind_by_a_second_catches_up(self) -> None:
        pace = Pace(100.0, began=0.0)
        assert pace.due(1.0) == 100
        assert pace.skipped == 0

    def test_who_is_behind_by_more_goes_on_and_counts_what_it_leaves_out(self) -> None:
        pace = Pace(100.0, began=0.0, done=50)
        assert pace.due(20.5) == 0
        assert (pace.done, pace.skipped) == (2_050, 2_000)
        assert pace.due(20.6) == 10

    @pytest.mark.parametrize("total", [100.0, 5_000.0, 20_000.0, 50_000.0])
    def test_writers_share_the_rate_and_the_slow_client_gets_little(self, total: float) -> None:
        shares = rates(total)
        assert shares.keys() == WRITERS.keys()
        assert sum(shares.values()) == pytest.approx(total)
        assert shares["kafka-python"] == min(total / 20, 1_000)


class TestFaults:
    def test_a_seed_is_a_plan(self) -> None:
        assert faults(7, 3_600) == faults(7, 3_600) != faults(8, 3_600)

    def test_a_longer_run_begins_with_the_faults_of_a_shorter_one(self) -> None:
        assert faults(7, 3_600)[:4] == faults(7, 240)

    @pytest.mark.parametrize("seed", range(10))
    def test_one_a_minute_begins_after_the_one_before_has_ended(self, seed: int) -> None:
        planned = faults(seed, 3_600)
        assert [int(fault.begin // 60) for fault in planned] == list(range(60))
        assert all(FAULT_LASTS_S[0] <= fault.lasts <= FAULT_LASTS_S[1] for fault in planned)
        assert all(one.begin + one.lasts + 20 < other.begin for one, other in pairwise(planned))

    @pytest.mark.parametrize("seed", range(10))
    def test_each_sixth_of_an_hour_has_the_same_kinds(self, seed: int) -> None:
        kinds = [fault.kind for fault in faults(seed, 3_600)]
        assert all(Counter(kinds[begin : begin + 10]) == Counter(ROUND) for begin in range(0, 60, 10))

    def test_a_controller_is_chosen_when_its_turn_comes(self) -> None:
        planned = faults(7, 3_600)
        assert all((fault.kind == "fail_over") == (fault.broker == 0) for fault in planned)
        assert {str(fault).split(" for ")[0] for fault in planned} >= {"fail_over the active controller"}


def samples(
    count: int = 12,
    mb: Callable[[int], float] = lambda _: 60.0,
    threads: Callable[[int], int] = lambda _: 9,
    sockets: Callable[[int], int] = lambda _: 4,
) -> list[Sample]:
    return [Sample(10.0 * n, mb(n), threads(n), 7, sockets(n), 2.0 * n) for n in range(count)]


def grown(taken: Sequence[Sample]) -> set[str]:
    return {figure for figure, growth in growths(taken).items() if not growth.is_flat}


class TestGrowth:
    def test_nothing_grows(self) -> None:
        assert grown(samples()) == set()

    def test_the_first_sixth_does_not_count(self) -> None:
        assert grown(samples(mb=lambda n: 20.0 if n < 2 else 90.0)) == set()

    def test_the_second_sixth_is_compared_with_the_last_one(self) -> None:
        growth = growths(samples(mb=lambda n: {2: 50.0, 3: 52.0, 10: 60.0, 11: 64.0}.get(n, 500.0)))["mb"]
        assert (growth.before, growth.after, growth.more) == (51.0, 62.0, 11.0)
        assert not growth.is_flat

    @pytest.mark.parametrize(
        ("before", "after", "flat"),
        [(60.0, 70.0, True), (60.0, 70.5, False), (200.0, 219.0, True), (200.0, 221.0, False)],
    )
    def test_memory_may_grow_by_ten_mb_or_a_tenth(self, before: float, after: float, flat: bool) -> None:
        assert (grown(samples(mb=lambda n: before if n < 6 else after)) == set()) == flat

    @pytest.mark.parametrize(("after", "flat"), [(2, True), (6, True), (7, False)])
    def test_sockets_may_grow_by_two(self, after: int, flat: bool) -> None:
        assert (grown(samples(sockets=lambda n: 4 if n < 6 else after)) == set()) == flat

    def test_a_leak_of_a_thread_a_minute_is_found(self) -> None:
        assert grown(samples(360, threads=lambda n: 9 + n // 6)) == {"threads"}

    def test_an_average_counts_and_not_a_peak(self) -> None:
        assert grown(samples(360, threads=lambda n: 20 if n % 6 == 0 else 9)) == set()

    def test_too_few_samples_say_nothing(self) -> None:
        with pytest.raises(ValueError, match="5 samples are too few"):
            growths(samples(5))

    def test_tells_the_share_of_a_processor(self) -> None:
        assert cpu_share(samples()) == pytest.approx(0.2)


GOOD = Counts(at=70.0, sent=1_000, acked=(500, 490), failed={"_MSG_TIMED_OUT": 10}, skipped=3)


class TestLosses:
    def test_each_record_has_an_outcome_and_is_there(self) -> None:
        assert list(losses("hedge", GOOD, [500, 490])) == []

    def test_copies_and_what_failed_may_be_there_too(self) -> None:
        assert list(losses("hedge", GOOD, [510, 500])) == []

    def test_a_record_without_an_outcome(self) -> None:
        (loss,) = losses("hedge", evolve(GOOD, sent=1_001), [500, 490])
        assert loss == "hedge: 1 of 1,001 records have no outcome"

    def test_a_record_with_two(self) -> None:
        (loss,) = losses("hedge", evolve(GOOD, sent=999), [500, 490])
        assert "-1 of 999" in loss

    def test_a_record_without_and_another_with_two(self) -> None:
        tally = Tally()
        tally.sent(10, 3)
        for number in (10, 10, 12):
            tally.acked(number, 0)
        counts = tally.counts(skipped=0)
        assert counts.unanswered == 0
        (loss,) = losses("hedge", counts, [3] * len(counts.acked))
        assert loss == "hedge: some records have no outcome, and as many others have two"

    def test_only_a_rescue_may_write_copies(self) -> None:
        tally = Tally()
        tally.sent(10, 3)
        tally.failed(10, "_MSG_TIMED_OUT")
        for number in (11, 12):
            tally.acked(number, 0)
        counts, nothing = tally.counts(skipped=0), [0] * (PARTITIONS - 1)
        assert list(losses("default", counts, [3, *nothing])) == []
        assert list(losses("hedge", counts, [4, *nothing])) == []
        (copy,) = losses("default", counts, [4, *nothing])
        assert copy == "default: 4 records are there of 3: an idempotent producer wrote copies"

    def test_a_copy_elsewhere_does_not_hide_a_loss(self) -> None:
        (loss,) = losses("hedge", GOOD, [499, 600])
        assert loss == "hedge: partition 0 has 499 records, 500 were acknowledged"


FINE = evolve(GOOD, acked=(505, 495), failed={})


def found(taken: Sequence[Sample]) -> Found:
    return Found(
        seed=7,
        seconds=240.0,
        took=250.0,
        begun={"hedge": Counts(at=10.0, sent=100, acked=(50, 50), failed={}, skipped=0)},
        stopped={"hedge": evolve(GOOD, sent=880)},
        counts={"hedge": FINE},
        written={"hedge": [505, 500]},
        samples={"hedge": taken},
        done=[
            "kill broker 2 for 7 s",
            "kill broker 1 for 9 s",
            "stop broker 1 for 9 s",
            "freeze broker 3 for 8 s",
        ],
        trouble=[],
        busy=0.75,
        scrapes=(4, 4),
        pages=2,
        machine="a machine",
    )


class TestReport:
    def test_says_what_was_measured(self) -> None:
        page = markdown(found(samples()))
        assert "| hedge | 60.0 → 60.0 (+0.0, +0%) | 9.0 → 9.0 (+0.0, +0%) |" in page
        assert "| hedge | 13 | 1,000 | 1,000 | 1,005 | 0 | 3 | 0 |" in page
        assert "faults: freeze 1, kill 2, stop 1" in page
        assert page.endswith("Flat and complete.\n")

    def test_says_what_did_not_hold(self) -> None:
        bad = found(samples(threads=lambda n: 9 if n < 6 else 14))
        bad = evolve(bad, trouble=["observer did not end in good order: exit code 1"])
        page = markdown(bad)
        assert "**9.0 → 14.0 (+5.0, +56%)**" in page
        assert "VIOLATED**: hedge: threads grew from 9.0 to 14.0; 2.0 more are allowed" in page
        assert "VIOLATED**: observer did not end in good order: exit code 1" in page
        assert len(as_json(bad)["violations"]) == 2

    @pytest.mark.parametrize(
        ("but", "said"),
        [
            ({"counts": {"hedge": evolve(GOOD)}, "written": {"hedge": [500, 490]}}, "10 records failed"),
            ({"counts": {"hedge": evolve(FINE, skipped=101)}}, "101 records were skipped beside 1,000"),
            ({"done": ["kill broker 2 for 7 s"]}, "1 of 4 faults were carried out"),
        ],
    )
    def test_who_writes_little_is_not_called_complete(self, but: Any, said: str) -> None:
        (violation,) = evolve(found(samples()), **but).violations()
        assert said in violation
