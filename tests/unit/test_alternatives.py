"""Events of partitions that lose their safe alternative: what is told, and when it is not."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.events import AlternativesChanged, Event
from kafka_partition_events.observe.derived import AlternativesListener
from kafka_partition_events.testing import ManualClock, RecordingListener, ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.poller_kit import Pollers
from tests.replicas_kit import around, topic, world

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
EXPOSED, SPREAD = topic(around(3, 3, 3)), topic(around(6, 6, 3))


def told(
    *clusters: Cluster, known: Cluster | None = None
) -> list[tuple[str, int, int, tuple[int, ...], bool]]:
    """Return what is told of looks that find these snapshots."""
    events: list[Event] = []
    listener = AlternativesListener(events.append, known)
    for cluster in clusters:
        listener.on_settled(cluster, NOON)
    return [
        (e.topic, e.old, e.new, e.brokers, e.initial) for e in events if isinstance(e, AlternativesChanged)
    ]


def test_what_the_first_snapshot_has_is_told_as_what_is() -> None:
    first = world(EXPOSED, topic([[1]], "alone"), topic(around(6, 6, 3), "spread"), brokers=6)
    assert told(EMPTY, first, first) == [
        ("alone", 0, 1, (1,), True),
        ("orders", 0, 3, (1, 2, 3), True),
    ]


def test_after_that_only_what_is_another_number() -> None:
    first = world(EXPOSED, brokers=6)
    without_one = world(topic(around(3, 3, 3), isr={n: [1, 2] for n in range(3)}), brokers=6)
    assert told(first, without_one, first)[1:] == []  # other brokers, the same number
    assert told(first, world(SPREAD, brokers=6), first)[1:] == [
        ("orders", 3, 0, (), False),
        ("orders", 0, 3, (1, 2, 3), False),
    ]


def test_a_topic_that_goes_is_told_elsewhere_and_one_that_comes_is_news() -> None:
    first = world(EXPOSED, brokers=6)
    assert told(first, world(brokers=6), first)[1:] == [("orders", 0, 3, (1, 2, 3), False)]


def test_who_resumes_tells_what_has_changed_since() -> None:
    first = world(EXPOSED, brokers=6)
    assert told(first, known=first) == []
    assert told(world(SPREAD, brokers=6), known=first) == [("orders", 3, 0, (), False)]


@pytest.fixture
def pollers() -> Iterator[Pollers]:
    made = Pollers(ManualClock(wall=NOON))
    yield made
    made.close()


def test_with_a_poller_it_is_told_beside_all_other_events(pollers: Pollers) -> None:
    both, one = observe({"orders": [1, 2]}, brokers=[1, 2]), observe({"orders": [1, None]}, brokers=[1])
    poller = pollers(ScriptedSource(both, one, both))
    listener = RecordingListener()
    poller.register(listener)
    poller.register(AlternativesListener(poller.emit))
    for count in range(3):
        poller.poll_once()
        listener.wait_for(lambda events: sum(isinstance(e, AlternativesChanged) for e in events) == count)  # noqa: B023
    lost, got = listener.of(AlternativesChanged)
    assert (lost.partitions, lost.old, lost.new, lost.brokers) == (2, 0, 1, (1,))
    assert (got.old, got.new, got.brokers) == (1, 0, ())
    assert got.sequence > lost.sequence > 0
    assert (lost.generation, got.generation) == (2, 3)
