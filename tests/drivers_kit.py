"""Producers of all clients, plain and ours, behind one way to send: by the number of a record."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaProducer
from attrs import field, frozen
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafka_partition_events import AdaptivePartitioner, Partitioner
from kafka_partition_events.clients import aiokafka, kafka_python
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer, PartitioningProducer

Heard = Callable[[int, tuple[int, int] | None, object], None]
"""Called with a record's number, and its partition and offset or an error."""
LOOK_S: Final = 2.0
_CALL_LIMIT_S: Final = 300.0
_REQUEST_S: Final = 30.0
"""Kafka's default, where a delivery may take long enough."""
QUEUE: Final = 200_000
"""Each of three replicas is on each of three brokers: one that hangs holds up all writes until its session
ends, after 9 s. At 14,000 records/s librdkafka's default of 100,000 is full by then."""


@frozen(kw_only=True)
class Settings:
    """How a producer is made.

    Attributes:
        ours: Whether the library chooses; else it is the client as it comes.
        options: Of ours, beside its partitioner: ``rescue``, ``keys``.
    """

    servers: str
    name: str = "test"
    ours: bool = True
    partitioner: Partitioner | None = None
    acks: str = "all"
    idempotent: bool = False
    delivery_s: float = 30.0
    options: Mapping[str, Any] = field(factory=dict)

    @property
    def request_ms(self) -> int:
        return round(1_000 * min(_REQUEST_S, 0.4 * self.delivery_s))

    @property
    def chooses(self) -> Partitioner:
        return self.partitioner or AdaptivePartitioner()

    def of_librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.servers,
            "client.id": self.name,
            "acks": self.acks,
            "enable.idempotence": self.idempotent,
            "message.timeout.ms": round(1_000 * self.delivery_s),
            "queue.buffering.max.messages": QUEUE,
            "linger.ms": 5,
            "allow.auto.create.topics": False,
            "log_level": 2,
        }


class Driver(Protocol):
    """One client."""

    producer: Any

    @property
    def partitioner(self) -> Any: ...
    @property
    def poller(self) -> Any: ...
    @property
    def keys(self) -> Any: ...
    @property
    def rescued(self) -> Any: ...
    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None: ...
    def wait(self, seconds: float) -> None: ...
    def flush(self, limit_s: float) -> None: ...
    def close(self) -> None: ...


class _Counting:
    """A producer that counts what became of keys and of rescued records."""

    producer: Any

    @property
    def keys(self) -> Any:
        return self.producer.stats.keys

    @property
    def rescued(self) -> Any:
        return self.producer.stats.rescue


