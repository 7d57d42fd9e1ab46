"""Tables of medians for other pages: README, keys, asyncio, reliability. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from benchmarks.faults import layouts
from benchmarks.faults.layouts import SIX
from benchmarks.faults.metrics import Result
from benchmarks.faults.plan import FROZEN_S, FROZEN_WHOLE_S, SCENARIOS, THAWED_S, THROTTLED
from benchmarks.faults.report import FIGURE_NAMES, WRITE, conditions_in_words
from benchmarks.faults.spec import KEYS
from benchmarks.faults.targets import figure_of
from benchmarks.markdown import machine_of, table, with_section
from benchmarks.measure import Spread

BEGIN = "<!-- begin: made by python -m benchmarks.faults -->"
END = "<!-- end: made by python -m benchmarks.faults -->"

_BUSY = "-busy-core"
_HANGS = f"hangs for {FROZEN_WHOLE_S:.0f} s"
_STALLS = f"stalls {FROZEN_S} s of each {FROZEN_S + THAWED_S} s"
_KILLED = "is killed (`kill -9`)"


@frozen
class Row:
    """One row: what it says of the broker, which scenario it is of, and the figure."""

    broker: str
    scenario: str
    figure: str

    @property
    def title(self) -> str:
        return f"{self.broker}: {FIGURE_NAMES[self.figure]}"


_PEERS = {"librdkafka": "confluent-kafka", "java": "Java client", "kafka-python": "kafka-python"}


def _whole_broker(suffix: str) -> tuple[Row, ...]:
    """Return the rows of what becomes of a whole broker, under one kind of load."""
    return (
        Row(_HANGS, f"frozen{suffix}", "late"),
        Row(_HANGS, f"frozen{suffix}", "failed"),
        Row(_STALLS, f"in-turns{suffix}", "p99_ms"),
        Row(_KILLED, f"killed{suffix}", "late"),
        Row(_KILLED, f"killed{suffix}", "failed"),
    )


_README = {
    "**no key**": (
        {"ours": "this library", "ours-hedge": '`rescue="hedge"`', **_PEERS},
        (*_whole_broker(""), Row(f"has {THROTTLED // 1000} kB/s to its clients", "link-throttled", "p99_ms")),
    ),
    "**with a key**": (
        {"ours": "this library", "ours-move": '`keys="move"`', "ours-move-hedge": "and `hedge`", **_PEERS},
        _whole_broker("-keyed"),
    ),
}
"""Ours first: a phone shows two columns."""

_KEYS_COLUMNS = {
    "librdkafka": "confluent-kafka",
    "ours": '`"stay"`',
    "ours-move": '`"move"`',
    "ours-move-hedge": '`"move"`, `rescue="hedge"`',
}
_KEYS_ROWS = (
    Row(_HANGS, "frozen-keyed", "late"),
    Row(_HANGS, "frozen-keyed", "failed"),
    Row(f"{_HANGS}, read by `OrderedConsumer`", "frozen-read", "read_p99_ms"),
    Row(f"{_HANGS}, one key in a tenth of the records", "frozen-skewed", "late"),
    Row(_STALLS, "in-turns-keyed", "late"),
    Row(f"{_STALLS}, read by `OrderedConsumer`", "in-turns-read", "read_p99_ms"),
    Row(_KILLED, "killed-keyed", "late"),
    Row(_KILLED, "killed-keyed", "failed"),
    Row(f"{_KILLED}, read by `OrderedConsumer`", "killed-read", "read_p99_ms"),
)

_ASYNCIO_COLUMNS = {"aiokafka": "aiokafka", "aio": "attached", "aio-hedge": '`rescue="hedge"`'}
_ASYNCIO_ROWS = (
    Row(_STALLS, "in-turns-asyncio", "late"),
    Row(_KILLED, "killed-asyncio", "late"),
    Row(_KILLED, "killed-asyncio", "failed"),
)

Results = Mapping[str, Result]


def render_readme(page: str, results: Results) -> str:
    """Return the README with its first tables made anew; as it is until they were measured."""
    tables = [
        _medians(f"{title}: a broker ...", columns, rows, results)
        for title, (columns, rows) in _README.items()
        if any(row.scenario in results for row in rows)
    ]
    if not tables:
        return page
    found = _measured((row for _, rows in _README.values() for row in rows), results)
    caption = (
        f"{_of_runs(found)} With keys {SCENARIOS['frozen-keyed'].rate} records/s, each with one of {KEYS:,}; "
        + conditions_in_words(found[0].conditions or SCENARIOS[found[0].scenario].conditions)
        + f" All brokers on one machine ({machine_of(found[0].environment)}). A record is *late* if it took "
        f"more than {layouts.LATE_MS:.0f} ms, and *failed* if it was not delivered within the limit. "
        "kafka-python with its default, idempotent producer. [All numbers](docs/benchmarks.md), with the "
        "targets that were missed."
    )
    return with_section(page, BEGIN, END, "\n\n".join([*tables, caption]) + "\n")


def render_keys(page: str, results: Results) -> str:
    """Return the page with the table of keys made anew."""
    return _with_table(page, _KEYS_COLUMNS, _KEYS_ROWS, results)


def render_asyncio(page: str, results: Results) -> str:
    """Return the page with the table of aiokafka's producers made anew."""
    return _with_table(page, _ASYNCIO_COLUMNS, _ASYNCIO_ROWS, results)


