"""Render results as Markdown. Pure: text from results, and a page from a page."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import frozen

from benchmarks.convergence.one_run import Run
from benchmarks.kept import Result
from benchmarks.markdown import machine_line, table, with_section

BEGIN = "<!-- begin: python -m benchmarks.convergence; do not edit by hand -->"
END = "<!-- end: python -m benchmarks.convergence -->"
NEW_PAGE = f"# How fast a fleet follows\n\n{BEGIN}\n{END}\n"

_INTRODUCTION = """## How it was measured

A real broker, its control topics, and a real `kpe tracker`; it grows a topic from 6 to 12 partitions with
`gate=true` and no group to wait for, so each instance has news twice at least: that it holds the gate, and
that it uses all partitions. The instances are simulated: each has the duties of an agent
(`ProducerDuties`), a poller's view that is renewed every 30 s at a moment of its own, leases every 30 s +-20%
and news spread over 5 s, but no thread and no connection. One process plays them all, and reads `kpe.changes`
once: what 10,000 agents ask for (333 ListOffsets a second, 5,000 while their change is open) is not in these
numbers. The rounds below are older than leases that acknowledge; one of 3,000 since then (2026-11-27) took
35 s to growth and 70 s to converged, with 10,122 leases (3.65 MB).

Most of the time is made of intervals: up to 36 s until the last agent reads, up to 30 s until the last poller
does, 5 s over which news is spread. Bytes are keys and values, without compression.
"""

_ROUND: Final = "One round of each."
_ROUNDS: Final = "The median, and the least and the most of several rounds."


@frozen
class _Column:
    """One of the numbers of a run, and how it is written."""

    title: str
    of: Callable[[Run], float]
    form: str

    def cell(self, runs: Sequence[Run]) -> str:
        """Return the median, and the least and the most if they look different."""
        found = sorted(map(self.of, runs))
        least, middle, most = (self.form.format(n) for n in (found[0], statistics.median(found), found[-1]))
        return middle if least == most else f"{middle} ({least} to {most})"


def _records(name: str) -> tuple[_Column, _Column]:
    return (
        _Column(f"kpe.{name}, records", lambda run: run.records[name], "{:,.0f}"),
        _Column("MB", lambda run: run.bytes[name] / 1e6, "{:.2f}"),
    )


_COLUMNS: Final = (
    _Column("instances", lambda run: run.instances, "{:,}"),
    _Column("request to growth, s", lambda run: run.armed_s, "{:.0f}"),
    _Column("request to converged, s", lambda run: run.converged_s, "{:.0f}"),
    _Column("followed", lambda run: run.followed, "{:,}"),
    *_records("leases"),
    *_records("changes"),
    _Column("tracker's memory at most, MiB", lambda run: run.tracker_peak_mib, "{:.0f}"),
    _Column("its CPU, s", lambda run: run.tracker_cpu_s, "{:.1f}"),
    _Column("its CPU when idle", lambda run: run.idle_cpu, "{:.1%}"),
    _Column("leases when idle, kB/s", lambda run: run.idle_bytes_s / 1e3, "{:.1f}"),
    _Column("simulation late, s", lambda run: run.behind_s, "{:.1f}"),
)


def fleets_of(results: Mapping[str, Result[Run]]) -> list[list[Run]]:
    """Return the runs of each fleet, the smallest one first."""
    found = [
        [run for measured in result.producers.values() for run in measured.kept]
        for result in results.values()
    ]
    return sorted(filter(None, found), key=lambda runs: runs[0].instances)


def render(results: Mapping[str, Result[Run]]) -> str:
    rows = [[column.cell(runs) for column in _COLUMNS] for runs in fleets_of(results)]
    return table([column.title for column in _COLUMNS], rows) + "\n"


def render_page(page: str, results: Mapping[str, Result[Run]], _images: str) -> str:
    """Return the page with everything between the markers made anew."""
    last = max(results.values(), key=lambda result: result.environment.taken_at)
    ends = sorted({run.state for runs in fleets_of(results) for run in runs})
    parts = [
        _INTRODUCTION,
        f"## Measured\n\n{render(results)}",
        f"{_ROUNDS if last.rounds > 1 else _ROUND} All changes ended {' or '.join(ends)}.\n",
        f"{machine_line(last.environment, last.rounds)}\n",
    ]
    return with_section(page, BEGIN, END, "\n".join(parts))
