"""Render results as Markdown. Pure: text from results, and a page from a page."""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.faults import layouts
from benchmarks.faults.layouts import SIX
from benchmarks.faults.metrics import Measured, Result, Run
from benchmarks.faults.plan import PRODUCERS, SCENARIOS, Scenario
from benchmarks.faults.rules import RULE
from benchmarks.faults.spec import KEYS
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

Real Kafka, all brokers on one machine: {SIX.in_words}.
Settings and limits stand above each table; they are the same for every producer. A record that is not
delivered within the delivery limit fails. Everything else is as each client has it by default, but for
librdkafka's hash (murmur2). After a warm-up the load runs undisturbed for some seconds; then the fault
begins. Records are sent by an open schedule and timed from the call of `produce` to the report. Brokers lead
the same number of partitions each, and each has followers of each other. Which one is disturbed changes from
round to round.

Cells are median (minimum - maximum) of the kept runs. Latencies, *late* and *to the broker* are of the
records sent from the fault on; counts are of all records.

- **p99** counts a record that failed with the delivery limit, whenever its producer gave it up; **late** is
  the share that took over {layouts.LATE_MS:.0f} ms or failed.
- **to the broker** is the share sent to the disturbed broker; a fair one is 1 / the number of brokers.
- **failed** is what the producer reported as failed or not at all, **lost** what is not in the topic when it
  is read back, **copies** what is there more than once.
- **in flight** is what was outstanding when the fault began. That is the floor: of those records, the ones on
  the broken broker can't be saved, except by sending them again.
- **excluded** is how often a producer of ours took a broker for unresponsive, and in brackets how often that
  was another one than the disturbed.

Producers take turns, run by run, and ratios are made within a round; the median of the rounds decides whether
a target is reached; where it says so, every run must keep it. {RULE}
Below each table stands the last commit that had changed `kafka_partition_events`.
"""

FIGURE_NAMES = {"p99_ms": "p99", "read_p99_ms": "p99", "late": "late", "failed": "failed"}
WRITE: dict[str, Callable[[float], str]] = {
    "p99_ms": lambda value: f"{milliseconds(value)} ms",
    "read_p99_ms": lambda value: f"{milliseconds(value)} ms",
    "late": percent,
    "failed": count,
}
_READING: dict[str, tuple[str, Callable[[float], str]]] = {
    "p50 ms": ("p50_ms", milliseconds),
    "p99 ms": ("p99_ms", milliseconds),
    "out of order": ("out_of_order", count),
    "twice": ("twice", count),
    "never": ("unread", count),
}
_READ_BY = """An `OrderedConsumer` in a process of its own reads meanwhile; times are from `produce` on. What
came twice without a rescue was written twice by librdkafka's own retries: it is not idempotent here."""
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
    "excluded",
    "runs",
)


def render_page(page: str, results: Mapping[str, Result], images: str) -> str:
    """Return the page with everything between the markers made anew; `images` is the path to them."""
    sections = [_INTRODUCTION, asked_and_reached(results) + "\n"]
    sections += [
        _section(scenario, results[name], images) for name, scenario in SCENARIOS.items() if name in results
    ]
    return with_section(page, BEGIN, END, "\n".join(sections))


def asked_and_reached(results: Mapping[str, Result]) -> str:
    """Return all targets in one table."""
    rows = [
        [scenario.title, *_verdict_row(judge(target, results[name]))]
        for name, scenario in SCENARIOS.items()
        if name in results
        for target in targets_of(scenario)
    ]
    return table(("fault", "target", "asked", "measured", "reached"), rows)


def render_scenario(scenario: Scenario, result: Result) -> str:
    """Return one scenario's section as its campaign prints it, with its targets."""
    # Not those of a scenario that was cut down to a few producers: what is missing is said to be.
    rows = [_verdict_row(judge(target, result)) for target in targets_of(SCENARIOS[scenario.name])]
    asked = table(("target", "asked", "measured", "reached"), rows) + "\n" if rows else ""
    return _section(scenario, result, None) + asked


def _section(scenario: Scenario, result: Result, images: str | None) -> str:
    """Return one scenario's section: picture, table, notes."""
    parts = [f"### {scenario.title}", conditions_in_words(result.conditions or scenario.conditions)]
    if scenario.keyed:
        but = ", but for a tenth of the records, which have one key" if scenario.skewed else ""
        parts.append(f"Each record has one of {KEYS:,} keys, which are as likely as each other{but}.")
    if images is not None and scenario.plot:
        parts.append(f"![{scenario.title}]({images}/{image_name(scenario)})")
    rows = [
        _row(PRODUCERS[name].title, measured) for name, measured in result.producers.items() if measured.kept
    ]
    parts.append(table(_HEADER, rows))
    if scenario.read:
        parts.append(_READ_BY)
        rows = [
            [PRODUCERS[name].title, *_reading(measured.kept)] for name, measured in result.producers.items()
        ]
        parts.append(table(("producer", *_READING), rows))
    parts += _notes(result)
    return "\n\n".join(parts) + "\n"


def _reading(runs: Sequence[Run]) -> list[str]:
    found = [run.reading for run in runs if run.reading is not None]
    if not found:
        return ["-"] * len(_READING)
    return [spread_text(Spread.of([getattr(one, of) for one in found]), as_) for of, as_ in _READING.values()]


def image_name(scenario: Scenario) -> str:
    return f"faults-{scenario.name}.svg"


def conditions_in_words(conditions: Mapping[str, float | str]) -> str:
    """Return under what a scenario was measured."""
    of = {name: float(value) for name, value in conditions.items() if not isinstance(value, str)}
    return (
        f"{of['brokers']:.0f} brokers, {of['partitions']:.0f} partitions, replication factor "
        f"{of['replication_factor']:.0f}, min.insync.replicas {of['min_insync_replicas']:.0f}, "
        f"acks={conditions['acks']}; linger {of['linger_ms']:.0f} ms, delivery limit "
        f"{of['delivery_limit_ms'] / 1000:.0f} s, broker session {of['session_ms'] / 1000:.0f} s; "
        f"{of['rate']:,.0f} records/s of {of['value_bytes']:.0f} B "
        f"for {of['seconds']:,.0f} s, the fault after {of['calm_s']:.1f} s."
    )


def _row(title: str, measured: Measured) -> list[str]:
    def cell(figure: str, write: Callable[[float], str]) -> str:
        values = [value for run in measured.kept if (value := figure_of(run, figure)) is not None]
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
        _excluded(measured),
        f"{len(measured.kept)} kept, {len(measured.discarded)} discarded",
    ]


def _excluded(measured: Measured) -> str:
    runs = [run for run in measured.kept if run.exclusions is not None]
    if not runs:
        return "-"
    all_, others = (
        Spread.of([getattr(run, name) for run in runs]) for name in ("exclusions", "exclusions_elsewhere")
    )
    return f"{spread_text(all_, count)} [{spread_text(others, count)}]"


def _verdict_row(verdict: Verdict) -> list[str]:
    target = verdict.target
    write = times if target.beside else WRITE[target.figure]
    measured = "not measured" if verdict.spread is None else spread_text(verdict.spread, write)
    return [
        _target_in_words(target),
        f"at most {write(target.at_most)}" + (" in each run" if target.is_for_each else ""),
        measured,
        reached_text(verdict.reached),
    ]


def _target_in_words(target: Target) -> str:
    beside = f" / {PRODUCERS[target.beside].title}" if target.beside else ""
    return f"{FIGURE_NAMES[target.figure]}: {PRODUCERS[target.ours].title}{beside}"


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
    seen = run.figures
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
