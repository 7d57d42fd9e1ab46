"""Render results as Markdown. Pure: text from results, and a page from a page."""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.kept import Measured, Result
from benchmarks.kip480 import plan
from benchmarks.kip480.metrics import Run
from benchmarks.kip480.plan import CELLS, CLAIM, KINDS, LOADS, Cell, Load
from benchmarks.kip480.rules import RULE
from benchmarks.kip480.targets import (
    CLAIMED,
    NO_WORSE,
    Target,
    Verdict,
    cpu_ratios,
    growth,
    judge,
    ratios,
    targets,
)
from benchmarks.markdown import (
    machine_line,
    milliseconds,
    reached_text,
    spread_text,
    table,
    times,
    with_section,
)
from benchmarks.measure import Spread

BEGIN = "<!-- begin: python -m benchmarks.kip480; do not edit by hand -->"
END = "<!-- end: python -m benchmarks.kip480 -->"
NEW_PAGE = f"# KIP-480 reproduced\n\n{BEGIN}\n{END}\n"

_INTRODUCTION = f"""## How it was measured

Real Kafka, {plan.BROKERS} brokers on one machine, replication factor {plan.REPLICATION}, acks=all; each
producer sends {plan.RATE:,} records/s of 100 B for 5 s after {plan.WARM_UP_S:.0f} s of warm-up, by an open
schedule. All producers are librdkafka's with its defaults but for `linger.ms`: *round robin* and *random*
name each record's partition, the *default* leaves it to librdkafka, and ours is `PartitioningProducer`.
Without linger ours also keeps five requests in flight instead of a million, so there librdkafka's default
takes part with that, too: what is gained beyond it is the choice of partitions. Each run has a process for
each producer and a fresh topic; producers take turns, run by run. A record to each partition of the topic
comes first: brokers open and sync files for it, which only new topics pay for.

- **p50**, **p99**: from `produce()` to the delivery report, ms. Reports are waited for up to
  {plan.DRAIN_S:.0f} s after the load; a record without one counts with its time until then, and a p99 that is
  of such a record is marked `>`.
- **CPU**: seconds of the producers' processes, and of the brokers', for a million records; `-` where records
  were left without a report. All share two processors: what brokers need to serve many small requests, the
  producers lack.
- **records per batch**: sum over count of `batchcnt` in librdkafka's statistics (one window a second).

Cells are the median of the kept runs; ratios are made within a round, and their median decides whether a
target is reached. {RULE}
"""

_FIGURES: tuple[tuple[str, Callable[[Run], float | None], Callable[[float], str]], ...] = (
    ("p99 ms", lambda run: run.p99_ms, milliseconds),
    ("p50 ms", lambda run: run.p50_ms, milliseconds),
    ("CPU s per million records, producers", lambda run: run.cpu_s, milliseconds),
    ("CPU s per million records, brokers", lambda run: run.broker_cpu_s, milliseconds),
    ("records per batch", lambda run: run.per_batch, milliseconds),
)


def render_page(page: str, results: Mapping[str, Result[Run]], _images: str) -> str:
    """Return the page with everything between the markers replaced."""
    sections = [_INTRODUCTION, _render_targets(results), _render_claims(results)]
    sections += [
        render_load(load, results)
        for load in LOADS.values()
        if any(cell.load is load and cell.name in results for cell in CELLS.values())
    ]
    sections.append(_render_notes(results))
    return with_section(page, BEGIN, END, "\n".join(sections))


def render_load(load: Load, results: Mapping[str, Result[Run]]) -> str:
    """Return a load's section: a table for each figure."""
    cells = [cell for cell in CELLS.values() if cell.load is load and cell.name in results]
    parts = [f"## {load.title}"]
    header = ("partitions, linger", *map(load.title_of, KINDS))
    for name, figure, write in _FIGURES:
        rows = [
            [_cell_in_words(cell), *(_number(results[cell.name], kind, figure, write) for kind in KINDS)]
            for cell in cells
        ]
        parts += [f"**{name}**", table(header, rows)]
    return "\n\n".join(parts) + "\n"


def _cell_in_words(cell: Cell) -> str:
    batch = "" if cell.batch_bytes is None else f", batch.size {cell.batch_bytes:,}"
    return f"{cell.partitions}, {cell.linger_ms} ms{batch}"


