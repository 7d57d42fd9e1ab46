"""What this library uses of aiokafka that is not public is there, and what else it relies on holds."""

import asyncio
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaClient, AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.producer.message_accumulator import MessageAccumulator, MessageBatch
from aiokafka.producer.sender import Sender
from aiokafka.structs import TopicPartition

from kafka_partition_events.clients import aiokafka as package
from kafka_partition_events.clients.aiokafka import private
from kafka_partition_events.clients.flight.record import Record
from tests.loop_kit import on_a_loop
from tests.unit.aiokafka_kit import a_producer

PRIVATE = {
    AIOKafkaProducer: [
        "_closed", "_message_accumulator", "_partition", "_partitioner", "_request_timeout_ms", "_sender",
        "_txn_manager",
    ],
    MessageAccumulator: [
        "_append_batch", "_batch_size", "_batch_ttl", "_batches", "_closed", "_compression_type",
        "_exception", "_linger_time", "_pending_batches", "_waiter_future", "add_message", "create_builder",
    ],
    MessageBatch: ["_drain_waiter", "append"],
    Sender: [
        "_acks", "_message_accumulator", "_request_timeout_ms", "_retry_backoff", "_txn_manager",
        "sender_task",
    ],
    AIOKafkaClient: ["_conns", "_get_conn", "_get_conn_lock_value", "_on_connection_closed", "_topics"],
    AIOKafkaConnection: ["_on_close_cb"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in PRIVATE.items() for name in names]
)
@on_a_loop
async def test_what_is_private_in_aiokafka_is_there(kind: type, name: str) -> None:
    producer = await a_producer()
    accumulator = producer._message_accumulator
    batch = accumulator._append_batch(accumulator.create_builder(), TopicPartition("t", 0))
    one: list[Any] = [
        producer,
        accumulator,
        batch,
        producer._sender,
        producer.client,
        AIOKafkaConnection("a", 1),
    ]
    (there,) = [each for each in one if isinstance(each, kind)]
    assert hasattr(there, name)
    batch.done_noack()
    accumulator._batches.clear()
    await producer.stop()


def test_what_is_private_is_named_in_one_file_alone() -> None:
    names = {name for names in PRIVATE.values() for name in names if name.startswith("_")}
    for file in Path(inspect.getfile(package)).parent.glob("*.py"):
        code = file.read_text(encoding="utf-8")
        found = {name for name in names if f".{name}" in code.replace(f"self.{name}", "")}
        assert file.name == "private.py" or not found, file.name
    for name in names - {"_closed", "_exception"}:
        assert name in (private.__doc__ or ""), name


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
