"""What ours must reach, and whether it did. Pure."""

import math

from attrs import evolve, frozen

from benchmarks.faults.layouts import MAIN
from benchmarks.faults.metrics import Result, Run
from benchmarks.faults.plan import ATTACHED, Scenario
from benchmarks.measure import Spread

_RESCUING = ("ours-failed", "ours-hedge")
_IN_MAIN = ("ours", "ours-hedge")


@frozen
class Target:
    """A limit on one of the `Figures`: on a ratio to a peer in the same round, or on the figure itself.

    Whether the median ratio keeps it decides, or whether every round does; a limit on the figure itself is
    one for every run.

    Attributes:
        ours: The producer that is held to it.
        figure: A field of `Figures`.
        at_most: The limit.
        beside: The peer; None for a limit on the figure itself.
        in_each: Whether every round must keep a limit on a ratio.
    """

    ours: str
    figure: str
    at_most: float
    beside: str | None = None
    in_each: bool = False

    @property
    def is_for_each(self) -> bool:
        return self.in_each or self.beside is None


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
"""Of layout C, where each record has a key. Half of the partitions need the broker."""


_ON_A_LOOP = {
    "in-turns": (Target("aio", "late", 0.01), Target("aio", "p99_ms", 100)),
    "killed": (Target("aio", "late", 0.01), Target("aio", "failed", 1 / 80, "aiokafka")),
}
_HEDGE_ON_A_LOOP = (Target("aio-hedge", "late", 0.005), Target("aio-hedge", "failed", 0))
"""Of layout C, with aiokafka and without keys."""


@frozen
class Verdict:
    """How a target was met: the values of the rounds, and whether it was reached; None if not measured."""

    target: Target
    spread: Spread | None
    reached: bool | None


def targets_of(scenario: Scenario) -> list[Target]:
    """Return the limits for the producers that take part; none where nothing was asked."""
    if scenario.skewed or scenario.busy_cores:
        return []
    if scenario.keyed:
        asked = _KEYED.get(scenario.fault.name, ())
        if "aio" in scenario.producers:
            asked = tuple(evolve(one, ours=one.ours.replace("ours", "aio")) for one in asked)
            asked = tuple(evolve(one, beside=one.beside and "aiokafka") for one in asked)
        return [one for one in asked if {one.ours, one.beside} <= {None, *scenario.producers}]
    if "aio" in scenario.producers:
        return [*_ON_A_LOOP[scenario.fault.name], *_HEDGE_ON_A_LOOP]
    limits = {MAIN: _in_main_layout, "A": _in_layout_a}.get(scenario.layout.name)
    return [] if limits is None else [one for one in limits(scenario) if one.ours in scenario.producers]


def _in_main_layout(scenario: Scenario) -> list[Target]:
    beside = "librdkafka"
    no_worse = [Target(ours, figure, 1.1, beside) for ours in _IN_MAIN for figure in ("p99_ms", "failed")]
    asked = {
        "frozen": [
            Target("ours", "late", 0.01),
            Target("ours", "p99_ms", 100),
            Target("ours", "failed", 1 / 50, beside),
            Target("ours-hedge", "late", 0.005),
            Target("ours-hedge", "failed", 0),
        ],
        "in-turns": [
            Target("ours", "late", 0.03),
            Target("ours", "p99_ms", 1 / 10, beside),
            Target("ours-hedge", "late", 0.01),
            Target("ours-hedge", "failed", 0),
        ],
        "killed": [
            Target("ours", "late", 0.01),
            Target("ours", "failed", 1 / 50, beside),
            Target("ours-hedge", "late", 0.005),
            Target("ours-hedge", "failed", 0),
        ],
        "min-isr": [
            Target("ours", "failed", 1 / 50, beside, in_each=True),
            Target("ours-hedge", "failed", 0),
        ],
        "link-throttled": [
            Target("ours", "late", 0.01),
            Target("ours", "p99_ms", 1 / 10, beside),
            Target("ours-hedge", "p99_ms", 250),
        ],
        "calm": no_worse,
        "busy": no_worse,
        "rolling": no_worse,
    }
    return asked.get(scenario.fault.name, [])


def _in_layout_a(scenario: Scenario) -> list[Target]:
    if "attached" in scenario.producers:
        peers = [name for name in scenario.producers if name not in ATTACHED]
        faster = [Target("attached", "p99_ms", 1 / 10, peer) for peer in peers]
        return faster + [Target(ours, "lost", 0) for ours in ATTACHED[1:]]
    return _beside_librdkafka(scenario)


def _beside_librdkafka(scenario: Scenario) -> list[Target]:
    if scenario.fault.name == "in-turns":
        return [
            Target("ours", "p99_ms", 1 / 15, "librdkafka"),
            Target("ours", "late", 1 / 50, "librdkafka"),
            Target("ours-hedge", "late", 0),
        ]
    asked = [Target(ours, "failed", 0) for ours in _RESCUING]
    return [Target("ours", "failed", 0.03, "librdkafka"), *asked]


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
    """Return a figure of a run."""
    value: float | None = getattr(run.figures, figure)
    return value


def _by_round(result: Result, producer: str, target: Target) -> dict[int, float]:
    if producer not in result.producers:
        return {}
    kept = result.producers[producer].kept
    values = {run.round: figure_of(run, target.figure) for run in kept}
    return {number: value for number, value in values.items() if value is not None}
