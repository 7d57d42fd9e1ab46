"""What this library uses of clients that is not public is there, and is named in one list."""

import asyncio
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aiokafka import AIOKafkaClient, AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.producer.message_accumulator import MessageAccumulator, MessageBatch
from aiokafka.producer.sender import Sender as AiokafkaSender
from kafka import KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager

from kafka_partition_events.clients.aiokafka import private as of_aiokafka
from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.clients.kafka_python import private as of_kafka_python
from tests.loop_kit import on_a_loop
from tests.unit.aiokafka_kit import a_producer

Names = dict[type, list[str]]

AIOKAFKA: Names = {
    AIOKafkaProducer: [
        "_closed", "_message_accumulator", "_partition", "_partitioner", "_request_timeout_ms", "_sender",
        "_txn_manager",
    ],
    MessageAccumulator: [
        "_append_batch", "_batch_size", "_batch_ttl", "_batches", "_closed", "_compression_type",
        "_exception", "_linger_time", "_pending_batches", "_waiter_future", "add_message", "create_builder",
    ],
    MessageBatch: ["_drain_waiter", "append"],
    AiokafkaSender: [
        "_acks", "_message_accumulator", "_request_timeout_ms", "_retry_backoff", "_txn_manager",
        "sender_task",
    ],
    AIOKafkaClient: ["_conns", "_get_conn", "_get_conn_lock_value", "_topics"],
    AIOKafkaConnection: ["_on_close_cb"],
}  # fmt: skip
KAFKA_PYTHON: Names = {
    KafkaProducer: [
        "_accumulator", "_closed", "_metadata", "_sender", "_serialize", "_transaction_manager",
    ],
    FutureRecordMetadata: ["_produce_future", "args"],
    FutureProduceResult: ["topic_partition"],
    ClusterMetadata: ["_manager", "_topics"],
    KafkaNetClient: ["_manager", "_net"],
    KafkaConnectionManager: [
        "call_soon", "closed", "cluster", "connection_delay", "get_connection", "least_loaded_node",
        "wait_for",
    ],
    KafkaConnection: [
        "broker_version_data", "close_future", "connected", "init_future", "parser", "sasl_enabled",
        "send_request",
    ],
    Sender: [
        "_client", "_create_produce_requests", "_in_flight_batches", "_maybe_remove_from_inflight_batches",
    ],
    RecordAccumulator: ["_batches", "_tp_lock", "muted"],
    TransactionManager: ["_current_state", "_enqueue_request", "_lock", "reset_producer_id"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for those in (AIOKAFKA, KAFKA_PYTHON) for kind, names in those.items() for name in names],
)
def test_what_is_private_is_there(kind: type, name: str) -> None:
    code = "".join(inspect.getsource(each) for each in kind.__mro__[:-1])
    assert any(f"{word}{name}" in code for word in ("self.", "def "))


@pytest.mark.parametrize(("those", "listed"), [(AIOKAFKA, of_aiokafka), (KAFKA_PYTHON, of_kafka_python)])
def test_what_is_private_is_used_and_named_in_the_list(those: Names, listed: ModuleType) -> None:
    names = {name for names in those.values() for name in names if name.startswith("_")}
    used = set()
    for file in Path(inspect.getfile(listed)).parent.glob("*.py"):
        code = file.read_text(encoding="utf-8")
        for own in (*names, "_client", "_producer") if listed is of_aiokafka else ("_client", "_producer"):
            code = code.replace(f"self.{own}", "")
        found = {name for name in names if f".{name}" in code}
        assert listed is of_kafka_python or not found or file.name == "private.py", file.name
        used |= found
    assert used == names
    for name in names:
        assert name in (listed.__doc__ or ""), name


@on_a_loop
async def test_send_chooses_and_appends_with_nothing_in_between() -> None:
    producer = await a_producer()
    steps: list[str] = []

    async def add(record: Record, limit_s: float) -> Any:
        steps.append(f"{record.topic} {record.key!r} {record.value!r} {record.headers} {limit_s:g}")
        return asyncio.get_running_loop().create_future()

    of_aiokafka.take_records(producer, lambda topic: steps.append(f"began {topic}"), add)
    other = asyncio.ensure_future(asyncio.sleep(0))
    await producer.send("t", bytearray(b"v"), b"k", headers=[("h", b"1")])
    assert steps == ["began t", "t b'k' b'v' [('h', b'1')] 40"]
    assert not other.done()
    await producer.send("t", b"v", partition=1)
    assert of_aiokafka.has_open_batch(producer._message_accumulator, "t", 1)
    producer._message_accumulator.fail_all(TimeoutError())
    await producer.stop()
    await other


def test_the_protocol_knows_flexible_versions_and_connections_have_groups() -> None:
    types = importlib.import_module("aiokafka.protocol.types")
    assert {"CompactArray", "CompactString", "TaggedFields"} <= set(vars(types))
    assert {"group"} <= set(inspect.signature(AIOKafkaClient.send).parameters)
    assert {"CONNECTION_BROKEN", "SHUTDOWN"} <= set(CloseReason.__members__)
