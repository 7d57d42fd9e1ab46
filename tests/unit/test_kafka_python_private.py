"""What this library uses of kafka-python that is not public is there, and is named where it is used."""

import inspect
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager

from kafka_partition_events.clients import kafka_python as package
from kafka_partition_events.clients.kafka_python import private

PRIVATE = {
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
    ("kind", "name"), [(kind, name) for kind, names in PRIVATE.items() for name in names]
)
def test_what_is_private_in_kafka_python_is_there(kind: type, name: str) -> None:
    code = "".join(inspect.getsource(each) for each in kind.__mro__[:-1])
    assert f"self.{name}" in code or f"def {name}(" in code


def test_what_is_private_is_named_at_the_top_of_the_file_that_uses_it_or_of_the_list() -> None:
    names = {name for names in PRIVATE.values() for name in names if name.startswith("_")}
    used = set()
    for file in Path(inspect.getfile(package)).parent.glob("*.py"):
        code = file.read_text(encoding="utf-8").replace("self._client", "").replace("self._producer", "")
        used |= {name for name in names if f".{name}" in code}
    assert used == names
    for name in names:
        assert name in (private.__doc__ or ""), name
