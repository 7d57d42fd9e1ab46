"""The fault benchmark's pure parts: what it counts, what it throws out, what it claims."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from benchmarks.faults.inject import INJECT
from benchmarks.faults.layouts import SIX, THREE
from benchmarks.faults.metrics import (
    NOT_REPORTED,
    Figures,
    Reading,
    Record,
    Run,
    Window,
    achieved,
    before_p99_ms,
    behind_ms,
    in_flight,
    latency_series,
    quantile,
    records_of,
)
from benchmarks.faults.plan import FAULTS, SCENARIOS
from benchmarks.faults.rules import why_discarded
from benchmarks.faults.spec import Values, parse_value
from benchmarks.faults.tape import Tape

MS = 1_000_000
S = 1_000 * MS
GOOD = Figures(
    records=100, p50_ms=5, p99_ms=20, max_ms=30, late=0.0, to_faulty=0.01, failed=0, unreported=0, lost=0,
    vanished=0, duplicates=0,
)  # fmt: skip


def record(sent_ms: float, latency_ms: float, **changes: Any) -> Record:
    sent = round(sent_ms * MS)
    made = Record(sent, sent + round(latency_ms * MS), 1, None, copies=1, limit_ms=3_000)
    return made._replace(**changes)


RUN = Run(
    round=0, figures=GOOD, before_p99_ms=8.0, achieved=1.0, behind_ms=1.0, in_flight=7, steal=0.0,
    complete=True, reported_again=0, errors={}, counters="", series="",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "fault", "word"),
    [
        ({"before_p99_ms": 150.0, "steal": 0.10, "achieved": 0.95}, "killed", None),
        ({"before_p99_ms": 150.1}, "in-turns", "before the fault"),
        ({"steal": 0.11}, "in-turns", "stolen"),
        ({"achieved": 0.94}, "in-turns", "rate"),
        ({"complete": False}, "in-turns", "course"),
        ({"before_p99_ms": 500.0, "achieved": 0.5}, "busy", None),
        ({"steal": 0.5}, "busy", "stolen"),
    ],
)
def test_a_disturbed_run_is_thrown_out(changes: dict[str, Any], fault: str, word: str | None) -> None:
    why = why_discarded(evolve(RUN, **changes), fault)
    assert why is None if word is None else word in (why or "")


LATE = [record(11, 100), record(11, 101), record(11, 5, error="X"), record(11, 5, error=NOT_REPORTED)]
IN_FLIGHT = [record(0, 3_000, error="_MSG_TIMED_OUT", copies=0), record(0, 1, error=NOT_REPORTED)]
FIGURES: dict[str, tuple[list[Record], dict[str, float]]] = {
    "latency is that of records sent from the fault on": (
        [record(0, 900), record(10, 5), record(11, 50)], {"max_ms": 50, "records": 3},
    ),
    "a failed one counts with the limit, whenever its client says so": (
        [record(11, 3_950, error="_MSG_TIMED_OUT")], {"p99_ms": 3_000},
    ),
    "late is slow or failed": (LATE, {"late": 0.75}),
    "failed counts from the beginning: the fault takes what is in flight": (
        IN_FLIGHT, {"failed": 2, "unreported": 1, "lost": 1, "vanished": 0},
    ),
    "delivered, and not in the topic": ([record(0, 5, copies=0)], {"vanished": 1}),
    "copies beyond the first": ([record(0, 5, copies=3), record(0, 5)], {"duplicates": 2}),
    "the share of the faulty broker, by the partitions that it leads": (
        [record(11, 5, broker=broker) for broker in (1, 2, 3, 1, None)], {"to_faulty": 0.4},
    ),
    "nothing sent is no error": ([], {"p99_ms": 0}),
}  # fmt: skip
"""Records, and figures of them when broker 1 fails after 10 ms."""


class TestFigures:
    def test_a_quantile_is_a_value_that_was_seen(self) -> None:
        assert quantile([1, 2, 3, 4], 0.5) == 2
        assert quantile([float(n) for n in range(1, 101)], 0.99) == 99
        assert quantile([], 0.99) == 0

    @pytest.mark.parametrize(("records", "expected"), FIGURES.values(), ids=FIGURES)
    def test_of_records(self, records: list[Record], expected: dict[str, float]) -> None:
        figures = Figures.of(records, 10 * MS, 1)
        assert {name: getattr(figures, name) for name in expected} == expected

    def test_without_a_faulty_broker_nothing_goes_to_it(self) -> None:
        assert Figures.of([record(1, 5)], 0, None).to_faulty is None


def test_what_a_run_says_of_itself() -> None:
    to_the_fault = [record(0, 5), record(850, 7), record(950, 400), record(1_001, 400)]
    assert before_p99_ms(to_the_fault, S) == 7, "the baseline ends short of the fault"
    assert achieved([record(n, 1) for n in range(9)], Window(0, 10 * MS, S), rate=1_000) == 0.9
    assert behind_ms([0, 1 * MS, 7 * MS, -1], 0, rate=1_000) == 5, "the worst lag"
    assert in_flight([record(0, 5), record(6, 5), record(10, 5)], 10 * MS) == 1
    series = latency_series([record(10, 5), record(20, 9), record(210, 30)], Window(0, 0, 300 * MS))
    assert series == "9 - 30", "a word for each tenth of a second"


class TestWhatProcessesTellEachOther:
    def test_a_tape_comes_back_as_it_was(self, tmp_path: Path) -> None:
        tape = Tape.blank(3)
        tape.sent[0] = tape.sent[1] = 5
        tape.report(0, 4, None)
        tape.report(1, 2, "_MSG_TIMED_OUT")
        tape.report(1, 2, None)
        tape.report(-1, 2, None)
        tape.write(tmp_path / "tape")
        back = Tape.read(tmp_path / "tape")
        assert (back.errors, back.reported_again) == (["_MSG_TIMED_OUT"], 1)
        records = records_of(back, {0: 2}, THREE)
        found = [(each.error, each.broker, each.copies) for each in records]
        assert found == [(None, 2, 2), ("_MSG_TIMED_OUT", 3, 0)]

    def test_a_report_that_names_no_partition_leaves_the_chosen_one(self) -> None:
        tape = Tape.blank(2)
        tape.choose(0, 3)
        tape.report(0, -1, "KafkaTimeoutError")
        tape.choose(1, 3)
        tape.report(1, 5, None)
        assert tape.partition.tolist() == [3, 5]

    def test_a_record_that_nobody_reported_on_counts_with_the_delivery_limit(self) -> None:
        tape = Tape.blank(1)
        tape.sent[0] = 0
        (only,) = records_of(tape, {}, SIX)
        assert (only.error, only.broker, only.latency_ms) == (NOT_REPORTED, None, 5_000)
        assert in_flight([only], fault_ns=1) == 1

    def test_what_is_read_out_of_order_twice_or_never_is_counted(self) -> None:
        """Even numbers have one key, odd ones another; record 5 failed, and is there all the same."""
        tape = Tape.blank(7)
        for number in range(7):
            tape.sent[number] = number * 1_000_000
            tape.report(number, 0, "late" if number == 5 else None)
        order = [0, 1, 4, 2, 5, 3, 3]
        read = [(number, 9_000_000) for number in order]
        key_of = {number: b"odd" if number % 2 else b"even" for number in range(7)}.get
        assert Reading.of(read, tape, 3_000_000, key_of) == Reading(
            p50_ms=5.0, p99_ms=6.0, out_of_order=1, twice=1, unread=1
        )

    @pytest.mark.parametrize("number", [-2_000, -1, 0, 1, 449_999])
    def test_a_value_names_its_record(self, number: int) -> None:
        values = Values("ab12")
        value = values.make(number)
        assert (len(value), values.number(value), parse_value(value)) == (100, number, ("ab12", number))


class TestThePlan:
    @pytest.mark.parametrize("name", SCENARIOS)
    def test_topics_are_laid_out_so_that_leaders_are_known(self, name: str) -> None:
        layout = SCENARIOS[name].layout
        assignment = layout.assignment()
        assert len(assignment) == layout.partitions
        for partition, replicas in assignment.items():
            assert replicas[0] == layout.leader_of(partition)
            assert len(set(replicas)) == layout.replication
            assert set(replicas) <= set(range(1, layout.brokers + 1))

    def test_each_fault_can_be_done(self) -> None:
        assert INJECT.keys() == FAULTS.keys()
