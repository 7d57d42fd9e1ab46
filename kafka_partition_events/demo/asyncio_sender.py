"""The producers for asyncio, each on a loop of its own: a record is a task that awaits its delivery."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException

from kafka_partition_events.clients.aiokafka import PartitioningAIOKafkaProducer
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer
from kafka_partition_events.demo.plan import DELIVERY_LIMIT_MS, LINGER_MS, Part
from kafka_partition_events.demo.senders import Notes, confluent_config, report_judgements

_CONNECT_LIMIT_S = 30.0


class AsyncioSender:
    """One of them; the load's schedule waits for no delivery."""

    def __init__(self, bootstrap_servers: str, part: Part, notes: Notes) -> None:
        """Connect."""
        self._topic = part.topic
        self._notes = notes
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="kpe-demo-loop", daemon=True).start()
        self._deliver = self._on_loop(_connected(bootstrap_servers, part, notes), _CONNECT_LIMIT_S)

    def _on_loop(self, work: Coroutine[Any, Any, Any], limit_s: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit_s)

    def send(self, number: int, value: bytes, key: bytes | None) -> None:
        """Send one record."""
        self._loop.call_soon_threadsafe(self._begin, number, value, key)

    def _begin(self, number: int, value: bytes, key: bytes | None) -> None:
        task = self._loop.create_task(self._send(number, value, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, number: int, value: bytes, key: bytes | None) -> None:
        try:
            await self._deliver(self._topic, value, key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record is not delivered
            cause = error.args[0].name() if isinstance(error, KafkaException) else type(error).__name__
            self._notes.report(number, cause)
        else:
            self._notes.report(number, None)

    def wait(self, seconds: float) -> None:
        """Sleep: the loop has a thread of its own."""
        time.sleep(seconds)

    def finish(self, seconds: float) -> None:
        """Wait until every record has been reported on."""

        async def wait() -> None:
            if tasks := tuple(self._tasks):
                await asyncio.wait(tasks, timeout=seconds)

        self._on_loop(wait(), seconds + 1.0)


async def _connected(bootstrap_servers: str, part: Part, notes: Notes) -> Callable[..., Awaitable[Any]]:
    """Return what sends a record, and returns when it is delivered."""
    options: dict[str, Any] = dict(part.options)
    if part.kind == "asyncio":
        front = AsyncPartitioningProducer(confluent_config(bootstrap_servers), **options)
        await front.list_topics(part.topic, timeout=_CONNECT_LIMIT_S)
        report_judgements(front.poller, notes)
        return front.send
    producer = (PartitioningAIOKafkaProducer if part.ours else AIOKafkaProducer)(
        bootstrap_servers=bootstrap_servers,
        acks="all",
        linger_ms=LINGER_MS,
        request_timeout_ms=DELIVERY_LIMIT_MS,  # which is how long a record may wait, too
        **options,
    )
    await producer.start()
    if part.ours:
        report_judgements(producer.poller, notes)
    await producer.partitions_for(part.topic)
    send: Callable[..., Awaitable[Any]] = producer.send_and_wait
    return send
