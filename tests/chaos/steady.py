"""What `tests.chaos.soak` decides: how records are paced, which fault comes when, what has grown. Pure."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from attrs import define, frozen

from tests.chaos.plan import BROKERS

MINUTE_S: Final = 60.0
FAULT_AFTER_S: Final = 10.0
"""When in its minute a fault begins."""
FAULT_LASTS_S: Final = (5.0, 20.0)
ROUND: Final = (
    "kill",
    "kill",
    "freeze",
    "freeze",
    "stop",
    "stop",
    "blackhole",
    "blackhole",
    "delay",
    "fail_over",
)
"""The faults of ten minutes, in any order: each sixth of an hour has the same ones, and can be compared."""
MOST_BEHIND_S: Final = 1.0
KAFKA_PYTHON_RATE: Final = 1_000
KAFKA_PYTHON_SHARE, HEDGE_SHARE = 0.05, 0.25
"""What the writers get of the load whose records cost most: in pure Python (`KAFKA_PYTHON_RATE` at most), and
kept for a copy. The brokers are on this machine, too."""


@frozen
class Writer:
    """A producing process; its topic has its name."""

    client: Literal["confluent", "kafka-python"]
    rescue: Literal["hedge"] | None = None


WRITERS: Final[Mapping[str, Writer]] = {
    "default": Writer("confluent"),
    "hedge": Writer("confluent", "hedge"),
    "kafka-python": Writer("kafka-python"),
}


def rates(total: float) -> dict[str, float]:
    """Return what each writer sends in a second."""
    kafka_python, hedge = min(KAFKA_PYTHON_RATE, total * KAFKA_PYTHON_SHARE), total * HEDGE_SHARE
    return {"default": total - hedge - kafka_python, "hedge": hedge, "kafka-python": kafka_python}


@define
class Pace:
    """An open schedule: record n is due n/rate seconds after the first one.

    Who falls behind by more than `MOST_BEHIND_S` goes on with what is due next, and does not catch up.

    Attributes:
        done: How many records were sent or skipped.
        skipped: How many were never sent.
    """

    rate: float
    began: float
    done: int = 0
    skipped: int = 0

    def due(self, now: float) -> int:
        """Return how many records are to be sent now."""
        due = int((now - self.began) * self.rate) - self.done
        if due > MOST_BEHIND_S * self.rate:
            self.done += due
            self.skipped += due
            return 0
        return due


@frozen
class Fault:
    """What is done at `begin` seconds, to a broker (the active controller: 0), and undone after `lasts`."""

    begin: float
    lasts: float
    kind: str
    broker: int

    def __str__(self) -> str:
        whom = f"broker {self.broker}" if self.broker else "the active controller"
        return f"{self.kind} {whom} for {self.lasts:.0f} s"


def faults(seed: int, seconds: float) -> list[Fault]:
    """Return one fault for each whole minute; a longer run begins with those of a shorter one."""
    dice, kinds, planned = random.Random(seed), list[str](), []
    for minute in range(int(seconds // MINUTE_S)):
        if not kinds:
            kinds = dice.sample(ROUND, len(ROUND))
        kind, lasts, broker = kinds.pop(), dice.uniform(*FAULT_LASTS_S), dice.choice(BROKERS)
        begin = minute * MINUTE_S + FAULT_AFTER_S
        planned.append(Fault(begin, round(lasts, 1), kind, 0 if kind == "fail_over" else broker))
    return planned


# -- what grows ------------------------------------------------------------------------------------------


@frozen
class Sample:
    """What a process takes: memory in MB, open files other than sockets, CPU seconds since it began."""

    at: float
    mb: float
    threads: int
    files: int
    sockets: int
    cpu_s: float


LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "mb": (10.0, 0.10),
    "threads": (2.0, 0.0),
    "files": (2.0, 0.0),
    "sockets": (2.0, 0.0),
}
"""By how much each may grow: in all or by a share of what it was, whichever is more."""


@frozen
class Growth:
    """A figure's mean in the second sixth of a run, and in the last one."""

    before: float
    after: float
    allowed: float

    @property
    def more(self) -> float:
        return self.after - self.before

    @property
    def share(self) -> float:
        return self.more / self.before if self.before else 0.0

    @property
    def is_flat(self) -> bool:
        return self.more <= self.allowed


def growths(samples: Sequence[Sample]) -> dict[str, Growth]:
    """Return how each figure has grown. The first sixth does not count: caches fill, connections are made."""
    sixth = len(samples) // 6
    if not sixth:
        raise ValueError(f"{len(samples)} samples are too few to compare sixths of them")
    found = {}
    for figure, (most, share) in LIMITS.items():
        values = [getattr(sample, figure) for sample in samples]
        before, after = sum(values[sixth : 2 * sixth]) / sixth, sum(values[-sixth:]) / sixth
        found[figure] = Growth(before, after, max(most, share * before))
    return found


def cpu_share(samples: Sequence[Sample]) -> float:
    """Return how much of one processor a process has used."""
    first, last = samples[0], samples[-1]
    return (last.cpu_s - first.cpu_s) / (last.at - first.at)


# -- what became of records ------------------------------------------------------------------------------


@frozen
class Counts:
    """What a writer has counted since it began.

    Attributes:
        acked: By partition.
        failed: By error.
        skipped: Due, but never sent: the writer was behind by more than a second.
        balance: The sum of the numbers that were sent, less those of the outcomes: 0 if each has one. A lost
            record and another's second outcome keep the count, and not this.
    """

    at: float
    sent: int
    acked: tuple[int, ...]
    failed: Mapping[str, int]
    skipped: int
    balance: int = 0

    @property
    def unanswered(self) -> int:
        """How many records have no outcome; fewer than 0: some have two."""
        return self.sent - sum(self.acked) - sum(self.failed.values())


def losses(name: str, counts: Counts, written: Sequence[int]) -> Iterator[str]:
    """Yield what is wrong with a writer's records; `written` is how many each partition has."""
    if counts.unanswered:
        yield f"{name}: {counts.unanswered:,} of {counts.sent:,} records have no outcome"
    elif counts.balance:
        yield f"{name}: some records have no outcome, and as many others have two"
    for partition, (acked, there) in enumerate(zip(counts.acked, written, strict=True)):
        if there < acked:
            yield f"{name}: partition {partition} has {there:,} records, {acked:,} were acknowledged"
    most, there = sum(counts.acked) + sum(counts.failed.values()), sum(written)
    if WRITERS[name].rescue is None and there > most:
        yield f"{name}: {there:,} records are there of {most:,}: an idempotent producer wrote copies"
