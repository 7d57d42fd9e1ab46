"""aiokafka's producer, plain or with ours attached: each record is a task that awaits its delivery."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from aiokafka import AIOKafkaProducer

from benchmarks.faults.layouts import LINGER_MS
from benchmarks.faults.senders import Sender
from benchmarks.faults.spec import LoadSpec
from benchmarks.faults.tape import Tape
from kafka_partition_events import AdaptivePartitioner
from kafka_partition_events.clients.aiokafka import attach


class AiokafkaSender(Sender):
    """A producer on a loop of its own, in a thread: the load's schedule waits for no delivery."""

    def __init__(self, spec: LoadSpec, tape: Tape, options: dict[str, Any], *, attached: bool) -> None:
        self._topic, self._tape = spec.topic, tape
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._producer = self._on_loop(_start(spec, options, attached=attached), 20.0)

    def _on_loop(self, work: Coroutine[Any, Any, Any], limit_s: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit_s)

    def send(self, value: bytes, key: bytes | None, number: int) -> None:
        self._loop.call_soon_threadsafe(self._begin, value, key, number)

    def _begin(self, value: bytes, key: bytes | None, number: int) -> None:
        task = self._loop.create_task(self._deliver(value, key, number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, value: bytes, key: bytes | None, number: int) -> None:
        try:
            arrived = await self._producer.send_and_wait(self._topic, value, key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record is not delivered
            self._tape.report(number, -1, type(error).__name__)
        else:
            self._tape.report(number, arrived.partition, None)

    def finish(self, timeout: float) -> None:
        async def wait() -> None:
            if tasks := tuple(self._tasks):
                await asyncio.wait(tasks, timeout=timeout)

        self._on_loop(wait(), timeout + 1)

    def close(self) -> None:
        """Do nothing: the process ends, and may not wait for what is stuck."""


async def _start(spec: LoadSpec, options: dict[str, Any], *, attached: bool) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(
        bootstrap_servers=spec.bootstrap,
        acks=spec.acks if spec.acks == "all" else int(spec.acks),
        linger_ms=LINGER_MS,
        request_timeout_ms=spec.delivery_limit_ms,  # which is how long a record may wait, too
    )
    await producer.start()
    if attached:
        attach(producer, partitioner=AdaptivePartitioner(), **options)
    await producer.partitions_for(spec.topic)
    return producer
