"""What this library relies on inside of aiokafka holds."""

import asyncio
import importlib
import inspect
from typing import Any

from aiokafka import AIOKafkaClient
from aiokafka.conn import CloseReason

from kafka_partition_events.clients.aiokafka import private
from kafka_partition_events.clients.flight.record import Record
from tests.loop_kit import on_a_loop
from tests.unit.aiokafka_kit import a_producer


@on_a_loop
async def test_send_chooses_and_appends_with_nothing_in_between() -> None:
    producer = await a_producer()
    steps: list[str] = []

    async def add(record: Record, limit_s: float) -> Any:
        steps.append(f"{record.topic} {record.key!r} {record.value!r} {record.headers} {limit_s:g}")
        return asyncio.get_running_loop().create_future()

    private.take_records(producer, lambda topic: steps.append(f"began {topic}"), add)
    other = asyncio.ensure_future(asyncio.sleep(0))
    await producer.send("t", bytearray(b"v"), b"k", headers=[("h", b"1")])
    assert steps == ["began t", "t b'k' b'v' [('h', b'1')] 40"]
    assert not other.done()
    await producer.send("t", b"v", partition=1)
    assert private.has_open_batch(producer._message_accumulator, "t", 1)
    producer._message_accumulator.fail_all(TimeoutError())
    await producer.stop()
    await other


def test_the_protocol_knows_flexible_versions_and_connections_have_groups() -> None:
    types = importlib.import_module("aiokafka.protocol.types")
    assert {"CompactArray", "CompactString", "TaggedFields"} <= set(vars(types))
    assert {"group"} <= set(inspect.signature(AIOKafkaClient.send).parameters)
    assert {"CONNECTION_BROKEN", "SHUTDOWN"} <= set(CloseReason.__members__)
