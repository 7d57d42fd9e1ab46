"""All runs of a scenario: interleaved, with disturbed ones repeated."""

import time
from collections.abc import Callable

from benchmarks.faults.errors import BenchError
from benchmarks.faults.metrics import Run
from benchmarks.faults.one_run import Bench, run_once
from benchmarks.faults.plan import Scenario
from benchmarks.faults.results import Measured, Result
from benchmarks.faults.rules import MORE_TRIES, why_discarded

Say = Callable[[str], None]


def measure(bench: Bench, scenario: Scenario, rounds: int, say: Say) -> Result:
    """Run every producer once a round. One that can't be run is left out from then on."""
    say(f"-- {scenario.name}: {scenario.title}")
    measured = {name: Measured() for name in scenario.producers}
    for number in range(rounds):
        for producer, into in measured.items():
            if into.broken is None:
                say_run = _prefixed(say, f"{scenario.name}, round {number + 1} of {rounds}, {producer}: ")
                _run_until_kept(bench, scenario, producer, number, into, say_run)
    return Result(scenario.name, rounds, measured)


def _run_until_kept(
    bench: Bench, scenario: Scenario, producer: str, number: int, into: Measured, say: Say
) -> None:
    for _ in range(1 + MORE_TRIES):
        began = time.monotonic()
        try:
            run = run_once(bench, scenario, producer, number)
        except BenchError as error:
            into.broken = str(error)
            say("\n".join([f"can't be run: {error}", *getattr(error, "__notes__", ())]))
            return
        words = f"{_in_words(run)} ({time.monotonic() - began:.0f} s)"
        why = why_discarded(run, scenario.fault)
        if why is None:
            into.kept.append(run)
            say(words)
            return
        into.discarded.append(f"round {number + 1}: {why}")
        say(f"discarded, {why}; {words}")


def _in_words(run: Run) -> str:
    seen = run.groups["all"]
    return (
        f"p99 {seen.p99_ms:,.0f} ms, late {seen.late:.2%}, failed {seen.failed:,}, lost {seen.lost:,}, "
        f"copies {seen.duplicates:,}; p99 before {run.before_p99_ms:.0f} ms, behind {run.behind_ms:.0f} ms, "
        f"steal {run.steal:.0%}" + (f"; {run.counters}" if run.counters else "")
    )


def _prefixed(say: Say, prefix: str) -> Say:
    return lambda line: say(prefix + line)
