"""Cases that take turns, in a new order each round, and the CPU time of Spark's processes."""

import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from benchmarks.errors import BenchError
from benchmarks.measure import MAX_STEAL, MORE_TRIES, Spread, stolen


@frozen(kw_only=True)
class Sample:
    """What one run took: seconds of the processors, and of the clock."""

    cpu_s: float
    wall_s: float


Round = Mapping[str, Sample]


def take_rounds(cases: Mapping[str, Callable[[], object]], count: int, jvm: int) -> list[Round]:
    """Run all cases so many times; the first round is dropped, and so are those on a disturbed machine.

    Args:
        cases: What to run.
        count: How many rounds to keep.
        jvm: The process whose CPU time counts, with all its descendants.
    """
    rng = random.Random(20261121)
    one_round(cases, rng, jvm)
    kept: list[Round] = []
    for _ in range(count * (1 + MORE_TRIES)):
        before, began = stolen(), time.perf_counter()
        found = one_round(cases, rng, jvm)
        wall = (time.perf_counter() - began) * (os.cpu_count() or 1)
        if (stolen() - before) / wall <= MAX_STEAL:
            kept.append(found)
        if len(kept) == count:
            break
    if not kept:
        raise BenchError(f"all rounds were disturbed (over {MAX_STEAL:.0%} steal); try again later")
    return kept


def one_round(cases: Mapping[str, Callable[[], object]], rng: random.Random, jvm: int) -> Round:
    names = list(cases)
    rng.shuffle(names)
    return {name: sample(cases[name], jvm) for name in names}


def sample(run: Callable[[], object], jvm: int) -> Sample:
    before, began = sum(cpu_by_process(jvm).values()), time.perf_counter()
    run()
    wall = time.perf_counter() - began
    return Sample(cpu_s=sum(cpu_by_process(jvm).values()) - before, wall_s=wall)


def rates(rounds: Sequence[Round], name: str, units: float) -> Spread:
    """Return units for each CPU second."""
    return Spread.of([units / found[name].cpu_s for found in rounds])


def rate_ratio(rounds: Sequence[Round], ours: tuple[str, int], peer: tuple[str, int]) -> Spread:
    """Return our rate by the peer's, round by round; each given as its name and its units."""
    return Spread.of(
        [(ours[1] / found[ours[0]].cpu_s) / (peer[1] / found[peer[0]].cpu_s) for found in rounds]
    )


def cpu_by_process(root: int) -> dict[int, float]:
    """Return the CPU seconds, user and system, of a process and all its descendants.

    What ended ones took is that of the process that waited for them.
    """
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold blanks; what follows it are fields 3 and up.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(stat.parent.name)
        seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        children[int(fields[1])].append(pid)
    found: dict[int, float] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in seconds:
            found[pid] = seconds[pid]
            waiting += children[pid]
    return found
