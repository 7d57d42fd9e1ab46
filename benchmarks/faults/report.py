"""Render results as Markdown. Pure: text from results, and a page from a page."""

from collections.abc import Callable, Mapping

from benchmarks.faults import plan
from benchmarks.faults.metrics import Run
from benchmarks.faults.plan import PRODUCERS, SCENARIOS, Scenario
from benchmarks.faults.results import Measured, Result
from benchmarks.faults.rules import RULE
from benchmarks.faults.targets import Target, Verdict, figure_of, judge, targets_of
from benchmarks.markdown import (
    count,
    machine_line,
    milliseconds,
    percent,
    reached_text,
    spread_text,
    table,
    times,
    with_section,
)
from benchmarks.measure import Spread

BEGIN = "<!-- begin: python -m benchmarks.faults; do not edit by hand -->"
END = "<!-- end: python -m benchmarks.faults -->"
NEW_PAGE = f"# Benchmarks\n\n{BEGIN}\n{END}\n"

_INTRODUCTION = f"""## When a broker fails

Real Kafka, {plan.BROKERS} brokers, all on one machine; topics of {plan.PARTITIONS} partitions, replication
factor 1 where not stated otherwise; records of {plan.VALUE_BYTES} B; acks=all, linger {plan.LINGER_MS} ms,
and a delivery limit of {plan.DELIVERY_LIMIT_MS / 1000:.0f} s for everybody: a record that is not delivered by
then fails. Everything else is as each client has it by default, but for librdkafka's queue (1,000,000
records) and hash (murmur2). After {plan.WARM_UP_S:.0f} s of warm-up the load runs undisturbed for
{plan.FAULT_AT_S} s; then the fault begins, and lasts to the end. Records are sent by an open schedule and
timed from the call of `produce` to the report.

Cells are median (minimum - maximum) of the kept runs. Latencies, *late* and *to the broker* are of the
records sent from the fault on; counts are of all records.

- **p99** counts a record that failed with the delivery limit, whenever its producer gave it up; **late** is
  the share that took over {plan.LATE_MS:.0f} ms or failed.
- **to the broker** is the share sent to the disturbed broker (a fair share is a third).
- **failed** is what the producer reported as failed or not at all, **lost** what is not in the topic when it
  is read back, **copies** what is there more than once.
- **in flight** is what was outstanding when the fault began. That is the floor: of those records, the ones on
  the broken broker can't be saved, except by sending them again.

Producers take turns, run by run, and ratios are made within a round; the median of the rounds decides whether
a target is reached. Where the limit is on a number itself ("0 failed"), every run must keep it. {RULE}
"""

_FIGURE_NAMES = {"p99_ms": "p99", "late": "late", "failed": "failed", "lost": "lost"}
_HEADER = (
    "producer",
    "p50 ms",
    "p99 ms",
    "max ms",
    "late",
    "to the broker",
    "failed",
    "lost",
    "copies",
    "in flight",
    "runs",
)


def render_page(page: str, results: Mapping[str, Result], images: str) -> str:
    """Return the page with everything between the markers made anew; `images` is the path to them."""
    sections = [_INTRODUCTION]
    sections += [
        render_scenario(SCENARIOS[name], results[name], images) for name in SCENARIOS if name in results
    ]
    return with_section(page, BEGIN, END, "\n".join(sections))


def render_scenario(scenario: Scenario, result: Result, images: str | None = None) -> str:
    """Return one scenario's section: picture, table, targets, notes."""
    parts = [f"### {scenario.title}", _load_in_words(scenario)]
    if images is not None and scenario.plot:
        parts.append(f"![{scenario.title}]({images}/{image_name(scenario)})")
    for group in ("unkeyed", "keyed") if scenario.keyed else ("all",):
        if scenario.keyed:
            parts.append(f"**{group.capitalize()} records**")
        rows = [
            _row(PRODUCERS[name].title, measured, group)
            for name, measured in result.producers.items()
            if measured.kept
        ]
        parts.append(table(_HEADER, rows))
    # Not those of a scenario that was cut down to a few producers: what is missing is said to be.
    parts.append(
        table(
            ("target", "limit", "measured", "reached"),
            [_verdict_row(judge(target, result)) for target in targets_of(SCENARIOS[scenario.name])],
        )
    )
    parts += _notes(result)
    return "\n\n".join(parts) + "\n"


def image_name(scenario: Scenario) -> str:
    return f"faults-{scenario.name}.svg"


def _load_in_words(scenario: Scenario) -> str:
    by = f"{scenario.instances} producers with " if scenario.instances > 1 else ""
    each = " each" if scenario.instances > 1 else ""
    words = f"{by}{scenario.rate:,} records/s{each} for {scenario.seconds:.0f} s"
    if scenario.keyed:
        words += ", every other one keyed, all producers with murmur2"
    if scenario.fault == "rolling":
        words += ", min.insync.replicas=2"
    return words[0].upper() + words[1:] + "."


def _row(title: str, measured: Measured, group: str) -> list[str]:
    def cell(figure: str, write: Callable[[float], str]) -> str:
        values = [value for run in measured.kept if (value := figure_of(run, group, figure)) is not None]
        return spread_text(Spread.of(values), write) if values else "-"

    in_flight = Spread.of([run.in_flight for run in measured.kept])
    return [
        title,
        cell("p50_ms", milliseconds),
        cell("p99_ms", milliseconds),
        cell("max_ms", milliseconds),
        cell("late", percent),
        cell("to_faulty", percent),
        cell("failed", count),
        cell("lost", count),
        cell("duplicates", count),
        spread_text(in_flight, count),
        f"{len(measured.kept)} kept, {len(measured.discarded)} discarded",
    ]


def _verdict_row(verdict: Verdict) -> list[str]:
    target = verdict.target
    write = times if target.beside else (percent if target.figure == "late" else count)
    measured = "not measured" if verdict.spread is None else spread_text(verdict.spread, write)
    return [
        _target_in_words(target),
        f"at most {write(target.at_most)}",
        measured,
        reached_text(verdict.reached),
    ]


def _target_in_words(target: Target) -> str:
    group = "" if target.group == "all" else f", {target.group}"
    beside = f" / {PRODUCERS[target.beside].title}" if target.beside else ""
    return f"{_FIGURE_NAMES[target.figure]}{group}: {PRODUCERS[target.ours].title}{beside}"


def _notes(result: Result) -> list[str]:
    """Return what a reader must know beside the tables: contradictions, errors, discards, the machine."""
    lines = []
    for name, measured in result.producers.items():
        title = PRODUCERS[name].title
        if measured.broken:
            lines.append(f"- {title} could not be run: {measured.broken}")
        lines += [f"- {title}: {trouble}" for run in measured.kept for trouble in _broken_promises(run)]
        lines += [f"- {title}, discarded: {why}" for why in measured.discarded]
    machine = machine_line(result.environment, result.rounds)
    return ["\n".join(lines), machine] if lines else [machine]


def _broken_promises(run: Run) -> list[str]:
    seen = run.groups["all"]
    troubles = []
    if seen.unreported:
        troubles.append(
            f"{seen.unreported:,} records were never reported on, neither as delivered nor as failed"
        )
    if seen.vanished:
        troubles.append(f"{seen.vanished:,} records were reported as delivered and are not in the topic")
    if run.reported_again:
        troubles.append(f"{run.reported_again:,} records were reported on more than once")
    return troubles
