"""``python -m tests.chaos.load TASK``: one producer, at a steady rate, until SIGTERM.

Everything that the application hears is in the diary, and nothing else.
"""

import asyncio
import concurrent.futures
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafka_partition_events import (
    BufferBudget,
    DefaultPartitioner,
    MetadataPoller,
    Partitioner,
)
from kafka_partition_events.clients import aiokafka
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer, PartitioningProducer
from kafka_partition_events.clients.flight.key_moves import KeysMode
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.agents.producer_agent import ProducerAgent
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from tests.chaos.diary import Diary, Task, stopped_by_sigterm
from tests.chaos.plan import SIZES
from tests.chaos.promises import CAP, KEYS, WRITERS, Writer

_LOOK_S = 2.0
_REQUEST_S = 30.0
"""Kafka's default, where a delivery may take long enough."""
QUEUE: Final = 200_000
"""Each of three replicas is on each of three brokers: one that hangs holds up all writes until its session
ends, after 9 s. At 14,000 records/s librdkafka's default of 100,000 is full by then."""
_FILLING: Final = b"." * 80


class Outcomes(Protocol):
    """What hears of each record's outcome."""

    def acked(self, number: int, partition: int | None, offset: int | None) -> None: ...
    def failed(self, number: int, error: object) -> None: ...


class Sender(Protocol):
    """One client."""

    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None: ...
    def wait(self, seconds: float) -> None: ...
    def close(self) -> None: ...


def librdkafka_settings(task: Task, writer: Writer) -> dict[str, Any]:
    return {
        "bootstrap.servers": task.bootstrap,
        "client.id": task.name,
        "acks": writer.acks,
        "enable.idempotence": writer.idempotent,
        "message.timeout.ms": round(1_000 * writer.delivery_s),
        "queue.buffering.max.messages": QUEUE,
        "linger.ms": 5,
        "allow.auto.create.topics": False,
        "log_level": 2,
    }


