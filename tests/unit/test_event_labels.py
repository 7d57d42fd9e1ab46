"""Labels of events, by what ``kpe.changes`` tells: in time, or none at all."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from attrs import define, evolve, field
from structlog.testing import capture_logs

from kafka_partition_events import ControlTopicError
from kafka_partition_events.control.protocol.codec import key_of
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.observe.labels import READ_LIMIT_S, RETRY_S, EventLabels
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests import control_kit
from tests.control_kit import CLUSTER, ONE, TOPIC, TOPIC_ID, Story, growth
from tests.every_event import EVERY_EVENT

LIMIT_S = 20.0
PLANNED = {"planned": True, "change_id": ONE}
UNPLANNED = {"planned": False}


@define(eq=False)
class Link(control_kit.Link):
    """The control topics in memory; ``trouble`` is raised, ``held`` keeps a reading from ending."""

    trouble: Exception | None = None
    held: threading.Event = field(factory=threading.Event)
    begun: threading.Event = field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.held.set()

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        assert 0 < timeout <= READ_LIMIT_S
        self.begun.set()
        assert self.held.wait(LIMIT_S)
        if self.trouble is not None:
            self.reads += 1
            raise self.trouble
        return super().read_changes(timeout)


def sight(count: int) -> Cluster:
    return cluster_of({TOPIC: {"id": TOPIC_ID, "partitions": [1] * count}}, cluster_id=CLUSTER)


class World:
    """Labels, and what they are made of."""

    def __init__(self, link: Link) -> None:
        self.clock, self.link = ManualClock(), link
        self.labels = EventLabels(link, clock=self.clock)

    def grown(self, count: int = 12) -> ev.Event:
        """A growth that is seen now."""
        self.clock.advance(1)
        old, new = map(sight, (6, count))
        (event,) = diff(old, new, observed_at=self.clock.monotonic(), wall_time=self.clock.now())
        return event

    def in_another_thread(self, event: ev.Event) -> tuple[threading.Thread, list[Mapping[str, Any]]]:
        told: list[Mapping[str, Any]] = []
        thread = threading.Thread(target=lambda: told.append(self.labels.of(event)))
        thread.start()
        return thread, told


@pytest.fixture
def world() -> Iterator[World]:
    world = World(Link())
    yield world
    world.link.held.set()
    world.labels.close()
    assert (world.link.closed, world.link.at_ms) == (True, 1_000), "an observer writes nothing"


def a_request(**fields: Any) -> Change:
    story = Story(now_ms=int(ManualClock().now().timestamp()) * 1_000)
    story.request(growth(**fields))
    return story.change


def test_a_growth_is_labelled_by_a_reading_that_began_when_it_was_seen(world: World) -> None:
    assert world.labels.of(world.grown()) == UNPLANNED
    event = world.grown()
    world.link.write(a_request())
    assert world.labels.of(event) == PLANNED
    assert world.link.reads == 2


def test_the_events_of_one_look_take_one_reading(world: World) -> None:
    world.link.write(a_request())
    event = world.grown()
    assert [world.labels.of(event) for _ in range(3)] == [PLANNED] * 3
    assert world.link.reads == 1


def test_what_can_not_be_planned_is_not_read_for(world: World) -> None:
    others = [event for event in EVERY_EVENT if not isinstance(event, ev.PartitionsAdded)]
    assert [world.labels.of(event) for event in others] == [{}] * len(others)
    assert (world.link.reads, world.labels.counts) == (0, {})


@pytest.mark.parametrize("trouble", [ControlTopicError("nobody answers"), KeyError("a bug")])
def test_out_of_reach_events_have_no_label_and_only_the_first_waits(trouble: Exception, world: World) -> None:
    world.link.write(a_request())
    with capture_logs() as logs:
        world.link.trouble = trouble
        event = world.grown()
        thread, told = world.in_another_thread(event)
        world.clock.wait_for_waiters(1)
        world.clock.advance(READ_LIMIT_S)
        thread.join(LIMIT_S)
        assert told == [{}]
        assert [world.labels.of(event) for _ in range(3)] == [{}] * 3  # by this thread: the clock stands
        assert world.link.reads == 1
        world.link.trouble = None
        world.clock.advance(RETRY_S)
        assert world.labels.of(event) == PLANNED
    assert [log["event"] for log in logs] == ["control_topics_unreachable", "control_topics_reachable"]
    assert world.labels.counts == {("partitions.added", "unknown"): 4, ("partitions.added", "true"): 1}


def test_what_was_retired_or_is_not_understood_explains_nothing(world: World) -> None:
    change, not_understood = a_request(), [(b"x", b"{"), (b"y", b'{"format": "kpe.change"}')]
    world.link.write(change)
    world.link.appended += [(key_of(change).encode(), None), *not_understood]
    assert world.labels.of(world.grown()) == UNPLANNED


def test_closing_lets_a_reading_end(world: World) -> None:
    world.link.held.clear()
    thread, told = world.in_another_thread(world.grown())
    assert world.link.begun.wait(LIMIT_S)
    closing = threading.Thread(target=world.labels.close)
    closing.start()
    assert not world.link.closed
    world.link.held.set()
    for each in (thread, closing):
        each.join(LIMIT_S)
    assert told == [UNPLANNED]
    assert world.link.closed
    assert world.labels.of(world.grown()) == {}


def test_an_event_of_an_unknown_cluster_has_no_label(world: World) -> None:
    assert world.labels.of(evolve(world.grown(), cluster_id=None)) == {}
