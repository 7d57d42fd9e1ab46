"""What is measured: the scenarios, the producers, and the settings that they share."""

from typing import Any, Literal

from attrs import evolve, frozen

FaultKind = Literal["brownout", "kill", "rolling", "pressure"]

BROKERS = 3
PARTITIONS = 6
VALUE_BYTES = 100
LINGER_MS = 5
DELIVERY_LIMIT_MS = 3_000
"""How long any producer may try. Short, so that what a fault costs shows within the run: after two minutes,
the default, a record of a web request is as good as failed."""
REQUEST_LIMIT_MS = 2_500  # kafka-python and Java want it below the delivery limit
WARM_UP_S = 2.0  # with 1 s, Java was still compiling itself when the baseline began
FAULT_AT_S = 2.7
FROZEN_S, THAWED_S = 0.4, 0.1
LATE_MS = 100.0


@frozen
class ProducerKind:
    """A producer that takes part: how tables call it, and what it is in full."""

    name: str
    title: str
    java: bool = False


PRODUCERS = {
    producer.name: producer
    for producer in (
        ProducerKind("librdkafka", "librdkafka default"),
        ProducerKind("java", "Java, KIP-794 adaptive (default)", java=True),
        ProducerKind("java-availability", "Java, availability timeout 100 ms", java=True),
        ProducerKind("kafka-python", "kafka-python default"),
        ProducerKind("kafka-python-sticky", "kafka-python sticky"),
        ProducerKind("ours", "PartitioningProducer"),
        ProducerKind("ours-failed", 'PartitioningProducer, rescue="failed"'),
        ProducerKind("ours-hedge", 'PartitioningProducer, rescue="hedge"'),
        ProducerKind("attached", "kafka-python, ours attached"),
        ProducerKind("attached-failed", 'kafka-python, ours attached, rescue="failed"'),
        ProducerKind("attached-hedge", 'kafka-python, ours attached, rescue="hedge"'),
    )
}

OURS = ("ours", "ours-failed", "ours-hedge")
ATTACHED = ("attached", "attached-failed", "attached-hedge")
JAVA_SETTINGS = {"java": {}, "java-availability": {"partitioner.availability.timeout.ms": "100"}}


@frozen
class Scenario:
    """One fault under one load, and who is compared.

    Attributes:
        rate: Records per second of each producer instance.
        seconds: How long the load lasts; the fault begins at `FAULT_AT_S`.
        instances: How many producers of a kind send at the same time, each in a process of its own.
        keyed: Whether every other record has a key.
        plot: Which picture is drawn of it.
    """

    name: str
    title: str
    fault: FaultKind
    producers: tuple[str, ...]
    rate: int = 2_000
    seconds: float = 9.0
    instances: int = 1
    keyed: bool = False
    plot: Literal["latency", "failed"] | None = None

    @property
    def replication(self) -> int:
        return 3 if self.fault == "rolling" else 1

    @property
    def records(self) -> int:
        """How many records one instance sends."""
        return round(self.rate * self.seconds)

    @property
    def seconds_a_run(self) -> float:
        """About how long one run takes: the load, the way to it, and the repair after it."""
        repair = {"brownout": 4.0, "kill": 14.0, "rolling": 3.0, "pressure": 3.0}[self.fault]
        return self.seconds + WARM_UP_S + repair + self.records * self.instances / 100_000


_PEERS = ("librdkafka", "java", "java-availability")
_PYTHON_PEERS = ("kafka-python", "kafka-python-sticky")
_BESIDE_LIBRDKAFKA = ("librdkafka", "ours", "ours-hedge")


def _variants(suffix: str, words: str, **changes: Any) -> tuple[Scenario, Scenario]:
    """Return brown-out and kill under another load, or with other producers."""
    common = {"producers": _BESIDE_LIBRDKAFKA, **changes}
    return (
        Scenario(name=f"brownout-{suffix}", title=f"Brown-out, {words}", fault="brownout", **common),
        Scenario(name=f"kill-{suffix}", title=f"`kill -9`, {words}", fault="kill", **common),
    )


_PYTHON_BROWNOUT, _PYTHON_KILL = _variants(
    "kafka-python", "kafka-python", producers=(*_PYTHON_PEERS, *ATTACHED), seconds=15.0
)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "brownout",
            f"Brown-out: one of {BROKERS} brokers frozen {FROZEN_S} s of each {FROZEN_S + THAWED_S} s",
            "brownout",
            (*_PEERS, *OURS),
            plot="latency",
        ),
        Scenario("kill", "`kill -9` of a broker", "kill", (*_PEERS, *OURS), plot="failed"),
        evolve(_PYTHON_BROWNOUT, plot="latency"),
        evolve(_PYTHON_KILL, plot="failed"),
        # A rescue follows every record: at this rate that is more than one core can do.
        *_variants("fast", "50,000 records/s", rate=50_000, producers=("librdkafka", "ours")),
        *_variants("fleet", "3 producers at once", instances=3),
        *_variants("keyed", "every other record keyed", keyed=True),
        Scenario(
            "rolling",
            "Rolling restart of all brokers, replication factor 3",
            "rolling",
            ("librdkafka", "ours"),
            seconds=45.0,
        ),
        Scenario(
            "pressure",
            "A healthy cluster, all cores kept busy by others",
            "pressure",
            _BESIDE_LIBRDKAFKA,
        ),
    )
}


def leader_of(partition: int) -> int:
    """Return the broker that leads a partition: topics are laid out by hand, to know whom a fault hits."""
    return partition % BROKERS + 1


def assignment(replication: int) -> dict[int, list[int]]:
    """Return partition -> brokers for a new topic, its leader first."""
    return {
        partition: [(leader_of(partition) - 1 + i) % BROKERS + 1 for i in range(replication)]
        for partition in range(PARTITIONS)
    }