def _with_table(page: str, columns: Mapping[str, str], rows: Sequence[Row], results: Results) -> str:
    found = _measured(rows, results)
    if not found:
        return page
    made = _medians("a broker ...", columns, rows, results)
    return with_section(page, BEGIN, END, f"{made}\n\n{_of_runs(found)}\n")


def _of_runs(found: Sequence[Result], *, in_cells: bool = True) -> str:
    """Say of which runs, of which code, the medians are, and what two in a cell are."""
    rounds = " or ".join(str(number) for number in sorted({result.rounds for result in found}))
    days = sorted({result.environment.taken_at[:10] for result in found})
    noted = {result.environment.commit for result in found}
    commits = ", ".join(sorted(noted - {""})) + (" and earlier ones" if "" in noted else "")
    names = {result.scenario for result in found}
    both = in_cells and any(name + _BUSY in names for name in names)
    return (
        f"Medians of {rounds} interleaved runs"
        + (": quiet / with one of the two cores kept busy by others" if both else "")
        + f"; {' to '.join(dict.fromkeys((days[0], days[-1])))}"
        + (f", commit {commits}." if noted != {""} else ".")
    )


def _measured(rows: Iterable[Row], results: Results) -> list[Result]:
    """Return all results that are in the rows, in order."""
    names = dict.fromkeys(row.scenario + busy for row in rows for busy in ("", _BUSY))
    return [results[name] for name in names if name in results]


def _medians(title: str, columns: Mapping[str, str], rows: Sequence[Row], results: Results) -> str:
    """Return a table: quiet / busy medians of each producer, as far as they were measured."""
    cells = [
        [row.title, *(_quiet_and_busy(row, by, results) for by in columns)]
        for row in rows
        if row.scenario in results
    ]
    return table((title, *columns.values()), cells)


def _quiet_and_busy(row: Row, producer: str, results: Results) -> str:
    names = (row.scenario, row.scenario + _BUSY)
    cells = [_median(results[name], producer, row.figure) for name in names if name in results]
    return " / ".join(cells) if set(cells) - {"-"} else "-"  # one number alone is a quiet one


def _median(result: Result, producer: str, figure: str) -> str:
    measured = result.producers.get(producer)
    values = [figure_of(run, figure) for run in measured.kept] if measured else []
    known = [value for value in values if value is not None]
    return WRITE[figure](Spread.of(known).median) if known else "-"


# -- what a fault does to each client, for docs/reliability.md -------------------------------------------

_SIDE_BY_SIDE = {"librdkafka": "plain", "ours": "ours", "ours-hedge": '`rescue="hedge"`'}
_SIDE_FIGURES = ("late", "p99_ms", "failed")


def render_side_by_side(page: str, results: Results) -> str:
    """Return the page with the table of faults and clients made anew."""
    found = [
        results[name]
        for name, scenario in SCENARIOS.items()
        if scenario.layout is SIX
        and name in results
        and _SIDE_BY_SIDE.keys() <= results[name].producers.keys()
    ]
    if not found:
        return page
    rows = [
        [
            SCENARIOS[result.scenario].title,
            *(_median(result, by, figure) for by in _SIDE_BY_SIDE for figure in _SIDE_FIGURES),
        ]
        for result in found
    ]
    figures = [f"{by}: {FIGURE_NAMES[figure]}" for by in _SIDE_BY_SIDE.values() for figure in _SIDE_FIGURES]
    caption = (
        f"{_of_runs(found, in_cells=False)} {SIX.in_words}, delivery limit {SIX.delivery_limit_ms / 1000:g} "
        f"s. *Late* is the share of the records sent from the fault on that took over "
        f"{layouts.LATE_MS:.0f} ms or failed. [Spreads](benchmarks.md)."
    )
    return with_section(page, BEGIN, END, f"{table(('fault', *figures), rows)}\n\n{caption}\n")