class Confluent(_Counting):
    def __init__(self, settings: Settings, heard: Heard) -> None:
        self._heard = heard
        config = settings.of_librdkafka()
        self.producer: Any = Producer(config)
        if settings.ours:
            self.producer = PartitioningProducer(
                config, settings.chooses, poller_options={"interval": LOOK_S}, **settings.options
            )

    @property
    def partitioner(self) -> Any:
        return self.producer.partitioner

    @property
    def poller(self) -> Any:
        return self.producer.poller

    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None:
        try:
            self.producer.produce(topic, value, key, on_delivery=partial(self._note, number))
        except (KafkaException, BufferError) as error:
            self._heard(number, None, f"refused: {error}")

    def _note(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self._heard(number, (message.partition(), message.offset()), None)
        else:
            self._heard(number, None, error.name())

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.producer.poll(seconds)
        while (left := until - time.monotonic()) > 0:  # a poll ends with the first report
            self.producer.poll(left)

    def flush(self, limit_s: float) -> None:
        self.producer.flush(limit_s)

    def close(self) -> None:
        if isinstance(self.producer, PartitioningProducer):
            self.producer.close()


class KafkaPython:
    def __init__(self, settings: Settings, heard: Heard) -> None:
        self._heard = heard
        self._outstanding: set[int] = set()
        self._lock = threading.Lock()
        self.partitioner = settings.chooses
        self.producer: Any = KafkaProducer(
            bootstrap_servers=settings.servers.split(","),
            client_id=settings.name,
            acks=settings.acks if settings.acks == "all" else int(settings.acks),
            enable_idempotence=settings.idempotent,
            max_block_ms=5_000,
            delivery_timeout_ms=round(1_000 * settings.delivery_s),
            request_timeout_ms=settings.request_ms,
            linger_ms=5,
            metadata_max_age_ms=round(1_000 * LOOK_S),
            **({"partitioner": self.partitioner} if settings.ours else {}),
        )
        if settings.ours:
            self.poller = kafka_python.attach(self.producer, interval=LOOK_S, **settings.options)

    @property
    def keys(self) -> Any:
        return kafka_python.key_stats(self.producer)

    @property
    def rescued(self) -> Any:
        return kafka_python.rescue_stats(self.producer)

    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None:
        try:
            future = self.producer.send(topic, value, key)
        except KafkaError as error:
            self._heard(number, None, f"refused: {error!r}")
            return
        with self._lock:
            self._outstanding.add(number)
        future.add_both(partial(self._note, number))

    def _note(self, number: int, answer: Any) -> None:
        if isinstance(answer, BaseException):
            self._heard(number, None, type(answer).__name__)
        else:
            self._heard(number, (answer.partition, answer.offset), None)
        with self._lock:
            self._outstanding.discard(number)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def flush(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while self._outstanding and time.monotonic() < deadline:
            time.sleep(0.05)

    def close(self) -> None:
        self.producer.close(timeout=10)


class _OnALoop:
    """A producer of asyncio on a loop with a thread of its own; one task sends, which keeps the order."""

    producer: Any

    def __init__(self, settings: Settings, heard: Heard) -> None:
        self._settings, self._heard = settings, heard
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._waiting: asyncio.Queue[tuple[int, str, bytes | None, bytes]] = asyncio.Queue()
        self._outstanding: set[asyncio.Future[Any]] = set()
        self._run(self._open(settings))
        self._sending = asyncio.run_coroutine_threadsafe(self._send_all(), self._loop)

    def _run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_CALL_LIMIT_S)

    async def _open(self, settings: Settings) -> None:
        raise NotImplementedError

    async def _sent(self, topic: str, key: bytes | None, value: bytes) -> Any:
        """Return the future of a record."""
        raise NotImplementedError

    async def _end(self) -> None:
        raise NotImplementedError

    def _place(self, result: Any) -> tuple[int, int]:
        return result.partition, result.offset

    async def _send_all(self) -> None:
        while True:
            number, topic, key, value = await self._waiting.get()
            try:
                future = await self._sent(topic, key, value)
            except Exception as error:  # noqa: BLE001 - whatever the client says is the record's outcome
                self._heard(number, None, f"refused: {type(error).__name__}")
            else:
                self._outstanding.add(future)
                future.add_done_callback(partial(self._note, number))
            self._waiting.task_done()

    def _note(self, number: int, done: "asyncio.Future[Any]") -> None:
        self._outstanding.discard(done)
        if done.cancelled() or (error := done.exception()) is not None:
            self._heard(number, None, "CancelledError" if done.cancelled() else type(error).__name__)
        else:
            self._heard(number, self._place(done.result()), None)

    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None:
        self._loop.call_soon_threadsafe(self._waiting.put_nowait, (number, topic, key, value))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _all_told(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._waiting.join()
                if self._outstanding:
                    await asyncio.wait(self._outstanding)

    def flush(self, limit_s: float) -> None:
        self._run(self._all_told(limit_s))

    def close(self) -> None:
        self._sending.cancel()
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_LIMIT_S)
        self._loop.close()


class Asyncio(_Counting, _OnALoop):
    """The front of confluent-kafka for asyncio."""

    async def _open(self, settings: Settings) -> None:
        self.producer = AsyncPartitioningProducer(
            settings.of_librdkafka(),
            settings.chooses,
            poller_options={"interval": LOOK_S},
            **settings.options,
        )
        self.partitioner, self.poller = self.producer.partitioner, self.producer.poller

    async def _sent(self, topic: str, key: bytes | None, value: bytes) -> Any:
        return await self.producer.produce(topic, value, key)

    def _place(self, result: Any) -> tuple[int, int]:
        return result.partition(), result.offset()

    async def _end(self) -> None:
        await self.producer.close()


class Aiokafka(_OnALoop):
    async def _open(self, settings: Settings) -> None:
        self.partitioner = settings.chooses
        self.producer = AIOKafkaProducer(
            bootstrap_servers=settings.servers.split(","),
            client_id=settings.name,
            acks=settings.acks,
            enable_idempotence=settings.idempotent,
            request_timeout_ms=settings.request_ms,
            linger_ms=5,
            metadata_max_age_ms=round(1_000 * LOOK_S),
        )
        await self.producer.start()
        self.poller = aiokafka.attach(
            self.producer, partitioner=self.partitioner, interval=LOOK_S, **settings.options
        )

    async def _sent(self, topic: str, key: bytes | None, value: bytes) -> Any:
        return await self.producer.send(topic, value, key=key)

    async def _end(self) -> None:
        await self.producer.stop()

    @property
    def keys(self) -> Any:
        return aiokafka.key_stats(self.producer)

    @property
    def rescued(self) -> Any:
        return aiokafka.rescue_stats(self.producer)


DRIVERS: Final[dict[str, Callable[[Settings, Heard], Driver]]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "confluent-aio": Asyncio,
    "aiokafka": Aiokafka,
}