class ConfluentSender:
    def __init__(self, task: Task, writer: Writer, diary: Outcomes) -> None:
        self._diary, self._finish_s = diary, writer.finish_s
        settings = librdkafka_settings(task, writer)
        if not writer.ours:
            self._producer = Producer(settings)
            return
        producer = PartitioningProducer(
            settings,
            partitioner_of(task, writer),
            rescue=writer.rescue,
            keys=keys_of(writer),
            poller_options={"interval": _LOOK_S},
        )
        self._producer = producer
        if "gated" in writer.special:
            start_agent(producer.poller, task)

    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None:
        try:
            self._producer.produce(topic, value, key, on_delivery=partial(self._heard, number))
        except (KafkaException, BufferError) as error:
            self._diary.failed(number, f"refused: {error}")

    def _heard(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self._diary.acked(number, message.partition(), message.offset())
        else:
            self._diary.failed(number, error.name())

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._producer.poll(seconds)
        while (left := until - time.monotonic()) > 0:  # a poll ends with the first report
            self._producer.poll(left)

    def close(self) -> None:
        self._producer.flush(self._finish_s)
        if isinstance(self._producer, PartitioningProducer):
            self._producer.close()


class KafkaPythonSender:
    def __init__(self, task: Task, writer: Writer, diary: Outcomes) -> None:
        self._diary, self._finish_s = diary, writer.finish_s
        self._outstanding: set[int] = set()
        self._lock = threading.Lock()
        chosen = {"partitioner": partitioner_of(task, writer)} if writer.ours else {}
        self._producer: Any = KafkaProducer(
            bootstrap_servers=task.bootstrap.split(","),
            client_id=task.name,
            acks=writer.acks if writer.acks == "all" else int(writer.acks),
            enable_idempotence=writer.idempotent,
            max_block_ms=5_000,
            delivery_timeout_ms=round(1_000 * writer.delivery_s),
            request_timeout_ms=round(1_000 * min(_REQUEST_S, 0.4 * writer.delivery_s)),
            linger_ms=5,
            metadata_max_age_ms=round(1_000 * _LOOK_S),
            **chosen,
        )
        if writer.ours:
            poller = attach(self._producer, rescue=writer.rescue, keys=keys_of(writer), interval=_LOOK_S)
            if "gated" in writer.special:
                start_agent(poller, task)

    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None:
        try:
            future = self._producer.send(topic, value, key)
        except KafkaError as error:
            self._diary.failed(number, f"refused: {error!r}")
            return
        with self._lock:
            self._outstanding.add(number)
        future.add_both(partial(self._heard, number))

    def _heard(self, number: int, answer: Any) -> None:
        if isinstance(answer, BaseException):
            self._diary.failed(number, type(answer).__name__)
        else:
            self._diary.acked(number, answer.partition, answer.offset)
        with self._lock:
            self._outstanding.discard(number)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        deadline = time.monotonic() + self._finish_s
        while self._outstanding and time.monotonic() < deadline:
            time.sleep(0.1)
        self._producer.close(timeout=10)


class AsyncSender:
    """A client of asyncio, on a loop with a thread of its own."""

    def __init__(self, task: Task, writer: Writer, diary: Outcomes) -> None:
        self._diary, self._finish_s = diary, writer.finish_s
        self._outstanding: set[concurrent.futures.Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        made = _confluent_client if writer.client == "confluent-aio" else _aiokafka_client
        self._deliver, self._end = self._run(made(task, writer)).result()

    def _run(self, what: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    def send(self, number: int, topic: str, key: bytes | None, value: bytes) -> None:
        future = self._run(self._one(number, topic, key, value))
        self._outstanding.add(future)
        future.add_done_callback(self._outstanding.discard)

    async def _one(self, number: int, topic: str, key: bytes | None, value: bytes) -> None:
        try:
            partition, offset = await self._deliver(topic, key, value)
        except Exception as error:  # noqa: BLE001 - whatever the client says is the record's outcome
            self._diary.failed(number, type(error).__name__)
        else:
            self._diary.acked(number, partition, offset)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        concurrent.futures.wait(list(self._outstanding), self._finish_s)
        self._run(self._end()).result()


async def _confluent_client(task: Task, writer: Writer) -> Any:
    producer = AsyncPartitioningProducer(
        librdkafka_settings(task, writer),
        partitioner_of(task, writer),
        rescue=writer.rescue,
        poller_options={"interval": _LOOK_S},
    )

    async def deliver(topic: str, key: bytes | None, value: bytes) -> tuple[int | None, int | None]:
        message = await producer.send(topic, value, key)
        return message.partition(), message.offset()

    return deliver, producer.close


async def _aiokafka_client(task: Task, writer: Writer) -> Any:
    producer = AIOKafkaProducer(
        bootstrap_servers=task.bootstrap.split(","),
        client_id=task.name,
        acks=writer.acks,
        enable_idempotence=writer.idempotent,
        request_timeout_ms=8_000,
        linger_ms=5,
        metadata_max_age_ms=round(1_000 * _LOOK_S),
    )
    await producer.start()
    aiokafka.attach(producer, writer.rescue, partitioner=partitioner_of(task, writer), interval=_LOOK_S)

    async def deliver(topic: str, key: bytes | None, value: bytes) -> tuple[int | None, int | None]:
        delivered = await producer.send_and_wait(topic, value, key=key)
        return delivered.partition, delivered.offset

    return deliver, producer.stop


SENDERS: Final[dict[str, Callable[[Task, Writer, Outcomes], Sender]]] = {
    "confluent": ConfluentSender,
    "kafka-python": KafkaPythonSender,
    "confluent-aio": AsyncSender,
    "aiokafka": AsyncSender,
}


def keys_of(writer: Writer) -> KeysMode:
    return "move" if writer.moves else "stay"


def partitioner_of(task: Task, writer: Writer) -> Partitioner:
    if "key_partitions" in writer.special:
        return AdaptivePartitioner(key_partitions={topic: SIZES[topic][0] for topic in writer.topics})
    if "capped" in writer.special:
        limits = dict.fromkeys(writer.topics, CAP)
        return AdaptivePartitioner(budget=BufferBudget(max_partitions=limits, instance_id=task.name))
    return AdaptivePartitioner() if writer.librdkafka else DefaultPartitioner()


def start_agent(poller: MetadataPoller, task: Task) -> None:
    """Let growth of its topics wait for consumers; the agent ends with the poller."""
    link = ControlLink({"bootstrap.servers": task.bootstrap, "log_level": 2})
    agent = ProducerAgent(poller, link, task.name)
    if not agent.start(WRITERS[task.name].finish_s):
        raise SystemExit(f"the control topics can't be read: {agent.last_error}")


def main(text: str) -> None:
    task, stop = Task.parse(text), stopped_by_sigterm()
    writer, diary = WRITERS[task.name], Diary(task.diary)
    sender = SENDERS[writer.client](task, writer, diary)
    diary.note("begin")
    began, number = time.monotonic(), 0
    while not stop.is_set():
        ahead = began + number / writer.rate - time.monotonic()
        sender.wait(max(0.0, ahead))
        if ahead < -1.0:  # it was frozen, or held up: it goes on, and does not catch up
            began -= ahead
        turn, which = divmod(number, len(writer.topics))
        topic, keyed = writer.topics[which], turn % 10 < 10 * writer.keyed
        key = f"{task.name}-{turn % KEYS}" if keyed else None
        diary.intends(number, topic, key)
        named = f"{task.name}.{task.run}/{number}".encode()
        sender.send(number, topic, key.encode() if key else None, named + b" " + _FILLING)
        number += 1
    diary.note("stop")
    sender.close()
    diary.note("end")


if __name__ == "__main__":
    main(sys.argv[1])
