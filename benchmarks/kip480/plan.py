"""What is measured: the grid of cells, who is compared, and the settings that they share."""

from collections.abc import Iterator

from attrs import frozen

BROKERS = 3
REPLICATION = 3
RATE = 4_000
"""Records per second of each producer instance."""
WARM_UP_S = 3.0
"""Brokers replicate a new topic busily for its first second or two: everybody's p99 would be that."""
DRAIN_S = 10.0
"""How long outstanding records are waited for after the load. What is not reported by then counts with the
time that it has taken until then: a bound that is in its producer's favour."""

PARTITIONS = (16, 64, 128)
LINGERS_MS = (0, 10, 100)
OURS = "ours"
PEERS = ("librdkafka", "librdkafka-5", "round-robin", "random")
KINDS = (*PEERS, OURS)
TITLES = {
    "librdkafka": "librdkafka default",
    "librdkafka-5": "librdkafka, 5 in flight",
    "round-robin": "round robin",
    "random": "random",
}


@frozen
class Load:
    """Who sends what.

    Attributes:
        instances: How many producers of a kind send at the same time, each in a process of its own.
        keyed: Whether all records have keys.
    """

    name: str
    title: str
    instances: int
    keyed: bool

    def title_of(self, kind: str) -> str:
        """Return how tables call a producer."""
        return TITLES.get(kind, "UniformStickyPartitioner" if self.keyed else "AdaptivePartitioner")


LOADS = {
    load.name: load
    for load in (
        Load("1x", "One producer, no keys", 1, keyed=False),
        Load("3x", "Three producers, no keys", 3, keyed=False),
        Load("1x-keyed", "One producer, keyed", 1, keyed=True),
        Load("3x-keyed", "Three producers, keyed", 3, keyed=True),
    )
}


@frozen
class Cell:
    """One load on topics of one size, with one linger.

    Attributes:
        seconds: How long the load lasts after the warm-up.
        batch_bytes: ``batch.size``; None for librdkafka's default (1,000,000).
    """

    load: Load
    partitions: int
    linger_ms: int
    seconds: float = 5.0
    batch_bytes: int | None = None

    @property
    def name(self) -> str:
        return f"{self.partitions}p-{self.linger_ms}ms-{self.load.name}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Who is compared. librdkafka with five requests in flight, as ours has without linger, tells what is
        gained by the choice of partitions alone; once is enough, so not with keys."""
        five = self.linger_ms == 0 and not self.load.keyed
        return tuple(kind for kind in KINDS if five or kind != "librdkafka-5")

    @property
    def records(self) -> int:
        """How many records one instance sends."""
        return round(RATE * self.seconds)

    @property
    def seconds_a_run(self) -> float:
        """About how long one run takes: start and topic, the load, and what it leaves to be waited for."""
        saturated = self.linger_ms == 0 or (self.load.instances > 1 and self.linger_ms < 100)
        return 2.0 + WARM_UP_S + self.seconds + (DRAIN_S * 0.7 if saturated else 0.5)


JAVA_BATCH_BYTES = 16_384
CLAIM = Cell(LOADS["3x"], 16, 1000, batch_bytes=JAVA_BATCH_BYTES)
"""The cell of KIP-480's claim about linger 1000. It needs Java's batch size: with librdkafka's, no batch is
ever full before its linger is over."""


def _grid() -> Iterator[Cell]:
    for load in LOADS.values():
        for partitions in PARTITIONS:
            for linger_ms in LINGERS_MS:
                yield Cell(load, partitions, linger_ms)
    yield CLAIM


CELLS = {cell.name: cell for cell in _grid()}


WARM_UP = CELLS["16p-10ms-1x"]
"""What new brokers are loaded with before anything counts."""


def assignment(partitions: int) -> dict[int, list[int]]:
    """Return partition -> brokers for a new topic, leaders and followers evenly."""
    return {
        partition: [(partition + i) % BROKERS + 1 for i in range(REPLICATION)]
        for partition in range(partitions)
    }
