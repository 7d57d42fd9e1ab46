"""Applications that write at a steady rate, by any client's producer, and what they hear of each record."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import define, field
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_partition_events import BrokerSuspected
from kafka_partition_events.clients.flight.predecessors import parse_after
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from tests.drivers_kit import DRIVERS, Driver, Settings

LIMIT_S: Final = 80.0
KeyOf = Callable[[int], bytes | None]


@define
class Application:
    """Writes numbered records, and keeps what it hears of each.

    Attributes:
        rate: Records a second.
        sent_at: When each was sent.
        reports: How often each was told of.
        places: Partition of those that were acknowledged, and the offset where it is known.
        errors: Of those that failed.
        heard: The events of the producer's poller.
    """

    topic: str
    rate: float
    driver: Driver = field(init=False)
    sent_at: list[float] = field(factory=list)
    reports: Counter[int] = field(factory=Counter)
    places: dict[int, tuple[int, int | None]] = field(factory=dict)
    errors: dict[int, object] = field(factory=dict)
    heard: RecordingListener = field(factory=RecordingListener)

    def note(self, number: int, place: tuple[int, int | None] | None, error: object) -> None:
        self.reports[number] += 1
        if place is None:
            self.errors[number] = error
        else:
            self.places[number] = place

    @property
    def sent(self) -> int:
        return len(self.sent_at)

    @property
    def deliveries(self) -> Any:
        return self.driver.partitioner.deliveries

    def send(self, key: bytes | None) -> int:
        """Send the next record; return its number."""
        number = self.sent
        self.sent_at.append(time.monotonic())
        self.driver.send(number, self.topic, key, b"%d" % number)
        return number

    def write(self, seconds: float, key: KeyOf = lambda _number: None) -> range:
        """Write for so long; return the numbers of the records."""
        first, begin = self.sent, time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            if self.sent - first <= (now - begin) * self.rate:
                self.send(key(self.sent))
            self.driver.wait(0.001)
        return range(first, self.sent)

    def write_until(self, true: Callable[[], object], key: KeyOf = lambda _number: None) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not true():
            assert time.monotonic() < deadline, "it does not come"
            self.write(0.1, key)

    def warm_up(self, key: KeyOf = lambda _number: None) -> None:
        """Write until the topic and the usual time to answer are known, and nobody is suspect."""
        self.write_until(lambda: self.driver.partitioner.route(self.topic), key)
        self.write(1.0, key)
        self.write_until(lambda: not self.deliveries.suspects(), key)

    def of_each_is_told_once(self) -> None:
        """Flush, and fail if a record has no outcome or two."""
        self.driver.flush(LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while len(self.reports) < self.sent and time.monotonic() < deadline:
            self.driver.wait(0.05)
        assert len(self.reports) == self.sent
        assert set(self.reports.values()) == {1}

    def suspicion_of(self, broker: int, since: float = 0.0) -> BrokerSuspected | None:
        """Return the first one. A busy machine may make others look silent for a moment, too."""
        told = self.heard.of(BrokerSuspected)
        return next((e for e in told if e.broker == broker and e.observed_at >= since), None)

    def share_failed_after(self, moment: float) -> float:
        """What failed of the records sent later: how long it takes to know is the machine's matter."""
        after = [at > moment for at in self.sent_at]
        return sum(after[number] for number in self.errors) / sum(after)


@contextlib.contextmanager
def writing(
    client: str, cluster: KafkaCluster, topic: str, *, rate: float = 200.0, idempotent: bool = False,
    delivery_s: float = LIMIT_S, **options: Any,
) -> Iterator[Application]:  # fmt: skip
    """Have an application write by a client's producer, for the time of a ``with``."""
    made = Application(topic, rate)
    settings = Settings(
        servers=cluster.bootstrap_servers, idempotent=idempotent, delivery_s=delivery_s, options=options
    )
    made.driver = DRIVERS[client](settings, made.note)
    try:
        made.driver.poller.register(made.heard)
        yield made
    finally:
        made.driver.close()


def read_back(cluster: KafkaCluster, topic: str) -> list[Any]:
    """Return all records of a topic, each partition's in its order."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "log_level": 0})
    deadline = time.monotonic() + LIMIT_S
    places = [TopicPartition(topic, partition, 0) for partition in cluster.leaders(topic)]
    count = sum(_end(consumer, place, deadline) for place in places)
    consumer.assign(places)
    found: list[Any] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        found += consumer.consume(10_000, timeout=0.5)
    consumer.close()
    return found


def _end(consumer: Consumer, place: TopicPartition, deadline: float) -> int:
    """Return where a partition ends. A broker that has just come back does not lead at once."""
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, LIMIT_S)[1])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def proven_moves(cluster: KafkaCluster, written: Application, keys: int) -> int:
    """Return how often a key has changed its partition; fail if a record does not name what it comes after.

    Record n has key n modulo ``keys``.
    """
    records = read_back(cluster, written.topic)
    after = {(it.partition(), it.offset()): parse_after(it.headers()) for it in records}
    there = {(int(it.value()), it.partition()): it.offset() for it in reversed(records)}
    last: dict[int, tuple[int, int]] = {}
    moves = 0
    for number, (partition, offset) in sorted(written.places.items()):
        if offset is None:  # an idempotent librdkafka does not always hear it; where it went is known
            offset = there[number, partition]  # noqa: PLW2901
        before = last.get(number % keys)
        if before is not None and before[0] == partition:
            assert before[1] < offset
        elif before is not None:
            moves += 1
            assert after[partition, offset].get(before[0], -1) >= before[1]
        last[number % keys] = partition, offset
    return moves
