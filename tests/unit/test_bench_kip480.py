"""The KIP-480 benchmark's pure parts: what it counts, what it throws out, what it claims."""

import json

from benchmarks.faults.tape import Tape
from benchmarks.kip480.load import batches_of
from benchmarks.kip480.metrics import latencies_ms, run_of
from benchmarks.kip480.plan import CELLS
from benchmarks.measure import Environment

MS = 1_000_000
ENVIRONMENT = Environment("3.11", 2, "Linux", {"confluent-kafka": "2.16"}, "2026-01-01 00:00 UTC")
CELL = CELLS["16p-0ms-1x"]


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
