"""A seed is a plan: which faults overlap when, which topics grow or are made anew, when all is calm. Pure."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

from tests.chaos.promises import WRITERS

BROKERS: Final = (1, 2, 3)
STORM_S, QUIET_S = 70.0, 45.0
"""How long faults come, and for how long nothing happens afterwards but that the cluster recovers."""
FAULT_GAP_S, CHANGE_GAP_S = 5.0, 20.0
MOST_DOWN = 2
"""How many of three brokers may be down at once: then nothing with min.insync.replicas=2 can be written."""
SIZES: Final[Mapping[str, tuple[int, int]]] = {
    "orders": (6, 24), "volatile": (4, 12), "kept": (6, 18), "gated": (4, 12),
}  # fmt: skip
"""From how many partitions to how many each topic may grow."""
FIXED: Final[Mapping[str, int]] = {"loose": 3, "single": 3}
"""Topics that do not grow."""


@frozen
class Step:
    """One thing that is done: at `begin` seconds, to `target`, and undone after `lasts` seconds.

    Attributes:
        kind: What.
        target: To whom: ``2``, ``2-3`` (the link of two brokers), ``keyed-c`` (a process), ``orders``.
        value: How much: ms, bytes/s, seconds, partitions; 0 where there is nothing to say.
    """

    begin: float
    lasts: float
    kind: str
    target: str
    value: float = 0.0

    @property
    def claims(self) -> frozenset[str]:
        """What two steps must not have at once."""
        domain = KINDS[self.kind].domain
        if domain == "all":
            return frozenset(f"broker {broker}" for broker in BROKERS)
        return frozenset({f"{domain} {self.target}"})


@frozen
class Kind:
    """A kind of step: what it is done to, how long it may last, how much it may do."""

    domain: str
    """What it is done to; two steps about one thing of one domain do not overlap."""
    lasts: tuple[float, float] = (3.0, 25.0)
    values: tuple[float, ...] = (0.0,)


KINDS: Final[Mapping[str, Kind]] = {
    # -- brokers
    "kill": Kind("broker"),
    "freeze": Kind("broker", (1.0, 20.0)),
    "stutter": Kind("broker", values=(0.3, 0.4)),
    "stop": Kind("broker"),
    "fill_disk": Kind("broker", (3.0, 10.0)),
    "rolling_restart": Kind("all", (0.0, 0.0)),
    "slow_disk": Kind("disk", values=(20.0, 100.0, 400.0)),
    # -- the network
    "delay": Kind("link", values=(20.0, 150.0, 600.0)),
    "bandwidth": Kind("link", values=(10_000.0, 50_000.0)),
    "blackhole": Kind("link"),
    "deaf": Kind("link"),
    "mute": Kind("link"),
    "refuse": Kind("link"),
    "drop": Kind("link", values=(0.5, 3.0)),
    "between_delay": Kind("between", values=(50.0, 400.0)),
    "between_bandwidth": Kind("between", values=(20_000.0,)),
    "between_blackhole": Kind("between"),
    "between_one_way": Kind("between"),
    # -- controllers, settings
    "fail_over": Kind("controllers", (0.0, 0.0)),
    "freeze_controller": Kind("controllers", (2.0, 15.0)),
    "quota": Kind("quota", values=(2_000.0, 20_000.0)),
    "min_isr": Kind("topic setting", values=(1.0, 3.0)),
    "elect_unclean": Kind("topic setting", (0.0, 0.0)),
    "elect": Kind("topic setting", (0.0, 0.0)),
    # -- our own side
    "kill_process": Kind("process", (0.5, 10.0)),
    "freeze_process": Kind("process", (0.5, 15.0)),
    "target_down": Kind("target of alerts", (2.0, 20.0), values=(401.0, 500.0, 503.0)),
    # -- changes of topics
    "grow": Kind("topic"),
    "recreate": Kind("topic"),
}
DOWN: Final = frozenset({"kill", "freeze", "stop", "fill_disk"})
FAULTS: Final = tuple(kind for kind in KINDS if kind not in {"grow", "recreate"})
PROCESS_FAULTS: Final = ("kill_process", "freeze_process", "kill_process")
"""So many more of them: there are more processes than brokers."""
OTHERS: Final = ("observer-1", "observer-2", "tracker", "consumer-c", "consumer-k")


@frozen
class Plan:
    """What happens: `storms` are (begin, end), after each of which all is quiet for `QUIET_S` seconds."""

    seed: int
    storms: tuple[tuple[float, float], ...]
    steps: tuple[Step, ...]

    def steps_of(self, storm: int) -> list[Step]:
        """Return the steps of one storm, in order."""
        begin, end = self.storms[storm]
        return [step for step in self.steps if begin <= step.begin < end]


def plan(seed: int, seconds: float) -> Plan:
    """Return what a seed means for so many seconds. The same two are the same plan.

    Args:
        seed: Any number.
        seconds: How long it may take, quiet phases included; beginning and verdict come on top.
    """
    count = max(1, math.ceil(seconds / (STORM_S + QUIET_S)))
    storm_s = max(20.0, seconds / count - QUIET_S)
    storms = tuple((n * (storm_s + QUIET_S), n * (storm_s + QUIET_S) + storm_s) for n in range(count))
    dice, sizes = random.Random(seed), {topic: least for topic, (least, _) in SIZES.items()}
    steps: list[Step] = []
    for begin, end in storms:
        storm = [*_faults(dice, begin, end), *_changes(dice, begin, end, sizes)]
        steps += sorted(storm, key=lambda step: step.begin)
    return Plan(seed, storms, tuple(steps))


def _faults(dice: random.Random, begin: float, end: float) -> Iterator[Step]:
    """Yield faults that overlap, but not about the same thing, and leave a broker."""
    at, under_way = begin, list[Step]()
    while (at := at + dice.expovariate(1 / FAULT_GAP_S)) < end:
        kind = dice.choice(FAULTS + PROCESS_FAULTS)
        least, most = KINDS[kind].lasts
        lasts = min(dice.uniform(least, most), end - at)
        value = dice.choice(KINDS[kind].values)
        step = Step(round(at, 2), round(lasts, 2), kind, dice.choice(_targets(kind)), value)
        under_way = [each for each in under_way if each.begin + each.lasts > at]
        down = sum(each.kind in DOWN for each in under_way) + (kind in DOWN)
        if down <= MOST_DOWN and not any(step.claims & each.claims for each in under_way):
            under_way.append(step)
            yield step


def _targets(kind: str) -> Sequence[str]:
    match KINDS[kind].domain:
        case "broker" | "link" | "disk":
            return [str(broker) for broker in BROKERS]
        case "between":
            return [f"{one}-{other}" for one in BROKERS for other in BROKERS if one < other]
        case "process":
            return [*WRITERS, *OTHERS]
        case "quota":
            return list(WRITERS)
        case "topic setting":
            return ["loose"] if kind == "elect_unclean" else [*SIZES]
    return ["-"]


def _changes(dice: random.Random, begin: float, end: float, sizes: dict[str, int]) -> Iterator[Step]:
    at = begin
    while (at := at + dice.expovariate(1 / CHANGE_GAP_S)) < end:
        topic = dice.choice([*SIZES])
        least, most = SIZES[topic]
        if topic == "volatile" and (sizes[topic] >= most or dice.random() < 0.5):
            sizes[topic] = dice.randint(2, least)
            yield Step(round(at, 2), 0.0, "recreate", topic, sizes[topic])
        elif sizes[topic] < most:
            sizes[topic] = min(most, sizes[topic] + dice.randint(1, 4))
            yield Step(round(at, 2), 0.0, "grow", topic, sizes[topic])
