"""How often brokers are judged; a batch is placed before any of it is sent. No broker."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_partition_events import DefaultPartitioner, MetadataPoller, Partitioner, Route
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.confluent import producer as producer_module
from kafka_partition_events.health.in_flight import STANDBY
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "message.timeout.ms": 60_000}

Make = Callable[..., PartitioningProducer]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make producers that connect to nothing, of a topic ``t`` that these brokers lead."""
    producers: list[PartitioningProducer] = []

    def make(
        config: dict[str, Any] | None = None,
        partitioner: Partitioner | None = None,
        leaders: tuple[int | None, ...] = (1, 2, 3),
        **options: Any,
    ) -> PartitioningProducer:
        poller = MetadataPoller(ScriptedSource(observe({"t": leaders}, brokers=[1, 2, 3])))
        poller.poll_once()
        producer = PartitioningProducer({**NOWHERE, **(config or {})}, partitioner, poller, **options)
        producers.append(producer)
        return producer

    yield make
    for producer in producers:
        producer.purge()
        producer.close()
        producer.poller.close()


class Outcomes:
    """Counts delivery reports."""

    count = 0

    def __call__(self, _error: object, _message: object) -> None:
        self.count += 1

    def of_queued(self, producer: PartitioningProducer) -> int:
        """Purge what is queued, and return how many records that were."""
        producer.purge()
        producer.poll(0)
        return self.count


def want_the_second_handle(producer: PartitioningProducer) -> None:
    """Do as the failure detector does when a replica is suspect."""
    producer.partitioner.deliveries._detector.handle = STANDBY


def wait_until_it_was_tried(producer: PartitioningProducer) -> None:
    detour = producer._detours.get(STANDBY)
    assert detour is not None
    with detour._changed:
        assert detour._changed.wait_for(lambda: not detour._making, 10)


def test_a_second_handle_has_brokers_judged_no_more_often(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = make()
    want_the_second_handle(producer)
    producer.produce("t", b"v")
    wait_until_it_was_tried(producer)
    assert producer._detours.open
    now, judged_at = [0.0], list[float]()

    def nothing_comes(_handle: object, timeout: float) -> int:
        now[0] += timeout
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(producer_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
        patched.setattr(producer_module, "_poll", nothing_comes)
        patched.setattr(producer._flight, "served", lambda: judged_at.append(now[0]))
        producer.poll(0.2)
    assert 0.005 <= min(later - earlier for earlier, later in pairwise(judged_at)) <= 0.01
    assert len(judged_at) > 20


# -- batches -----------------------------------------------------------------------------------------


class Reloading(DefaultPartitioner):
    """An application's partitioner that raises at every fourth record."""

    asked = 0

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        self.asked += 1
        if self.asked % 4 == 0:
            raise LookupError("my table is being reloaded")
        return super().choose(route, topic, key, value)


@pytest.mark.parametrize("rescue", [None, "failed"])
@pytest.mark.parametrize("key", [None, b"k"])
def test_a_batch_that_raises_has_queued_nothing(make: Make, key: bytes | None, rescue: Any) -> None:
    producer = make(partitioner=Reloading(), leaders=(None, None, 3), rescue=rescue)
    keys = [None if key is None else b"%s-%d" % (key, number) for number in range(20)]
    outcomes = Outcomes()
    with pytest.raises(LookupError):
        producer.produce_batch("t", [{"value": b"v", "key": key} for key in keys], on_delivery=outcomes)
    assert outcomes.of_queued(producer) == 0


@pytest.mark.parametrize("rescue", [None, "failed"])
def test_a_batch_that_finds_the_queues_full_is_marked_as_a_plain_producer_marks_it(
    make: Make, rescue: Any
) -> None:
    producer = make({"queue.buffering.max.messages": 10}, rescue=rescue)
    messages = [{"value": b"v", "key": b"k%d" % number} for number in range(8)]
    messages += [{"value": b"v"} for _ in range(8)]
    outcomes = Outcomes()
    taken = producer.produce_batch("t", messages, on_delivery=outcomes)
    marked = [message for message in messages if "_error" in message]
    assert (taken, len(marked), outcomes.of_queued(producer)) == (10, 6, 10)
