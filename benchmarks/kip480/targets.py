"""What ours must reach, and whether it did; and what KIP-480 claims, beside what was measured. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import frozen

from benchmarks.faults.targets import ratio
from benchmarks.kept import Result
from benchmarks.kip480.metrics import Run
from benchmarks.kip480.plan import CELLS, CLAIM, LOADS, OURS, Cell
from benchmarks.measure import Spread

Figure = Literal["p99_ms", "cpu_s", "broker_cpu_s"]
Results = Mapping[str, Result[Run]]

NO_WORSE = 1.1
FASTER = {(16, 0): 1 / 20, (128, 0): 1 / 5}
"""By partitions and linger: the limit beside librdkafka's default."""


@frozen
class Target:
    """A limit on our p99 over a peer's in the same round; `peer` None is the best one of that round."""

    cell: Cell
    at_most: float
    peer: str | None = None


@frozen
class Verdict:
    """How a target was met: the ratios of the rounds, and whether it was reached; None if not measured."""

    target: Target
    spread: Spread | None
    reached: bool | None


def targets() -> list[Target]:
    """Return all limits: those beside librdkafka's default, then that nowhere a peer is clearly better.

    The cell of the claim is none of the grid's: it stands beside the claim, without a limit.
    """
    faster = [
        Target(cell, FASTER[cell.partitions, cell.linger_ms], "librdkafka")
        for cell in CELLS.values()
        if (cell.partitions, cell.linger_ms) in FASTER
    ]
    return faster + [Target(cell, NO_WORSE) for cell in CELLS.values() if cell is not CLAIM]


def judge(target: Target, results: Results) -> Verdict:
    """Compare round by round; the median ratio decides."""
    peers = [kind for kind in target.cell.kinds if kind != OURS]
    spread = ratios(results.get(target.cell.name), "p99_ms", [target.peer] if target.peer else peers)
    return Verdict(target, spread, None if spread is None else spread.median <= target.at_most)


def ratios(result: Result[Run] | None, figure: Figure, peers: Sequence[str]) -> Spread | None:
    """Return ours over the best of the peers, by round; None if it was not measured."""
    if result is None:
        return None
    ours = _by_round(result, OURS, figure)
    theirs = [_by_round(result, peer, figure) for peer in peers]
    rounds = sorted(set(ours).intersection(*theirs))
    values = [ratio(ours[number], min(each[number] for each in theirs)) for number in rounds]
    return Spread.of(values) if values else None


def _by_round(result: Result[Run], kind: str, figure: Figure) -> dict[int, float]:
    if kind not in result.producers:
        return {}
    values = {run.round: getattr(run, figure) for run in result.producers[kind].kept}
    return {number: float(value) for number, value in values.items() if value is not None}


# -- what the KIP claims -------------------------------------------------------------------------------

CLAIMED = LOADS["3x"]
"""KIP-480 was measured with three producers."""


def growth(results: Results, load: str, kind: str) -> float | None:
    """Return how many times the median p99 at linger 0 is as long on 128 partitions as on 16."""
    medians = [median_p99(results, f"{partitions}p-0ms-{load}", kind) for partitions in (16, 128)]
    few, many = medians
    return None if few is None or many is None else ratio(many, few)


def median_p99(results: Results, cell: str, kind: str) -> float | None:
    """Return the median p99 of a kind's kept runs in a cell."""
    result = results.get(cell)
    kept = result.producers[kind].kept if result and kind in result.producers else []
    return Spread.of([run.p99_ms for run in kept]).median if kept else None


def cpu_ratios(results: Results, figure: Figure) -> Spread | None:
    """Return the spread over all unkeyed cells of ours over round robin's CPU time (median of the rounds)."""
    unkeyed = [cell.name for cell in CELLS.values() if not cell.load.keyed and cell is not CLAIM]
    spreads = [ratios(results.get(name), figure, ["round-robin"]) for name in unkeyed]
    medians = [spread.median for spread in spreads if spread is not None]
    return Spread.of(medians) if medians else None
