"""The KIP-480 benchmark's pure parts: what it counts, what it throws out, what it claims."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from benchmarks import kept
from benchmarks.faults.tape import Tape
from benchmarks.kept import Measured, Result
from benchmarks.kip480 import report
from benchmarks.kip480.__main__ import main
from benchmarks.kip480.load import Spec, batches_of, key_of
from benchmarks.kip480.metrics import Run, latencies_ms, run_of
from benchmarks.kip480.plan import BROKERS, CELLS, CLAIM, KINDS, LOADS, PARTITIONS, assignment
from benchmarks.kip480.rules import why_discarded
from benchmarks.kip480.targets import Target, judge, median_p99, targets
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


class TestTheGrid:
    def test_has_every_size_and_linger_for_every_load(self) -> None:
        assert len(CELLS) == len(LOADS) * 9 + 1
        assert {(cell.partitions, cell.linger_ms) for cell in CELLS.values() if cell is not CLAIM} == {
            (partitions, linger) for partitions in PARTITIONS for linger in (0, 10, 100)
        }

    def test_topics_are_led_evenly(self) -> None:
        leaders = [replicas[0] for replicas in assignment(16).values()]
        counts = [leaders.count(broker) for broker in range(1, BROKERS + 1)]
        assert max(counts) - min(counts) <= 1
        assert all(len(set(replicas)) == 3 for replicas in assignment(16).values())

    def test_keyed_records_have_a_thousand_keys_in_turn(self) -> None:
        made = [key_of(keyed=True)(number) for number in range(1_001)]
        assert (len(set(made)), made[0]) == (1_000, made[-1])
        assert key_of(keyed=False)(1) is None

    def test_a_process_is_told_what_it_needs(self, tmp_path: Path) -> None:
        spec = Spec("ours", "h:1", "t", "ab12", 1, 16, 0, None, 20_000, True, tmp_path / "0.tape")
        assert Spec.parse(spec.command()[-1]) == spec


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

    def test_every_cell_of_the_grid_has_one(self) -> None:
        limits = targets()
        assert {limit.cell.name for limit in limits if limit.peer is None} == set(CELLS) - {CLAIM.name}
        beside = {(t.cell.partitions, t.cell.linger_ms): t.at_most for t in limits if t.peer == "librdkafka"}
        assert beside == {(16, 0): 1 / 20, (128, 0): 1 / 5}


class TestThePage:
    def test_tells_discards_and_failures_to_run(self) -> None:
        broken: Measured[Run] = Measured(broken="no such thing")
        seen = {CELL.name: result(ours=Measured([GOOD], ["round 1: 50% was stolen"]), random=broken)}
        text = report.render_page(report.NEW_PAGE, seen, "img")
        assert "AdaptivePartitioner, discarded: round 1: 50% was stolen" in text
        assert "random could not be run: no such thing" in text


class TestThePictures:
    def test_a_point_is_the_median_of_the_runs(self) -> None:
        assert median_p99({CELL.name: result(ours=runs(3, 9, 1))}, CELL.name, "ours") == 3


class TestTheResultsFile:
    def test_finished_cells_are_not_measured_again(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "kip480.json"
        kept.merge(
            path, result(**{kind.replace("-", "_"): runs(1, 2, 3) for kind in KINDS}), lambda d: Run(**d)
        )
        assert main(["--cell", CELL.name, "--results", str(path)]) == 0
        assert "0 cells, 0 runs" in capsys.readouterr().out

    def test_rendering_needs_results(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--render", "--results", str(tmp_path / "none.json")]) == 2
        assert "measure first" in capsys.readouterr().out
