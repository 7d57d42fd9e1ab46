"""All runs of a scenario: interleaved, with disturbed ones repeated."""

from functools import partial

from benchmarks.campaign import Procedure, Say
from benchmarks.campaign import measure as measure_in_turns
from benchmarks.faults.metrics import Run
from benchmarks.faults.one_run import Bench, run_once
from benchmarks.faults.plan import Scenario
from benchmarks.faults.results import Result
from benchmarks.faults.rules import why_discarded


def measure(bench: Bench, scenario: Scenario, rounds: int, say: Say) -> Result:
    """Run every producer once a round. One that can't be run is left out from then on."""
    say(f"-- {scenario.name}: {scenario.title}")
    procedure = Procedure(
        run=partial(run_once, bench, scenario),
        why_discarded=partial(why_discarded, fault=scenario.fault),
        in_words=_in_words,
    )
    return measure_in_turns(procedure, scenario.name, scenario.producers, rounds, say)


def _in_words(run: Run) -> str:
    seen = run.groups["all"]
    return (
        f"p99 {seen.p99_ms:,.0f} ms, late {seen.late:.2%}, failed {seen.failed:,}, lost {seen.lost:,}, "
        f"copies {seen.duplicates:,}; p99 before {run.before_p99_ms:.0f} ms, behind {run.behind_ms:.0f} ms, "
        f"steal {run.steal:.0%}" + (f"; {run.counters}" if run.counters else "")
    )
