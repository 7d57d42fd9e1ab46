"""All runs of a scenario: interleaved, with disturbed ones repeated."""

import time
from functools import partial

from attrs import define, evolve

from benchmarks.campaign import Procedure, Say
from benchmarks.campaign import measure as measure_in_turns
from benchmarks.faults.layouts import Layout
from benchmarks.faults.metrics import Result, Run
from benchmarks.faults.one_run import Bench, run_once
from benchmarks.faults.plan import FAULTS, Scenario, scenario_of
from benchmarks.faults.rules import why_discarded

_WARM_S = 15.0
_WARM_RATE = 500


@define
class Clock:
    """Tells how much time is left: what was planned for the runs to come, at the pace of those that were.

    Attributes:
        planned_s: Of all runs that are still to come.
    """

    planned_s: float
    _done_s: float = 0.0
    _took_s: float = 0.0

    def passed(self, planned_s: float, took_s: float) -> None:
        """Note a run: how long it was to take, and how long it did."""
        self.planned_s -= planned_s
        self._done_s += planned_s
        self._took_s += took_s

    def left(self) -> str:
        pace = self._took_s / self._done_s if self._done_s else 1.0
        return f"about {max(0.0, self.planned_s) * pace / 60:.0f} minutes left"


def warm_up(bench: Bench, layout: Layout, say: Say, *, keyed: bool) -> None:
    """Send an ordinary load that is not counted: brokers that have just started are slow.

    With keys nearly each record is a request, which takes brokers longer to become fast at.
    """
    seconds = 3 * _WARM_S if keyed else _WARM_S
    say(f"warming the brokers up for {seconds:.0f} s")
    calm = scenario_of(layout, FAULTS["calm"], seconds=seconds)
    if keyed:
        calm = evolve(calm, keyed=True, rate=_WARM_RATE)
    run_once(bench, calm, "librdkafka", 0)


def measure(bench: Bench, scenario: Scenario, rounds: int, clock: Clock, say: Say) -> Result:
    """Run every producer once a round. One that can't be run is left out from then on."""
    say(f"-- {scenario.name}: {scenario.title} ({scenario.layout.in_words})")

    def run(producer: str, number: int) -> Run:
        began = time.monotonic()
        made = run_once(bench, scenario, producer, number)
        clock.passed(scenario.seconds_a_run, time.monotonic() - began)
        return made

    procedure = Procedure(
        run=run,
        why_discarded=partial(why_discarded, fault=scenario.fault.name),
        in_words=lambda run: f"{_in_words(run)}; {clock.left()}",
    )
    result = measure_in_turns(procedure, scenario.name, scenario.producers, rounds, say)
    return evolve(result, conditions=scenario.conditions)


def _in_words(run: Run) -> str:
    seen = run.figures
    return (
        f"p99 {seen.p99_ms:,.0f} ms, late {seen.late:.2%}, failed {seen.failed:,}, lost {seen.lost:,}, "
        f"copies {seen.duplicates:,}; p99 before {run.before_p99_ms:.0f} ms, behind {run.behind_ms:.0f} ms, "
        f"steal {run.steal:.0%}"
        + (
            ""
            if run.exclusions is None
            else f", excluded {run.exclusions} ({run.exclusions_elsewhere} of others)"
        )
    )