def _number(
    result: Result[Run], kind: str, figure: Callable[[Run], float | None], write: Callable[[float], str]
) -> str:
    measured = result.producers.get(kind, Measured[Run]())
    values = [value for run in measured.kept if (value := figure(run)) is not None]
    if not values:
        return "-"
    bound = figure is _FIGURES[0][1] and _median_is_a_bound(measured)
    return ("> " if bound else "") + write(Spread.of(values).median)


def _median_is_a_bound(measured: Measured[Run]) -> bool:
    return sum(run.p99_is_a_bound for run in measured.kept) * 2 > len(measured.kept)


# -- targets and claims --------------------------------------------------------------------------------


def _render_targets(results: Mapping[str, Result[Run]]) -> str:
    verdicts = [judge(target, results) for target in targets()]
    faster = [verdict for verdict in verdicts if verdict.target.peer is not None]
    no_worse = [verdict for verdict in verdicts if verdict.target.peer is None]
    known = [verdict for verdict in no_worse if verdict.reached is not None]
    missed = [verdict for verdict in known if not verdict.reached]
    words = f"Within {NO_WORSE} times the best peer's p99 in {len(known) - len(missed)} of {len(known)} cells"
    words += "; the others are listed." if missed else "."
    rows = [_verdict_row(verdict) for verdict in (*faster, *missed)]
    return "\n\n".join(["## Targets", words, table(("p99", "limit", "measured", "reached"), rows)]) + "\n"


def _verdict_row(verdict: Verdict) -> list[str]:
    measured = "not measured" if verdict.spread is None else spread_text(verdict.spread, times)
    return [
        _target_in_words(verdict.target),
        f"at most {times(verdict.target.at_most)}",
        measured,
        reached_text(verdict.reached),
    ]


def _target_in_words(target: Target) -> str:
    load = target.cell.load
    beside = "the best peer" if target.peer is None else load.title_of(target.peer)
    where = f"{_cell_in_words(target.cell)}, {load.title.lower()}"
    return f"{load.title_of(plan.OURS)} / {beside}: {where}"


def _render_claims(results: Mapping[str, Result[Run]]) -> str:
    linger_0 = ratios(results.get(f"16p-0ms-{CLAIMED.name}"), "p99_ms", ["round-robin"])
    linger_1000 = ratios(results.get(CLAIM.name), "p99_ms", ["round-robin"])
    grown = [growth(results, CLAIMED.name, kind) for kind in ("round-robin", plan.OURS)]
    rows = [
        ("p99 is about half (16 partitions, 3 producers)", "sticky / round robin", _ratio_text(linger_0)),
        (
            "the old p99 is five times as long with linger 1000",
            f"sticky / round robin, batch.size {plan.JAVA_BATCH_BYTES:,} as in Java",
            _ratio_text(linger_1000),
        ),
        (
            "old latency grows much faster with partitions",
            "p99 at 128 / at 16, linger 0: round robin, sticky",
            ", ".join("not measured" if value is None else times(value) for value in grown),
        ),
        (
            "less CPU in many cases",
            "producers' CPU, sticky / round robin, over the cells without keys",
            _ratio_text(cpu_ratios(results, "cpu_s")),
        ),
        ("", "brokers' CPU, the same", _ratio_text(cpu_ratios(results, "broker_cpu_s"))),
    ]
    return "\n\n".join(["## What KIP-480 claims", table(("claim", "here", "measured"), rows)]) + "\n"


def _ratio_text(spread: Spread | None) -> str:
    return "not measured" if spread is None else spread_text(spread, times)


def _render_notes(results: Mapping[str, Result[Run]]) -> str:
    """Return what a reader must know beside the tables: discards, what could not be run, the machine."""
    lines: list[str] = []
    for cell in (cell for cell in CELLS.values() if cell.name in results):
        for kind, measured in results[cell.name].producers.items():
            title = f"{_cell_in_words(cell)}, {cell.load.title.lower()}, {cell.load.title_of(kind)}"
            if measured.broken:
                lines.append(f"- {title} could not be run: {measured.broken}")
            lines += [f"- {title}, discarded: {why}" for why in measured.discarded]
    parts = ["## Notes", *(["\n".join(lines)] if lines else []), _machines(list(results.values()))]
    return "\n\n".join(parts) + "\n"


def _machines(results: Sequence[Result[Run]]) -> str:
    if not results:
        return "Nothing has been measured yet."
    first, last = (pick(results, key=_taken_at) for pick in (min, max))
    return f"From {_taken_at(first)} on; the last cell: {machine_line(last.environment, last.rounds)}"


def _taken_at(result: Result[Run]) -> str:
    return result.environment.taken_at
