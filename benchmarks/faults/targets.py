"""What ours must reach, and whether it did. Pure."""

import math

from attrs import evolve, frozen

from benchmarks.faults.layouts import THREE
from benchmarks.faults.metrics import Result, Run
from benchmarks.faults.plan import Scenario
from benchmarks.measure import Spread


@frozen
class Target:
    """A limit on one of the `Figures`: on a ratio to a peer in the same round, or on the figure itself.

    The median ratio decides; a limit on the figure itself is one for every run.

    Attributes:
        ours: The producer that is held to it.
        figure: A field of `Figures`.
        at_most: The limit.
        beside: The peer; None for a limit on the figure itself.
    """

    ours: str
    figure: str
    at_most: float
    beside: str | None = None

    @property
    def is_for_each(self) -> bool:
        return self.beside is None


_NO_WORSE = [
    Target(ours, figure, 1.1, "librdkafka")
    for ours in ("ours", "ours-hedge")
    for figure in ("p99_ms", "failed")
]
_WITHOUT_KEYS = {
    "frozen": [
        Target("ours", "late", 0.01),
        Target("ours", "p99_ms", 100),
        Target("ours", "failed", 1 / 50, "librdkafka"),
        Target("ours-hedge", "late", 0.005),
        Target("ours-hedge", "failed", 0),
    ],
    "in-turns": [
        Target("ours", "late", 0.03),
        Target("ours", "p99_ms", 1 / 10, "librdkafka"),
        Target("ours-hedge", "late", 0.01),
        Target("ours-hedge", "failed", 0),
    ],
    "killed": [
        Target("ours", "late", 0.01),
        Target("ours", "failed", 1 / 50, "librdkafka"),
        Target("ours-hedge", "late", 0.005),
        Target("ours-hedge", "failed", 0),
    ],
    "link-throttled": [
        Target("ours", "late", 0.01),
        Target("ours", "p99_ms", 1 / 10, "librdkafka"),
        Target("ours-hedge", "p99_ms", 250),
    ],
    "calm": _NO_WORSE,
    "busy": _NO_WORSE,
    "rolling": _NO_WORSE,
}
_KEYED = {
    "frozen": (
        Target("ours", "late", 0.55),
        Target("ours-move", "late", 0.02),
        Target("ours-move", "p99_ms", 150),
        Target("ours-move-hedge", "late", 0.01),
        Target("ours-move-hedge", "failed", 0),
    ),
    "in-turns": (
        Target("ours", "late", 0.5, "librdkafka"),
        Target("ours-move", "late", 0.04),
        Target("ours-move", "p99_ms", 1 / 8, "librdkafka"),
        Target("ours-move-hedge", "late", 0.02),
        Target("ours-move-hedge", "failed", 0),
    ),
    "killed": (
        Target("ours", "late", 0.55),
        Target("ours-move", "late", 0.02),
        Target("ours-move", "failed", 1 / 40, "librdkafka"),
        Target("ours-move-hedge", "late", 0.01),
        Target("ours-move-hedge", "failed", 0),
    ),
    "busy": (Target("ours-move", "p99_ms", 1.1, "librdkafka"),),
    "calm": (Target("ours-move", "p99_ms", 1.1, "librdkafka"),),
}
"""Where each record has a key. Half of the partitions need the broker."""


_ON_A_LOOP = {
    "in-turns": (Target("aio", "late", 0.01), Target("aio", "p99_ms", 100)),
    "killed": (Target("aio", "late", 0.01), Target("aio", "failed", 1 / 80, "aiokafka")),
}
_HEDGE_ON_A_LOOP = (Target("aio-hedge", "late", 0.005), Target("aio-hedge", "failed", 0))
"""With aiokafka and without keys."""


@frozen
class Verdict:
    """How a target was met: the values of the rounds, and whether it was reached; None if not measured."""

    target: Target
    spread: Spread | None
    reached: bool | None


def targets_of(scenario: Scenario) -> list[Target]:
    """Return the limits for the producers that take part; none where nothing was asked."""
    if scenario.skewed or scenario.layout is THREE:
        return []
    if scenario.keyed:
        asked = _KEYED.get(scenario.fault.name, ())
        if "aio" in scenario.producers:
            asked = tuple(evolve(one, ours=one.ours.replace("ours", "aio")) for one in asked)
            asked = tuple(evolve(one, beside=one.beside and "aiokafka") for one in asked)
        return [one for one in asked if {one.ours, one.beside} <= {None, *scenario.producers}]
    if "aio" in scenario.producers:
        return [*_ON_A_LOOP[scenario.fault.name], *_HEDGE_ON_A_LOOP]
    return list(_WITHOUT_KEYS.get(scenario.fault.name, ()))


def ratio(ours: float, theirs: float) -> float:
    """Return ours / theirs; two zeros are equal."""
    if theirs == 0:
        return 1.0 if ours == 0 else math.inf
    return ours / theirs


def judge(target: Target, result: Result) -> Verdict:
    """Compare round by round; see `Target` for what decides."""
    ours = _by_round(result, target.ours, target)
    if target.beside is None:
        values = list(ours.values())
    else:
        theirs = _by_round(result, target.beside, target)
        values = [ratio(ours[number], theirs[number]) for number in sorted(ours.keys() & theirs.keys())]
    if not values:
        return Verdict(target, None, None)
    spread = Spread.of(values)
    deciding = spread.high if target.is_for_each else spread.median
    return Verdict(target, spread, deciding <= target.at_most)


def figure_of(run: Run, figure: str) -> float | None:
    """Return a figure of a run, or of what was read of it meanwhile (``read_...``)."""
    if figure.startswith("read_"):
        return getattr(run.reading, figure.removeprefix("read_"), None)
    value: float | None = getattr(run.figures, figure)
    return value


def _by_round(result: Result, producer: str, target: Target) -> dict[int, float]:
    if producer not in result.producers:
        return {}
    kept = result.producers[producer].kept
    values = {run.round: figure_of(run, target.figure) for run in kept}
    return {number: value for number, value in values.items() if value is not None}
