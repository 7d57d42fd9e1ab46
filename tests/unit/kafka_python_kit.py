"""Producers of kafka-python that need no broker."""

from types import SimpleNamespace
from typing import Any, ClassVar

from attrs import define
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.future import Future
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import TopicPartition

from kafka_partition_events import UNASSIGNED
from kafka_partition_events.partitioners.base import Partitioner


@define(eq=False)
class Sent:
    """A record that a producer took."""

    partition: int | None
    value: Any
    key: Any
    headers: list[Any]
    timestamp_ms: int | None
    future: Any

    def arrive(self, offset: int = 100) -> None:
        self.future._produce_future.success((offset, None, None))

    def fail(self, error: Exception) -> None:
        self.future._produce_future.success((-1, -1, lambda _index: error))


class Upper:
    """A serializer that counts its calls, and adds a header."""

    def __init__(self) -> None:
        self.calls = 0

    def serialize(self, _topic: str, headers: Any, data: str | None) -> bytes | None:
        self.calls += 1
        headers.append(("by", b"serializer"))
        return None if data is None else data.upper().encode()


class Metadata:
    """A client's own metadata, which knows nothing: the partitioner has a table."""

    _topics: frozenset[str] = frozenset()
    _manager: Any = None

    def partitions_for_topic(self, _topic: str) -> None:
        return None

    def topics(self) -> frozenset[str]:
        return self._topics

    def add_listener(self, _listener: Any) -> None:
        pass


class FakeConnection:
    def __init__(self, *, made: bool = True) -> None:
        self.close_future, self.init_future = Future(), Future()
        if made:
            self.init_future.success(True)


class FakeManager:
    """A connection manager, and the producer that has it."""

    def __init__(self) -> None:
        self.connections: dict[Any, FakeConnection] = {1: FakeConnection()}
        self.closed = False
        self._sender = self._client = self._manager = self
        self.cluster, self.resting = self, set[int]()
        self.least_loaded: int | None = 1

    def brokers(self) -> list[Any]:
        return [SimpleNamespace(node_id=node) for node in (1, 2, 3)]

    def least_loaded_node(self) -> Any:
        return self.least_loaded

    def connection_delay(self, node_id: int) -> float:
        return float(node_id in self.resting)

    def get_connection(self, node_id: Any, *, made: bool = True) -> Any:
        return self.connections.setdefault(node_id, FakeConnection(made=made))


class FakeProducer:
    """Asks its partitioner as kafka-python does, and lets the test say what becomes of records."""

    DEFAULT_CONFIG: ClassVar[dict[str, Any]] = {
        "acks": -1, "batch_size": 16_384, "bootstrap_servers": "a:1", "client_id": "app",
        "delivery_timeout_ms": 120_000, "enable_idempotence": False, "kafka_client": None,
        "key_serializer": None, "linger_ms": 0,
        "max_block_ms": 60_000, "partitioner": None, "transactional_id": None, "value_serializer": None,
    }  # fmt: skip
    made: ClassVar[list["FakeProducer"]] = []
    _transaction_manager: Any = None

    def __init__(self, **config: Any) -> None:
        self.config = {**self.DEFAULT_CONFIG, **config}
        self.known = {"t"}
        self.sent: list[Sent] = []
        self._metadata, self._sender = Metadata(), FakeManager()
        self.raises: BaseException | None = None
        self.flushed = 0
        self._closed = False
        self.made.append(self)

    def send(
        self,
        topic: str,
        *,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """Send."""
        if self.raises is not None:
            raise self.raises
        headers = [] if headers is None else headers
        if not isinstance(headers, list):
            raise TypeError(headers)
        key = self._serialize(self.config["key_serializer"], topic, headers, key)
        value = self._serialize(self.config["value_serializer"], topic, headers, value)
        partitioner: Partitioner | None = self.config["partitioner"]
        if partition is None and partitioner is not None:
            chosen = partitioner.partition(topic, key, key, value, value, None)
            partition = None if chosen == UNASSIGNED else chosen
        produced = FutureProduceResult(TopicPartition(topic, partition))
        future = FutureRecordMetadata(produced, 0, 1234, None, -1, 1, -1)
        self.sent.append(Sent(partition, value, key, headers, timestamp_ms, future))
        return future

    _serialize = KafkaProducer._serialize

    def partitions_for(self, topic: str) -> set[int]:
        if topic not in self.known:
            raise KafkaTimeoutError
        return {0, 1, 2}

    def flush(self, timeout: float | None = None) -> None:
        self.flushed += 1

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        self._closed = True
        if self.raises is not None:
            raise self.raises
