"""Timing that can be trusted on a shared machine: interleaved, as ratios, with the noise on record.

CPU work is timed by the thread's CPU time; a neighbour that takes the processor away does not count. The
share of stolen time is read around every run, and runs above `MAX_STEAL` are left out by that rule.
"""

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from attrs import asdict, field, frozen

RESULTS = Path(__file__).parent / "results"
MAX_STEAL = 0.10
"""Runs during which more than this share of the processors was stolen are discarded."""
MORE_TRIES = 2
"""How often a discarded run is repeated in its place."""


@frozen
class Spread:
    """Minimum, median and maximum of some runs."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(min(values), statistics.median(values), max(values))

    def text(self, digits: int = 2) -> str:
        return f"{self.median:.{digits}f} ({self.low:.{digits}f} - {self.high:.{digits}f})"


@frozen
class Pair:
    """Two things measured in turn: ``ratio`` is B's cost over A's, so more than 1 means that A is cheaper."""

    a: Spread
    b: Spread
    ratio: Spread
    discarded: int


def _commit() -> str:
    """Return the last commit of the package, with a "+" if its files are others."""
    package = Path(__file__).parents[1] / "kafka_partition_events"

    def git(*words: str) -> str:
        command = ["git", "-C", str(package), *words, "--", "."]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        return done.stdout.strip()

    return git("log", "-1", "--format=%h") + ("+" if git("status", "--porcelain") else "")


@frozen
class Environment:
    """What a number depends on."""

    python: str = field(factory=platform.python_version)
    processor_count: int = field(factory=lambda: os.cpu_count() or 0)
    machine: str = field(factory=lambda: f"{platform.system()} {platform.machine()}")
    versions: dict[str, str] = field(
        factory=lambda: {name: _version(name) for name in ("confluent-kafka", "kafka-python", "attrs")}
    )
    taken_at: str = field(factory=lambda: time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))
    commit: str = field(factory=_commit)
    """The last that changed the package; "" if there is no repository, or results of before it was kept."""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def stolen() -> float:
    """Return the seconds that the hypervisor has taken from this machine's processors so far."""
    try:
        return _processor_seconds()[7]
    except (OSError, IndexError):
        return 0.0


def busy() -> float:
    """Return the seconds for which this machine's processors were not idle so far."""
    seconds = _processor_seconds()[:8]
    return sum(seconds) - seconds[3] - seconds[4]


def _processor_seconds() -> list[float]:
    """Return what all processors together have spent since the boot: user, nice, system, idle, iowait, ..."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    return [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields]


def memory_mib(pid: int | str = "self", name: str = "VmRSS") -> float:
    """Return the resident memory of a process (``VmHWM``: the most that it ever was).

    For one's own peak, too: ``ru_maxrss`` begins with that of the process that forked.
    """
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split(f"{name}:")[1].split()[0]) / 1024


def cpu_seconds_of(processes: Iterable[int]) -> float:
    """Return the CPU seconds that other processes have used so far, user and system."""
    ticks = 0
    for pid in processes:
        # The name, in brackets, may hold blanks; what follows it are fields 3 and up.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_ns(call: Callable[[], object], repeats: int) -> float:
    """Return the thread's CPU nanoseconds for one call, averaged over a loop."""
    loop = range(repeats)
    began = time.thread_time_ns()
    for _ in loop:
        call()
    return (time.thread_time_ns() - began) / repeats


def interleaved(a: Callable[[], float], b: Callable[[], float], pairs: int) -> Pair:
    """Measure A B A B ..., after a warm-up; each function returns its own cost.

    Args:
        a: Ours.
        b: The peer.
        pairs: How many runs of each; a disturbed pair is left out.
    """
    a(), b()
    costs: list[tuple[float, float]] = []
    discarded = 0
    for i in range(pairs):
        before, began = stolen(), time.perf_counter()
        costs.append((a(), b()) if i % 2 else (b(), a())[::-1])
        wall = (time.perf_counter() - began) * (os.cpu_count() or 1)
        if (stolen() - before) / wall > MAX_STEAL:
            costs.pop()
            discarded += 1
    if not costs:
        raise SystemExit(f"all {pairs} runs were disturbed (over {MAX_STEAL:.0%} steal); try again later")
    return Pair(
        a=Spread.of([cost_a for cost_a, _ in costs]),
        b=Spread.of([cost_b for _, cost_b in costs]),
        ratio=Spread.of([cost_b / cost_a for cost_a, cost_b in costs]),
        discarded=discarded,
    )


def save(name: str, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], raw: object) -> None:
    """Write a table for people and the numbers for machines, and show the table."""
    RESULTS.mkdir(exist_ok=True)
    environment = Environment()
    lines = [f"# {title}", ""]
    lines += ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    versions = ", ".join(f"{package} {number}" for package, number in environment.versions.items())
    lines += ["", f"{environment.taken_at}; Python {environment.python}, {environment.machine},"]
    lines += [
        f"{environment.processor_count} shared cores; {versions}.",
        "Cells are median (minimum - maximum).",
    ]
    text = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    document = {"environment": asdict(environment), "results": raw}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(text)
