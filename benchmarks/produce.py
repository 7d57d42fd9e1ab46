"""What a `PartitioningProducer` costs beside the plain producer: whole runs, flush included.

Both send the same records with the same key hash, in turn, in one process. The ratio is that of the records
per second: below 1, the partitioning producer is slower. CPU time is that of the sending thread.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import cycle
from typing import Any

from attrs import asdict, field, frozen
from confluent_kafka import Producer

from benchmarks.measure import Pair, interleaved, save
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.jvm import java
from kafka_partition_events.testing import KafkaCluster
from tests.mock_cluster import MockCluster

PARTITIONS = 12
PRODUCERS = 4
VALUE = b"v" * 100
KEYS = [b"key-%d" % number for number in range(1000)]
BATCH = 1000
CONFIG = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 2_000_000,
    "partitioner": "murmur2_random",
    "log_level": 2,
}

Send = Callable[[Producer, str, int], None]


def ignore(error: object, message: object) -> None:
    """Serve as a delivery callback."""


def send_unkeyed(producer: Producer, topic: str, count: int) -> None:
    produce, value = producer.produce, VALUE
    for _ in range(count):
        produce(topic, value)


def send_keyed(producer: Producer, topic: str, count: int) -> None:
    produce, value, keys = producer.produce, VALUE, KEYS
    for number in range(count):
        produce(topic, value, keys[number % 1000])


def with_callbacks(keys: Sequence[bytes | None]) -> Send:
    """Return what sends as careful applications do: with a delivery callback, and a poll now and then."""

    def send(producer: Producer, topic: str, count: int) -> None:
        produce, poll, value = producer.produce, producer.poll, VALUE
        for number in range(count):
            produce(topic, value, keys[number % 1000], on_delivery=ignore)
            if number % 100 == 0:
                poll(0)

    return send


def send_batches(producer: Producer, topic: str, count: int) -> None:
    for _ in range(count // BATCH):
        producer.produce_batch(topic, [{"value": VALUE} for _ in range(BATCH)])


def send_keyed_batches(producer: Producer, topic: str, count: int) -> None:
    for _ in range(count // BATCH):
        producer.produce_batch(topic, [{"value": VALUE, "key": key} for key in KEYS])


def polling_for_each(topics: int) -> Send:
    """Return what sends to so many topics in turn, and polls for each record, as every tutorial does."""

    def send(producer: Producer, topic: str, count: int) -> None:
        produce, poll, value = producer.produce, producer.poll, VALUE
        names = [topic if topics == 1 else f"{topic}-{number}" for number in range(topics)]
        for number in range(count):
            produce(names[number % topics], value)
            poll(0)

    return send


@frozen
class Case:
    """What both producers send.

    Attributes:
        name: As the table has it.
        send: What they do.
        part: What part of the usual number of records that is enough of.
        topics: How many there are; more than one only on the mock cluster.
        options: Of ours.
    """

    name: str
    send: Send
    part: float = 1.0
    topics: int = 1
    options: dict[str, Any] = field(factory=dict)


MOVE: dict[str, Any] = {"keys": "move"}
CASES = (
    Case("produce(), unkeyed", send_unkeyed),
    *(
        Case(f"{name}{option}", send, part, options=options)
        for option, part, options in (
            ("", 1.0, {}),
            (", move", 1.0, MOVE),
            (", move, hedge", 0.05, {**MOVE, "rescue": "hedge"}),
        )
        for name, send in (
            ("produce(), keyed", send_keyed),
            ("produce() with callbacks, keyed", with_callbacks(KEYS)),
        )
    ),
    Case("produce() with callbacks, unkeyed", with_callbacks([None] * 1000)),
    *(
        Case(f"produce() and poll(0), {n} topic{'s' * (n > 1)}", polling_for_each(n), 0.1, n)
        for n in (1, 50, 500)
    ),
    Case("produce_batch() of 1,000, unkeyed", send_batches),
    Case("produce_batch() of 1,000, keyed", send_keyed_batches),
)


class Runner:
    """One producer that sends one case again and again."""

    def __init__(self, producer: Producer, send: Send, topic: str, count: int) -> None:
        self.producer = producer
        self.send = send
        self.topic = topic
        self.count = count
        self.cpu_us: list[float] = []

    def __call__(self) -> float:
        """Send everything; return the microseconds that a record took."""
        began, cpu = time.perf_counter(), time.thread_time_ns()
        self.send(self.producer, self.topic, self.count)
        self.cpu_us.append((time.thread_time_ns() - cpu) / self.count / 1000)
        self.producer.flush()
        return (time.perf_counter() - began) / self.count * 1e6


@frozen
class Outcome:
    """What a case came to; ``pair.a`` is the partitioning producer, ``pair.b`` the plain one: us a record."""

    cluster: str
    case: str
    records: int
    pair: Pair
    cpu_us_ours: float
    cpu_us_plain: float

    def row(self) -> tuple[str, ...]:
        pair, cpu = self.pair, f"{self.cpu_us_ours:.2f}, {self.cpu_us_plain:.2f}"
        beside = (pair.ratio.text(), pair.a.text(), pair.b.text())
        return (self.cluster, self.case, *beside, cpu, str(pair.discarded))


def measure(cluster: str, servers: str, case: Case, topic: str, count: int, pairs: int) -> Outcome:
    """Measure with `PRODUCERS` producers of each kind in turn.

    A producer and librdkafka's threads can fall into step and contend for a lock on most records, which
    doubles the sending thread's CPU time, with either kind of producer, until they fall out of step.
    """
    config: dict[str, Any] = {**CONFIG, "bootstrap.servers": servers}
    with ExitStack() as opened:
        ours, plain = [], []
        for _ in range(PRODUCERS):
            plain.append(Runner(Producer(config), case.send, topic, count))
            producer = opened.enter_context(PartitioningProducer(config, **case.options))
            ours.append(Runner(producer, case.send, topic, count))
            producer.produce(topic, VALUE)
            if not producer.poller.refresh(wait=10.0) or producer.poller.cluster is None:
                raise SystemExit(f"no metadata: {producer.poller.health.last_error}")
        pair = interleaved(in_turn(ours), in_turn(plain), pairs)
    return Outcome(cluster, case.name, count, pair, cpu_us(ours), cpu_us(plain))


def in_turn(runners: list[Runner]) -> Callable[[], float]:
    """Return a function that runs the next one each time."""
    turns = cycle(runners)

    def run_next() -> float:
        return next(turns)()

    return run_next


def cpu_us(runners: list[Runner]) -> float:
    """Return the median CPU time of the sending thread for one record."""
    return statistics.median(us for runner in runners for us in runner.cpu_us)


def main(*, quick: bool = False) -> None:
    """Measure on the mock cluster, and on a real one too where there is Java."""
    count, pairs = (50_000, 3) if quick else (400_000, 20)
    outcomes: list[Outcome] = []
    with ExitStack() as opened:
        clusters: dict[str, Any] = {"mock": opened.enter_context(MockCluster(3))}
        if java() is not None:
            clusters["Kafka"] = opened.enter_context(KafkaCluster(brokers=3))
        for name, cluster in clusters.items():
            cluster.create_topic("produce", PARTITIONS)
            cases = [case for case in CASES if case.topics == 1 or name == "mock"]
            for number in range(max(case.topics for case in cases)):
                cluster.create_topic(f"produce-{number}", PARTITIONS)
            for case in cases:
                records = round(count * case.part)
                outcomes.append(measure(name, cluster.bootstrap_servers, case, "produce", records, pairs))
                print(*outcomes[-1].row(), sep=" | ", flush=True)
    save(
        "produce",
        f"PartitioningProducer beside confluent_kafka.Producer: {PARTITIONS} partitions, {len(VALUE)} B, "
        "linger 5 ms, whole runs",
        ("cluster", "case", "rate, ours / plain", "us a record, ours", "plain", "CPU us", "discarded"),
        [outcome.row() for outcome in outcomes],
        [asdict(outcome) for outcome in outcomes],
    )


if __name__ == "__main__":
    main()
