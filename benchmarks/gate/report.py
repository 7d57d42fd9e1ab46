"""Render results as Markdown. Pure: text from results, and a page from a page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.gate import plan
from benchmarks.gate.counting import Run
from benchmarks.gate.plan import FAULTS, SCENARIOS, Scenario
from benchmarks.kept import Measured, Result
from benchmarks.markdown import machine_line, spread_text, table, with_section
from benchmarks.measure import Spread
from kafka_partition_events.control.groups.state import SETTLE_S

BEGIN = "<!-- begin: python -m benchmarks.gate; do not edit by hand -->"
END = "<!-- end: python -m benchmarks.gate -->"
NEW_PAGE = f"# Gated growth\n\n{BEGIN}\n{END}\n"

_INTRODUCTION = f"""## How it was measured

Real Kafka on one machine: a broker whose topics grow (three, with three replicas, where coordinators fail
over). In the rounds of 2026 the control topics had a broker of their own; they are on the same one now.
A run is a fresh topic that grows from {plan.OLD} to {plan.GROWN} partitions, one producer
({plan.RATE} records/s, every second one with a key) and a group of two consumers with
`auto.offset.reset=latest`. Consumers read metadata every {plan.CONSUMERS_LOOK_S:.0f} s (Kafka's
default: 300 s) and commit every {plan.COMMIT_S:.0f} s; producers every {plan.PRODUCERS_LOOK_S:.0f} s, so
they are first. Gated changes are requested, and a `kpe tracker` process makes them when all
producers hold the gate; the others are made by the driver. Ten runs of a cell share a batch with ten of the
other producing client: each has a topic, a group, clients, agents and a change of its own, in processes that
they share. A cell is two batches, or one where a column says "of 10" (the rounds of 2026-11-27, the only ones
since leases acknowledge). kafka-python has no KIP-848 groups.

- **missed**: records that were acknowledged to the producer, since the group had committed on all old
  partitions, and that no consumer has received, whatever the partition.
- **early**: records on new partitions before the gate was open. There must be none.
- **open**: seconds from growth until the gate was open, median (least - most).
- Each process notes what it sees with one `write` a record, consumers before they commit: a SIGKILL loses
  none of that.
"""

_GUARDS: Final = {
    "none": "Not gated",
    "hook": "Gated, consumers with the hook",
    "probed": f"Gated, consumers without it (the tracker asks the brokers; settle_s={SETTLE_S:.0f})",
}


def render_page(page: str, results: Mapping[str, Result[Run]], _images: str) -> str:
    """Return the page with everything between the markers made anew."""
    sections = [_INTRODUCTION]
    for guard, title in _GUARDS.items():
        scenarios = [s for s in _measured(results) if s.guard == guard and s.fault == "none"]
        if scenarios:
            sections.append(f"## {title}\n\n{render(scenarios, results)}")
    if broken := [s for s in _measured(results) if s.fault != "none"]:
        sections.append(f"## When something fails in the middle\n\n{render(broken, results)}")
    sections.append(_render_notes(results))
    return with_section(page, BEGIN, END, "\n".join(sections))


def render(scenarios: Sequence[Scenario], results: Mapping[str, Result[Run]]) -> str:
    """Return the table of some scenarios, which are of one guard or have all a fault."""
    faulty = any(scenario.fault != "none" for scenario in scenarios)
    gated = any(scenario.guard != "none" for scenario in scenarios)
    columns = [column for column in _COLUMNS if (gated or not column[2]) and (faulty or not column[3])]
    rows = [
        [*([_fault(scenario)] if faulty else []), scenario.consumers.title, producer, *cells]
        for scenario in scenarios
        for producer, measured in results[scenario.name].producers.items()
        if (cells := _cells(measured, [column[1] for column in columns]))
    ]
    header = (
        *(["what fails"] if faulty else []),
        "consumers",
        "producer",
        *(column[0] for column in columns),
    )
    return table(header, rows) + "\n"


def _measured(results: Mapping[str, Result[Run]]) -> list[Scenario]:
    return [scenario for scenario in SCENARIOS.values() if scenario.name in results]


def _fault(scenario: Scenario) -> str:
    return FAULTS[scenario.fault] + ("; **no hook**" if scenario.guard == "probed" else "")


def _cells(measured: Measured[Run], columns: Sequence[Callable[[Sequence[Run]], str]]) -> list[str]:
    if not measured.kept:
        return ["-" for _ in columns]
    return [column(measured.kept) for column in columns]


def _runs_that_missed(runs: Sequence[Run]) -> str:
    missed = sum(run.missed > 0 for run in runs)
    return f"{missed} of {len(runs)}" if not missed else f"**{missed}** of {len(runs)}"


def _missed(runs: Sequence[Run], of: Callable[[Run], int]) -> str:
    counts = [of(run) for run in runs]
    return spread_text(Spread.of(counts), "{:,.0f}".format) if any(counts) else "0"


def _seconds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return spread_text(Spread.of(known), "{:.1f}".format) if known else "-"


def _held(runs: Sequence[Run]) -> str:
    return f"{sum(run.held_when_struck is True for run in runs)} of {len(runs)}"


def _opened_by(runs: Sequence[Run]) -> str:
    who = [run.opened_by or "nobody" for run in runs]
    return ", ".join(f"{name} {who.count(name)}" for name in sorted(set(who)))


# A title, what to write, whether it makes sense only with a gate, and only when something fails.
_COLUMNS: Final[tuple[tuple[str, Callable[[Sequence[Run]], str], bool, bool], ...]] = (
    ("runs that missed records", _runs_that_missed, False, False),
    ("missed on new partitions, a run", lambda runs: _missed(runs, lambda r: r.missed_new), False, False),
    ("of", lambda runs: _missed(runs, lambda run: run.acked_new), False, False),
    ("on old ones", lambda runs: _missed(runs, lambda run: run.missed_old), False, False),
    ("open, s", lambda runs: _seconds([run.open_s for run in runs]), True, False),
    ("early", lambda runs: f"{sum(run.early for run in runs)}", True, False),
    ("gate held when it failed", _held, True, True),
    ("opened by", _opened_by, True, True),
)


def _render_notes(results: Mapping[str, Result[Run]]) -> str:
    lines = [
        f"- {scenario.name}, {producer}: {measured.broken}"
        for scenario in _measured(results)
        for producer, measured in results[scenario.name].producers.items()
        if measured.broken
    ]
    parts = ["## Notes", *(["\n".join(lines)] if lines else [])]
    if results:
        last = max(results.values(), key=lambda result: result.environment.taken_at)
        parts.append(f"The last cell: {machine_line(last.environment, last.rounds)}")
    return "\n\n".join(parts) + "\n"
