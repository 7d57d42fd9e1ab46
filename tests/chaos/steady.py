"""What `tests.chaos.soak` decides: which fault comes when, what has grown, what is missing. Pure."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

from tests.chaos.plan import BROKERS
from tests.chaos.promises import Writer

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
KAFKA_PYTHON_RATE: Final = 1_000
KAFKA_PYTHON_SHARE, HEDGE_SHARE = 0.05, 0.25
"""What the writers get of the load whose records cost most: in pure Python (`KAFKA_PYTHON_RATE` at most), and
kept for a copy. The brokers are on this machine, too."""
_DELIVERY_S: Final = 120.0
"""Kafka's default; librdkafka's own is five minutes."""


def writers(total: float) -> dict[str, Writer]:
    """Return who writes how much of a rate; the topic of each has its name."""
    kafka_python, hedge = min(KAFKA_PYTHON_RATE, total * KAFKA_PYTHON_SHARE), total * HEDGE_SHARE
    return {
        "default": Writer(
            client="confluent", topics=("default",), delivery_s=_DELIVERY_S, rate=total - hedge - kafka_python
        ),
        "hedge": Writer(
            client="confluent", topics=("hedge",), delivery_s=_DELIVERY_S, rate=hedge, rescue="hedge"
        ),
        "kafka-python": Writer(
            client="kafka-python", topics=("kafka-python",), delivery_s=_DELIVERY_S, rate=kafka_python
        ),
    }


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
    def is_flat(self) -> bool:
        return self.after - self.before <= self.allowed


def growths(samples: Sequence[Sample]) -> dict[str, Growth]:
    """Return how each figure has grown. The first sixth does not count: caches fill, connections are made."""
    sixth, found = len(samples) // 6, {}
    for figure, (most, share) in LIMITS.items():
        values = [getattr(sample, figure) for sample in samples]
        before, after = sum(values[sixth : 2 * sixth]) / sixth, sum(values[-sixth:]) / sixth
        found[figure] = Growth(before, after, max(most, share * before))
    return found


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
    acked: Mapping[str, int]
    failed: Mapping[str, int]
    skipped: int
    balance: int

    @property
    def answered(self) -> int:
        """How many records have an outcome; more than were sent: some have two."""
        return sum(self.acked.values()) + sum(self.failed.values())


MOST_SKIPPED: Final = 0.1
"""Which share of its records a writer may leave out, because it stood still or had no processor."""


def losses(counts: Counts, written: Sequence[int], *, copies: bool) -> Iterator[str]:
    """Yield what is wrong with a writer's records; `written` is how many each partition has."""
    if counts.answered != counts.sent:
        yield f"{counts.sent:,} records were sent, and {counts.answered:,} outcomes reported"
    elif counts.balance:
        yield "some records have no outcome, and as many others have two"
    if counts.failed:  # every fault is over long before the time-out of a delivery
        yield f"records failed: {dict(counts.failed)}"
    if counts.skipped > MOST_SKIPPED * counts.sent:
        yield f"{counts.skipped:,} records were skipped beside {counts.sent:,} that were sent"
    for partition, there in enumerate(written):
        if there < (acked := counts.acked.get(str(partition), 0)):
            yield f"partition {partition} has {there:,} records, {acked:,} were acknowledged"
    if not copies and sum(written) > counts.answered:
        yield f"{sum(written):,} records are there of {counts.answered:,}: copies without a rescue"
