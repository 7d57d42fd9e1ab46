"""Applications that write at a steady rate, by any client's producer, and what they hear of each record."""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol

from attrs import define, field
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka import KafkaProducer

from kafka_partition_events import AdaptivePartitioner, BrokerSuspected, Event
from kafka_partition_events.clients import aiokafka, kafka_python
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer, PartitioningProducer
from kafka_partition_events.clients.flight.predecessors import parse_after
from kafka_partition_events.testing import KafkaCluster, RecordingListener

LIMIT_S: Final = 80.0
KeyOf = Callable[[int], bytes | None]
Heard = Callable[[int, tuple[int, int] | None, object], None]
"""Called with a record's number, its partition and offset, or an error."""


class Driver(Protocol):
    """A producer that chooses by what it hears of brokers, whichever client it is of."""

    producer: Any
    partitioner: Any

    @property
    def poller(self) -> Any: ...
    @property
    def keys(self) -> Any: ...
    @property
    def rescued(self) -> Any: ...
    def send(self, number: int, key: bytes | None) -> None: ...
    def wait(self, seconds: float) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def _librdkafka(cluster: KafkaCluster, idempotent: bool, delivery_s: float) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": idempotent,
        "linger.ms": 5,
        "message.timeout.ms": round(1_000 * delivery_s),
        "log_level": 0,
    }


class Confluent:
    def __init__(
        self, cluster: KafkaCluster, topic: str, heard: Heard, *, idempotent: bool = False,
        delivery_s: float = LIMIT_S, **options: Any,
    ) -> None:  # fmt: skip
        self._topic, self._heard = topic, heard
        self.producer = PartitioningProducer(_librdkafka(cluster, idempotent, delivery_s), **options)
        self.partitioner, self.poller = self.producer.partitioner, self.producer.poller

    @property
    def keys(self) -> Any:
        return self.producer.stats.keys

    @property
    def rescued(self) -> Any:
        return self.producer.stats.rescue

    def send(self, number: int, key: bytes | None) -> None:
        self.producer.produce(self._topic, b"%d" % number, key, on_delivery=partial(self._note, number))

    def _note(self, number: int, error: Any, message: Any) -> None:
        self._heard(number, None if error else (message.partition(), message.offset()), error)

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.producer.poll(seconds)
        while (left := until - time.monotonic()) > 0:  # a poll ends with the first report
            self.producer.poll(left)

    def flush(self) -> None:
        assert self.producer.flush(LIMIT_S) == 0

    def close(self) -> None:
        self.producer.close()


class KafkaPython:
    def __init__(
        self, cluster: KafkaCluster, topic: str, heard: Heard, *, idempotent: bool = False,
        delivery_s: float = 30.0, **options: Any,
    ) -> None:  # fmt: skip
        self._topic, self._heard, self.partitioner = topic, heard, AdaptivePartitioner()
        self.producer: Any = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","),
            partitioner=self.partitioner,
            acks="all",
            enable_idempotence=idempotent,
            linger_ms=5,
            request_timeout_ms=round(500 * delivery_s),
            delivery_timeout_ms=round(1_000 * delivery_s),
        )
        self.producer.partitions_for(topic)
        self.poller = kafka_python.attach(self.producer, **options)
        assert self.poller.refresh("test", wait=LIMIT_S)

    @property
    def keys(self) -> Any:
        return kafka_python.key_stats(self.producer)

    @property
    def rescued(self) -> Any:
        return kafka_python.rescue_stats(self.producer)

    def send(self, number: int, key: bytes | None) -> None:
        future = self.producer.send(self._topic, b"%d" % number, key)
        future.add_callback(lambda it: self._heard(number, (it.partition, it.offset), None))
        future.add_errback(lambda error: self._heard(number, None, error))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        self.producer.flush(LIMIT_S)

    def close(self) -> None:
        self.producer.close(timeout=LIMIT_S)


