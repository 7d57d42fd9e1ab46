"""Render results as Markdown. Pure: text from results, and a page from a page."""

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.convergence.one_run import Run
from benchmarks.kept import Result
from benchmarks.markdown import machine_line, table, with_section

BEGIN = "<!-- begin: python -m benchmarks.convergence; do not edit by hand -->"
END = "<!-- end: python -m benchmarks.convergence -->"
NEW_PAGE = f"# How fast a fleet follows\n\n{BEGIN}\n{END}\n"
IMAGE = "change-convergence.svg"

_INTRODUCTION = """## How it was measured

A real broker, its control topics, and a real `kpe tracker`; it grows a topic from 6 to 12 partitions with
`gate=consumers_first` and no group to wait for, so each instance answers twice at least: `held` before, and
`applied` after. The instances are simulated: each has the duties of a real agent (`control/duties.py`), a
poller's view that is renewed every 30 s at a moment of its own, leases every 30 s +-20% and answers spread
over 5 s, but no thread and no connection. One process plays them all, and reads `kpe.changes` once: what
10,000 agents ask for (333 ListOffsets a second, 5,000 while their change is open) is not in these numbers.

Most of the time is made of intervals: up to 36 s until the last agent looks, up to 30 s until the last poller
does, 5 s over which each answer is spread. Bytes are keys and values, without compression.
"""


def _of(name: str) -> Callable[[Run], str]:
    return lambda run: f"{run.records[name]:,}, {run.bytes[name] / 1e6:.2f} MB"


_COLUMNS: Final[tuple[tuple[str, Callable[[Run], str]], ...]] = (
    ("instances", lambda run: f"{run.instances:,}"),
    ("request to growth, s", lambda run: f"{run.armed_s:.0f}"),
    ("request to converged, s", lambda run: f"{run.converged_s:.0f}"),
    ("followed", lambda run: f"{run.followed:,} ({run.state})"),
    ("kpe.acks", _of("acks")),
    ("kpe.leases", _of("leases")),
    ("kpe.changes", _of("changes")),
    ("tracker's memory, MiB (most)", lambda run: f"{run.tracker_mib:.0f} ({run.tracker_peak_mib:.0f})"),
    ("its CPU, s", lambda run: f"{run.tracker_cpu_s:.1f}"),
    ("its CPU when idle", lambda run: f"{run.idle_cpu:.1%}"),
    ("leases when idle, kB/s", lambda run: f"{run.idle_bytes_s / 1e3:.1f}"),
    ("simulation late, s", lambda run: f"{run.behind_s:.1f}"),
)


def runs_of(results: Mapping[str, Result[Run]]) -> list[Run]:
    """Return the runs, the smallest fleet first."""
    found = [
        run for result in results.values() for measured in result.producers.values() for run in measured.kept
    ]
    return sorted(found, key=lambda run: run.instances)


def render(results: Mapping[str, Result[Run]]) -> str:
    rows = [[write(run) for _, write in _COLUMNS] for run in runs_of(results)]
    return table([title for title, _ in _COLUMNS], rows) + "\n"


def render_page(page: str, results: Mapping[str, Result[Run]], images: str) -> str:
    """Return the page with everything between the markers made anew; `images` is the path to them."""
    last = max(results.values(), key=lambda result: result.environment.taken_at)
    parts = [
        _INTRODUCTION,
        f"## Measured\n\n![by the number of instances]({images}/{IMAGE})\n\n{render(results)}",
        f"{machine_line(last.environment, last.rounds)}\n",
    ]
    return with_section(page, BEGIN, END, "\n".join(parts))
