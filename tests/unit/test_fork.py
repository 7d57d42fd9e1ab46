"""What was made before a fork raises in words in the child; what is made there works."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_partition_events import (
    AdaptivePartitioner,
    DefaultPartitioner,
    MetadataPoller,
    RoundRobinPartitioner,
    StickyPartitioner,
    UniformStickyPartitioner,
)
from kafka_partition_events.errors import ForkedError
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.outbox import Deliverer, SqliteOutbox
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource, cluster_of, observe
from kafka_partition_events_listeners.kafka_sink import KafkaSink
from kafka_partition_events_listeners.sink_listener import SinkListener
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.fork_kit import FORKS, LIMIT_S, held, in_child
from tests.outbox_kit import append, entry, scratch_journal

pytestmark = FORKS

SIX = cluster_of({"t": [1, 2, 3, 1, 2, 3]})


def a_poller() -> MetadataPoller:
    return MetadataPoller(ScriptedSource(observe({"t": [1, 2, 3]})), interval=0.01, min_interval=0.01)


def raises(what: str, use: Callable[[], object]) -> None:
    with pytest.raises(ForkedError, match=f"this {what} was made before a fork, in process .* a new one"):
        use()


class TestPoller:
    def test_raises_in_a_child_and_stays_readable(self) -> None:
        poller, partitioner = a_poller(), DefaultPartitioner()
        uses: list[Callable[[], object]] = [
            poller.start,
            poller.poll_once,
            poller.refresh,
            lambda: poller.register(RecordingListener()),
            lambda: poller.join(DefaultPartitioner(), tuple),
            poller.__enter__,
        ]

        def check() -> None:
            for use in uses:
                raises("MetadataPoller", use)
            assert poller.cluster is not None
            assert poller.health.polls > 0
            assert not poller.health.running
            poller.close()
            subscription.drop()

        with poller:
            assert poller.refresh(wait=LIMIT_S)
            subscription = poller.join(partitioner, lambda: ("t",))
            with held(poller.subscriptions._lock):
                in_child(check)
            assert poller.refresh(wait=LIMIT_S)
            assert not poller.subscriptions.closed


@pytest.mark.parametrize(
    "kind",
    [
        AdaptivePartitioner,
        DefaultPartitioner,
        RoundRobinPartitioner,
        StickyPartitioner,
        UniformStickyPartitioner,
    ],
)
class TestPartitioner:
    """Its random state is a copy: all children would write to the same partition."""

    def test_that_follows_a_poller(self, kind: type[Partitioner]) -> None:
        partitioner = kind()
        partitioner.apply_snapshot(SIX)
        for _ in range(2):  # the second one takes the short cut
            partitioner.partition("t", None, None, b"v", b"v", None)

        def check() -> None:
            for cluster in (None, SIX):
                raises(kind.__name__, lambda: partitioner.partition("t", None, None, b"v", b"v", cluster))  # noqa: B023
            raises(kind.__name__, lambda: partitioner.apply_snapshot(SIX))
            mine = kind()
            mine.apply_snapshot(SIX)
            assert mine.partition("t", None, None, b"v", b"v", None) in range(6)

        with held(partitioner.routing._deriving), held(partitioner.deliveries._lock):
            in_child(check)
        assert partitioner.partition("t", None, None, b"v", b"v", None) in range(6)

    def test_that_reads_its_argument(self, kind: type[Partitioner]) -> None:
        partitioner = kind()
        partitioner.partition("t", None, None, b"v", b"v", SIX)
        in_child(
            lambda: raises(kind.__name__, lambda: partitioner.partition("t", None, None, b"v", b"v", SIX))
        )
        assert partitioner.partition("t", None, None, b"v", b"v", SIX) in range(6)


def test_a_kafka_python_producer_of_the_child_takes_no_partitioner_of_the_parents() -> None:
    attach = pytest.importorskip("kafka_partition_events.clients.kafka_python").attach
    config = {"partitioner": DefaultPartitioner(), "transactional_id": None, "acks": -1}
    producer: Any = SimpleNamespace(config=config)
    in_child(lambda: raises("DefaultPartitioner", lambda: attach(producer)))


class _Target:
    name, batch = "target", 3

    def deliver(self, entries: object, /) -> None:
        raise AssertionError

    def close(self) -> None:
        pass


class TestOutbox:
    def test_with_a_deliverer(self) -> None:
        outbox = scratch_journal()
        deliverer = Deliverer(outbox, _Target())

        def check() -> None:
            raises("SqliteOutbox", lambda: append(outbox, "1"))
            raises("Deliverer", deliverer.start)
            deliverer.close(LIMIT_S)

        with held(outbox._lock), held(deliverer._condition):
            in_child(check)
        deliverer.close()

    def test_in_a_file(self, tmp_path: Path) -> None:
        outbox = SqliteOutbox(tmp_path / "outbox.db", max_age_s=1e9)
        outbox.subscribe("a")
        uses: list[Callable[[], object]] = [
            lambda: append(outbox, "2"),
            lambda: outbox.subscribe("b"),
            lambda: outbox.read("a", 1),
            lambda: list(outbox.history()),
            lambda: outbox.stats("a"),
        ]

        def check() -> None:
            for use in uses:
                raises("SqliteOutbox", use)
            outbox.close()

        with held(outbox._lock):
            in_child(check)
        append(outbox, "2")
        outbox.close()


def test_a_sink_and_a_listener_that_have_connections() -> None:
    sink = WebhookSink("https://hooks.example.com/T0K3N")
    listener = SinkListener(KafkaSink({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}))

    def check() -> None:
        with pytest.raises(ForkedError):
            sink.deliver([entry("1")])
        raises("SinkListener", lambda: listener.on_event(Event()))

    in_child(check)
    sink.close()
