"""A poller that always publishes, beside a thread that signals and the garbage collector interrupt."""

import gc
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_partition_events import DefaultPartitioner, MetadataPoller
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import observe
from tests.waiting_kit import waiting

SECONDS = 3.0
LIMIT_S = 60.0
PARTITIONS = 200
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


class Moving(ScriptedSource):
    """One partition's leader is another one in each answer."""

    answers = tuple(
        observe({"t": [*[1] * (PARTITIONS - 1), moved]}, brokers=[1, 2, 3]) for moved in (1, 2, 3)
    )

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        self.then(self.answers[len(self.asked) % 3])
        return super().fetch(topics, timeout=timeout)


@pytest.fixture
def poller() -> Iterator[MetadataPoller]:
    """One that finds a change in each answer, and asks for the next one at once."""
    poller = MetadataPoller(Moving(), ("t",), interval=0.001, min_interval=0.001)
    with poller:
        assert poller.refresh(wait=LIMIT_S)
        yield poller


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this platform")
def test_signal_handlers_write_topics_emit_and_ask(poller: MetadataPoller) -> None:
    partitioner, heard = DefaultPartitioner(), RecordingListener()
    written = ["t"]
    producer = poller.join(partitioner, lambda: tuple(written))
    deliveries = partitioner.deliveries
    poller.register(heard, replay=False, capacity=10_000_000)
    signals = 0

    def handler(*_: object) -> None:
        nonlocal signals
        signals += 1
        producer.ask_for(f"new-{signals}")
        poller.emit(ev.CapLifted(topic="t", partitions=signals, partitioner="mine"))
        poller.refresh()
        record()

    def record() -> None:
        partition = partitioner.partition("t", None, None, b"v", b"v", None)
        deliveries.sent("t", partition, 1)
        deliveries.answered("t", partition, 0.001)

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            record()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert signals > 50
    heard.wait_for(lambda events: sum(isinstance(e, ev.CapLifted) for e in events) == signals, LIMIT_S)
    numbers = [event.sequence for event in heard.events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "no gap, no double"


def test_the_garbage_collector_drops_producers_anywhere(
    poller: MetadataPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartitioningProducer, "plain", lambda *_: None)
    mine = PartitioningProducer(NOWHERE, DefaultPartitioner(), poller)
    thresholds, dropped = gc.get_threshold(), 0
    gc.collect()
    gc.freeze()  # what pytest has is not to be walked each time
    gc.set_threshold(1)
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            other: Any = PartitioningProducer(NOWHERE, DefaultPartitioner(), poller)
            other.itself = other
            dropped += 1
            del other  # the collector finds it, in the midst of what follows
            for n in range(20):
                mine.produce(f"t{n}", b"x")
                mine.produce("t", b"x", key=b"k")
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    gc.collect()
    assert dropped > 1
    waiting(LIMIT_S, 0.001)(
        lambda: [one.listener for one in poller.registrations] == [mine.partitioner],
        "it is read that the others were dropped",
    )
    mine.close()
