"""The KIP-480 benchmark's pure parts: what it counts, what it throws out, what it claims."""

import json
from typing import Any

from attrs import evolve

from benchmarks.faults.tape import Tape
from benchmarks.kept import Measured, Result
from benchmarks.kip480.load import batches_of
from benchmarks.kip480.metrics import Run, latencies_ms, run_of
from benchmarks.kip480.plan import CELLS
from benchmarks.kip480.rules import why_discarded
from benchmarks.kip480.targets import Target, judge
from benchmarks.measure import Environment

MS = 1_000_000
ENVIRONMENT = Environment("3.11", 2, "Linux", {"confluent-kafka": "2.16"}, "2026-01-01 00:00 UTC")
CELL = CELLS["16p-0ms-1x"]
GOOD = Run(
    round=0,
    records=20_000,
    unreported=0,
    failed=0,
    p50_ms=2.0,
    p99_ms=10.0,
    max_ms=20.0,
    cpu_s=100.0,
    broker_cpu_s=300.0,
    per_batch=5.0,
    behind_ms=1.0,
    steal=0.0,
)


def runs(*p99: float, **changes: Any) -> Measured[Run]:
    return Measured([evolve(GOOD, round=n, p99_ms=value, **changes) for n, value in enumerate(p99)])


def result(name: str = CELL.name, /, **kinds: Measured[Run]) -> Result[Run]:
    named = {kind.replace("_", "-"): measured for kind, measured in kinds.items()}
    return Result(name, 3, named, ENVIRONMENT)


def tape(*latencies: float | None, ended_ms: float = 1_000.0, **measures: float) -> Tape:
    """Return a tape of records sent 1 ms apart; None is one that was never reported on."""
    made = Tape.blank(len(latencies))
    for number, latency in enumerate(latencies):
        made.sent[number] = number * MS
        if latency is not None:
            made.report(number, 0, None)
            made.done[number] = round((number + latency) * MS)
    made.measures = {"cpu_s": 1.0, "ended_ns": ended_ms * MS, "batched": 6, "batches": 3, **measures}
    return made


class TestFigures:
    def test_latency_is_from_sending_to_the_report(self) -> None:
        assert latencies_ms(tape(5, 7.5)) == [5, 7.5]

    def test_a_record_without_a_report_counts_with_its_time_so_far(self) -> None:
        assert latencies_ms(tape(5, None, ended_ms=500)) == [5, 499]

    def test_instances_are_taken_together(self) -> None:
        seen = run_of(2, [tape(*[1] * 99), tape(900, cpu_s=2.0)], 0, broker_cpu_s=10.0, steal=0.01)
        assert (seen.round, seen.records, seen.p50_ms, seen.p99_ms, seen.max_ms) == (2, 100, 1, 1, 900)
        assert (seen.cpu_s, seen.broker_cpu_s) == (30_000, 100_000)  # 3 and 10 s for 100 records
        assert seen.per_batch == 2

    def test_a_p99_of_records_without_a_report_is_a_bound(self) -> None:
        few, many = tape(*[1] * 99, None), tape(*[1] * 97, None, None, None)
        assert not run_of(0, [few], 0, broker_cpu_s=0, steal=0).p99_is_a_bound
        seen = run_of(0, [many], 0, broker_cpu_s=0, steal=0)
        assert (seen.p99_is_a_bound, seen.unreported) == (True, 3)
        assert (seen.cpu_s, seen.broker_cpu_s) == (None, None)  # what the three would have taken is not known

    def test_batches_are_summed_over_librdkafkas_windows(self) -> None:
        windows = [
            json.dumps({"topics": {"t": {"batchcnt": {"sum": 30, "cnt": 10}}}}),
            json.dumps({"topics": {}}),
            json.dumps({"topics": {"t": {"batchcnt": {"sum": 50, "cnt": 10}}}}),
        ]
        assert batches_of(windows, "t") == (80, 20)


class TestTheDiscardRule:
    def test_keeps_a_quiet_run_however_saturated(self) -> None:
        assert why_discarded(evolve(GOOD, unreported=9_000, behind_ms=5_000.0, steal=0.10)) is None

    def test_throws_out_stolen_time_and_failures(self) -> None:
        assert "stolen" in (why_discarded(evolve(GOOD, steal=0.11)) or "")
        assert "failed" in (why_discarded(evolve(GOOD, failed=1)) or "")


class TestTargets:
    FASTER = Target(CELL, 1 / 20, "librdkafka")
    NO_WORSE = Target(CELL, 1.1)

    def test_the_median_of_the_rounds_decides(self) -> None:
        seen = result(librdkafka=runs(400, 400, 400), ours=runs(20, 10, 300))
        verdict = judge(self.FASTER, {CELL.name: seen})
        assert verdict.reached
        assert verdict.spread is not None
        assert (verdict.spread.low, verdict.spread.high) == (0.025, 0.75)

    def test_the_best_peer_is_that_of_the_round(self) -> None:
        peers = {
            "librdkafka": runs(10, 30),
            "librdkafka_5": runs(60, 60),
            "round_robin": runs(30, 10),
            "random": runs(50, 50),
        }
        assert judge(self.NO_WORSE, {CELL.name: result(ours=runs(11, 11), **peers)}).reached
        assert judge(self.NO_WORSE, {CELL.name: result(ours=runs(12, 12), **peers)}).reached is False

    def test_what_was_not_measured_is_neither_reached_nor_missed(self) -> None:
        assert judge(self.FASTER, {}).reached is None
        assert judge(self.NO_WORSE, {CELL.name: result(ours=runs(1), librdkafka=runs(1))}).reached is None
