"""A keyed producer that connects to nothing, and what its two handles have queued."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka.cimpl import Producer

from kafka_partition_events import UNASSIGNED, AdaptivePartitioner, MetadataPoller
from kafka_partition_events.clients.confluent import PartitioningProducer, adapter
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.flight.key_moves import KeyStats
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.kafka_python import attach, key_stats, second
from kafka_partition_events.clients.kafka_python.adapter import KafkaPythonAdapter
from kafka_partition_events.health.in_flight import MAIN, STANDBY
from kafka_partition_events.routing.table import NOTHING, Avoidance
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.unit.kafka_python_kit import FakeProducer

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "message.timeout.ms": 60_000}
LIMIT_S = 10

attaching = sys.modules[attach.__module__]  # the package has a function of that name
Make = Callable[..., Any]


class Rig:
    """A producer that connects to nothing, and what its two handles have queued.

    Broker 4 leads nothing; broker 2 leads partition 1.
    """

    def __init__(self, queued: Counter[bool], config: dict[str, Any], options: dict[str, Any]) -> None:
        self.producer = PartitioningProducer({**NOWHERE, **config}, poller=a_poller(), **options)
        self.partitioner = self.producer.partitioner
        self.outcomes: list[tuple[KafkaError | None, Message]] = []
        self._queued = queued
        self._further: Any = None

    def produce(self, *keys: str | bytes | None, partition: int = UNASSIGNED) -> None:
        for key in keys:
            self.producer.produce("t", b"v", key, partition, on_delivery=self._note)

    def produce_batch(self, *keys: str | bytes | None) -> None:
        messages: list[dict[str, Any]] = [{"value": b"v", "key": key} for key in keys]
        assert self.producer.produce_batch("t", messages, on_delivery=self._note) == len(keys)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        self.outcomes.append((error, message))

    @property
    def keys(self) -> KeyStats:
        return self.producer.stats.keys

    @property
    def keeps_order(self) -> bool:
        return self.producer._flight.keyed is not None

    @property
    def partitions(self) -> list[int | None]:
        """Where the records were sent that were reported."""
        return [message.partition() for _, message in self.outcomes]

    def home_of(self, key: bytes) -> int:
        route = self.partitioner.route("t")
        assert route is not None
        return self.partitioner.home(route, key)

    def a_key(self, home: int) -> bytes:
        """Return a key of a partition."""
        return next(key for n in range(1_000) if self.home_of(key := b"%d" % n) == home)

    def suspect(self, *replicas: int, down: frozenset[int] = frozenset()) -> None:
        """Do as the failure detector does when replicas are suspect, and have a second handle."""
        self.trust(STANDBY, replicas or (4,), down)
        if self._further is None:
            detour = self._detour
            detour.open = self._further = detour._make()

    @property
    def _detour(self) -> Any:
        return self.producer._detours.get(STANDBY)

    def trust(
        self, handle: int = MAIN, replicas: tuple[int, ...] = (), down: frozenset[int] = frozenset()
    ) -> None:
        """Have records that need no suspect take this handle; nothing connects to what is `down`."""
        deliveries = self.partitioner.deliveries
        suspects = frozenset(replicas)
        avoidance = Avoidance(replicas=suspects, leaders=suspects, down=down)
        deliveries._detector.avoidance = avoidance if replicas else NOTHING
        deliveries._detector.handle = handle
        deliveries._renew()
        deliveries._on_change()

    def report_all(self) -> None:
        """Have all that is queued reported, on both handles."""
        self.producer.purge()
        assert self.producer.flush(LIMIT_S) == 0
        self._queued.clear()

    @property
    def queued(self) -> tuple[int, int]:
        """How many records the first and the second handle were given since all were reported."""
        return self._queued[True], self._queued[False]

    def close(self) -> None:
        self.producer.purge()
        self.producer.close()
        if self._further is not None:
            self._further.close()
        self.producer.poller.close()


class KafkaPythonRig(Rig):
    """The same of kafka-python: what is held is sent when the test says so."""

    def __init__(self, _queued: Counter[bool], config: dict[str, Any], options: dict[str, Any]) -> None:
        self.partitioner = options.pop("partitioner", None) or AdaptivePartitioner()
        self.producer: Any = FakeProducer(partitioner=self.partitioner, **config)
        self.poller = attach(self.producer, poller=a_poller(), **options)
        self.adapter = kept_adapters[-1]
        self.heard: list[Any] = []
        self._further = None
        self._reported: dict[Any, int] = {}

    def produce(self, *keys: Any, partition: int | None = None) -> None:
        for key in keys:
            self.producer.send("t", b"v", key, partition=partition).add_both(self.heard.append)

    @property
    def keys(self) -> KeyStats:
        return key_stats(self.producer)

    @property
    def keeps_order(self) -> bool:
        return self.adapter.flight.keyed is not None

    @property
    def partitions(self) -> list[int | None]:
        return [metadata.partition for metadata in self.heard]

    @property
    def _detour(self) -> Any:
        return self.adapter._detour

    def report_all(self) -> None:
        while any(self.queued):
            self.report(0)
            self.report(1)

    def report(self, handle: int) -> None:
        """Have what one handle has delivered, at offsets that count up, and what waited for that sent."""
        producer = self._handles[handle] if handle < len(self._handles) else self.producer
        begin = self._reported.get(producer, 0)
        self._reported[producer] = len(producer.sent)
        for offset, sent in enumerate(producer.sent[begin:], begin):
            sent.arrive(offset)
        self.adapter.flight.served()

    @property
    def _handles(self) -> list[FakeProducer]:
        return [self.producer, *([] if self._further is None else [self._further.producer])]

    @property
    def queued(self) -> tuple[int, int]:
        counts = [len(it.sent) - self._reported.get(it, 0) for it in self._handles]
        return counts[0], sum(counts[1:])

    def close(self) -> None:
        self.producer.close()
        self.poller.close()


kept_adapters: list[KafkaPythonAdapter] = []


def a_poller() -> MetadataPoller:
    poller = MetadataPoller(ScriptedSource(observe({"t": [1, 2, 3]}, brokers=[1, 2, 3])))
    poller.poll_once()
    return poller


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many records a `PartitioningProducer` itself was given (True), and other handles (False)."""
    queued: Counter[bool] = Counter()

    def plain(handle: Producer, *arguments: Any) -> None:
        Producer.produce(handle, *arguments)
        queued[isinstance(handle, PartitioningProducer)] += 1

    def batch(handle: Producer, *arguments: Any) -> int:
        taken = int(Producer.produce_batch(handle, *arguments))
        queued[isinstance(handle, PartitioningProducer)] += taken
        return taken

    # The detector believes what tests say:
    for name in ("sent", "answered", "failed", "withdrawn", "polled", "unreachable"):
        monkeypatch.setattr(ProducerReports, name, lambda *_arguments, **_more: None)
    monkeypatch.setattr(Handle, "plain", plain)
    monkeypatch.setattr(adapter, "_produce_batch", batch)
    return queued


@pytest.fixture
def make(queued: Counter[bool]) -> Iterator[Make]:
    """Make a rig of confluent-kafka."""
    yield from making(Rig, queued)


@pytest.fixture
def make_kafka_python(queued: Counter[bool], monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a rig of kafka-python."""

    class Kept(KafkaPythonAdapter):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            kept_adapters[:] = [self]

        def _see_to(self) -> None:
            pass

    monkeypatch.setattr(attaching, "KafkaPythonAdapter", Kept)
    monkeypatch.setattr(second, "KafkaProducer", FakeProducer)
    yield from making(KafkaPythonRig, queued)


@pytest.fixture(params=["make", "make_kafka_python"], ids=["confluent-kafka", "kafka-python"])
def make_either(request: pytest.FixtureRequest) -> Make:
    """Make a rig of either client."""
    make: Make = request.getfixturevalue(request.param)
    return make


def making(kind: type[Rig], queued: Counter[bool]) -> Iterator[Make]:
    made: list[Rig] = []

    def make(config: dict[str, Any] | None = None, **options: Any) -> Rig:
        made.append(kind(queued, config or {}, options))
        return made[-1]

    yield make
    for rig in made:
        rig.close()