class _OnALoop:
    """A producer of asyncio on a loop with a thread of its own; one task sends, which keeps the order."""

    producer: Any

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._waiting: asyncio.Queue[tuple[int, bytes | None]] = asyncio.Queue()
        self._run(self._open())
        self._pump = asyncio.run_coroutine_threadsafe(self._send_all(), self._loop)

    def _run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(LIMIT_S)

    async def _open(self) -> None:
        raise NotImplementedError

    async def _sent(self, value: bytes, key: bytes | None) -> Any:
        """Return the future of a record."""
        raise NotImplementedError

    async def _flush(self) -> None:
        await self._waiting.join()
        await self.producer.flush()

    async def _send_all(self) -> None:
        while True:
            number, key = await self._waiting.get()
            future = await self._sent(b"%d" % number, key)
            future.add_done_callback(partial(self._note, number))
            self._waiting.task_done()

    def _note(self, number: int, done: Any) -> None:
        error = done.exception()
        self._heard(number, None if error else self._place(done.result()), error)

    def _place(self, result: Any) -> tuple[int, int]:
        return result.partition, result.offset

    @property
    def poller(self) -> Any:
        return self.producer.poller

    def send(self, number: int, key: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._waiting.put_nowait, (number, key))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self) -> None:
        self._run(self._flush())

    async def _close(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._pump.cancel()
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()


class Asyncio(_OnALoop):
    """The front of confluent-kafka for asyncio."""

    def __init__(
        self, cluster: KafkaCluster, topic: str, heard: Heard, *, idempotent: bool = False,
        delivery_s: float = LIMIT_S, **options: Any,
    ) -> None:  # fmt: skip
        self._topic, self._options = topic, options
        self._config = _librdkafka(cluster, idempotent, delivery_s)
        super().__init__(heard)

    async def _open(self) -> None:
        self.producer = AsyncPartitioningProducer(self._config, **self._options)
        self.partitioner = self.producer.partitioner

    async def _sent(self, value: bytes, key: bytes | None) -> Any:
        return await self.producer.produce(self._topic, value, key)

    def _place(self, result: Any) -> tuple[int, int]:
        return result.partition(), result.offset()

    async def _close(self) -> None:
        await self.producer.close()

    @property
    def keys(self) -> Any:
        return self.producer.stats.keys

    @property
    def rescued(self) -> Any:
        return self.producer.stats.rescue


class Aiokafka(_OnALoop):
    def __init__(
        self, cluster: KafkaCluster, topic: str, heard: Heard, *, idempotent: bool = False,
        delivery_s: float = 30.0, **options: Any,
    ) -> None:  # fmt: skip
        self._topic, self.partitioner = topic, AdaptivePartitioner()
        self._config = {
            "bootstrap_servers": cluster.bootstrap_servers, "partitioner": self.partitioner, "acks": "all",
            "linger_ms": 5, "request_timeout_ms": round(600 * delivery_s), "enable_idempotence": idempotent,
        }  # fmt: skip
        self._options = options
        super().__init__(heard)

    async def _open(self) -> None:
        self.producer = aiokafka.PartitioningAIOKafkaProducer(**self._config, **self._options)
        await self.producer.start()
        await self.producer.partitions_for(self._topic)

    async def _sent(self, value: bytes, key: bytes | None) -> Any:
        return await self.producer.send(self._topic, value, key=key)

    async def _close(self) -> None:
        await self.producer.stop()

    @property
    def keys(self) -> Any:
        return aiokafka.key_stats(self.producer)

    @property
    def rescued(self) -> Any:
        return aiokafka.rescue_stats(self.producer)


DRIVERS: Final[dict[str, Callable[..., Driver]]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "asyncio": Asyncio,
    "aiokafka": Aiokafka,
}


@define
class Application:
    """Writes numbered records, and keeps what it hears of each.

    Attributes:
        rate: Records a second.
        sent_at: When each was sent.
        reports: How often each was told of.
        places: Partition and offset of those that were acknowledged.
        errors: Of those that failed.
        heard: The events of the producer's poller.
    """

    driver: Driver = field(init=False)
    rate: float
    sent_at: list[float] = field(factory=list)
    reports: Counter[int] = field(factory=Counter)
    places: dict[int, tuple[int, int]] = field(factory=dict)
    errors: dict[int, object] = field(factory=dict)
    heard: RecordingListener = field(factory=RecordingListener)

    def note(self, number: int, place: tuple[int, int] | None, error: object) -> None:
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

    def write(self, seconds: float, key: KeyOf = lambda _number: None) -> range:
        """Write for so long; return the numbers of the records."""
        first, begin = self.sent, time.monotonic()
        while (now := time.monotonic()) < begin + seconds:
            if self.sent - first <= (now - begin) * self.rate:
                self.sent_at.append(now)
                self.driver.send(self.sent - 1, key(self.sent - 1))
            self.driver.wait(0.001)
        return range(first, self.sent)

    def write_until(self, true: Callable[[], object], key: KeyOf = lambda _number: None) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not true():
            assert time.monotonic() < deadline, "it does not come"
            self.write(0.1, key)

    def warm_up(self, topic: str, key: KeyOf = lambda _number: None) -> None:
        """Write until the topic and the usual time to answer are known, and nobody is suspect."""
        self.write_until(lambda: self.driver.partitioner.route(topic), key)
        self.write(1.0, key)
        self.write_until(lambda: not self.deliveries.suspects(), key)

    def of_each_is_told_once(self) -> None:
        """Flush, and fail if a record has no outcome or two."""
        self.driver.flush()
        deadline = time.monotonic() + LIMIT_S
        while len(self.reports) < self.sent and time.monotonic() < deadline:
            self.driver.wait(0.05)
        assert len(self.reports) == self.sent
        assert set(self.reports.values()) == {1}

    def suspicion_of(self, broker: int, since: float = 0.0) -> BrokerSuspected | None:
        """Return the first one. A busy machine may make others look silent for a moment, too."""
        told: Sequence[Event] = self.heard.of(BrokerSuspected)
        return next((e for e in told if e.broker == broker and e.observed_at >= since), None)  # type: ignore[attr-defined]

    def share_failed_after(self, moment: float) -> float:
        """What failed of the records sent later: how long it takes to know is the machine's matter."""
        after = [at > moment for at in self.sent_at]
        return sum(after[number] for number in self.errors) / sum(after)


@contextlib.contextmanager
def writing(
    client: str, cluster: KafkaCluster, topic: str, *, rate: float = 200.0, **options: Any
) -> Iterator[Application]:
    """Have an application write by a client's producer, for the time of a ``with``."""
    made = Application(rate=rate)
    made.driver = DRIVERS[client](cluster, topic, made.note, **options)
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


def proven_moves(cluster: KafkaCluster, topic: str, written: Application, keys: int) -> int:
    """Return how often a key has changed its partition; fail if a record does not name what it comes after.

    Record n has key n modulo ``keys``.
    """
    after = {(it.partition(), it.offset()): parse_after(it.headers()) for it in read_back(cluster, topic)}
    last: dict[int, tuple[int, int]] = {}
    moves = 0
    for number, (partition, offset) in sorted(written.places.items()):
        before = last.get(number % keys)
        if before is not None and before[0] == partition:
            assert before[1] < offset
        elif before is not None:
            moves += 1
            assert after[partition, offset].get(before[0], -1) >= before[1]
        last[number % keys] = partition, offset
    return moves
