"""What a producer has counted, told in regular periods."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafka_partition_events import ConfigurationError, MetadataPoller
from kafka_partition_events.clients.counters import CountersReporter
from kafka_partition_events.metadata.events import ProducerCounters, TopicCounts
from kafka_partition_events.testing import ManualClock, RecordingListener, ScriptedSource
from kafka_partition_events.testing.scripted import observe

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
UP = observe({"orders": [1, 2]}, brokers=[1, 2])


class World:
    """A reporter beside a producer of which the test says what it has counted."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=NOON + timedelta(seconds=20))
        self.poller = MetadataPoller(ScriptedSource(UP), clock=self.clock)
        self.listener = RecordingListener()
        self.poller.register(self.listener)
        self.poller.poll_once()
        self.counted: list[TopicCounts] = []
        self.error: Exception | None = None
        self.reporter = CountersReporter(
            self.poller, self.count, client="checkout-7", interval=60.0, clock=self.clock
        )

    def count(self) -> list[TopicCounts]:
        if self.error is not None:
            raise self.error
        return self.counted

    def pass_time(self, seconds: float) -> None:
        self.clock.wait_for_waiters()
        self.clock.advance(seconds)
        self.clock.wait_for_waiters()

    def told(self) -> list[tuple[float, float, tuple[TopicCounts, ...]]]:
        """Return begin and end of each period in seconds after noon, and the counts."""
        self.listener.wait_for(lambda _: True)
        return [
            ((e.begin - NOON).total_seconds(), (e.end - NOON).total_seconds(), e.topics)
            for e in self.listener.of(ProducerCounters)
        ]

    def wait_told(self, count: int) -> list[tuple[float, float, tuple[TopicCounts, ...]]]:
        self.listener.wait_for(lambda events: sum(isinstance(e, ProducerCounters) for e in events) >= count)
        return self.told()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.reporter.close()
    world.poller.close()


def orders(sent: int, **more: int) -> TopicCounts:
    return TopicCounts(topic="orders", sent=sent, **more)


def test_each_period_on_the_clock_tells_what_was_added_in_it(world: World) -> None:
    world.counted = [orders(100, capped=3), TopicCounts(topic="payments", rescued=1)]
    world.pass_time(40)
    assert world.wait_told(1) == [(20, 60, (orders(100, capped=3), TopicCounts(topic="payments", rescued=1)))]
    world.counted = [orders(150, capped=3), TopicCounts(topic="payments", rescued=1)]
    world.pass_time(60)
    assert world.wait_told(2)[1] == (60, 120, (orders(50, capped=0),))


def test_a_period_in_which_nothing_was_counted_is_not_told_and_ends_all_the_same(world: World) -> None:
    world.pass_time(40)
    world.counted = [orders(7)]
    world.pass_time(60)
    assert world.wait_told(1) == [(60, 120, (orders(7),))]


def test_what_is_not_counted_is_not_told(world: World) -> None:
    world.counted = [TopicCounts(topic="orders", rescued=2)]
    world.pass_time(40)
    ((_, _, (counts,)),) = world.wait_told(1)
    assert (counts.sent, counts.rerouted, counts.rescued) == (None, None, 2)


def test_a_number_that_was_read_too_low_is_not_told_twice(world: World) -> None:
    told = 0
    for read in (100, 90, 120):
        world.counted = [orders(read)]
        world.pass_time(60)
    for _, _, topics in world.wait_told(2):
        told += topics[0].sent or 0
    assert told == 120


def test_a_topic_that_was_given_up_counts_from_0_again(world: World) -> None:
    for number, counted in enumerate(([orders(100)], [orders(100), TopicCounts(topic="other", sent=1)])):
        world.counted = counted
        world.pass_time(60)
        world.wait_told(number + 1)
    world.counted = [TopicCounts(topic="other", sent=2)]
    world.pass_time(60)
    world.wait_told(3)
    world.counted = [orders(7), TopicCounts(topic="other", sent=2)]
    world.pass_time(60)
    assert world.wait_told(4)[-1][2] == (orders(7),)


def test_a_process_that_slept_tells_of_one_long_period(world: World) -> None:
    world.counted = [orders(5)]
    world.pass_time(40 + 600 + 15)
    assert world.wait_told(1) == [(20, 660, (orders(5),))]


def test_closing_tells_the_rest_once(world: World) -> None:
    world.pass_time(10)
    world.counted = [orders(5)]
    world.reporter.close()
    world.reporter.close()
    assert world.wait_told(1) == [(20, 30, (orders(5),))]


def test_counts_that_can_not_be_read_are_told_with_the_next_ones(world: World) -> None:
    world.error = RuntimeError("closed")
    with capture_logs() as logs:
        world.pass_time(40)
    assert [log["event"] for log in logs] == ["counters_not_read"]
    world.error, world.counted = None, [orders(5)]
    world.pass_time(60)
    assert world.wait_told(1) == [(20, 120, (orders(5),))]


def test_it_ends_with_the_producer_whose_method_it_was_given(world: World) -> None:
    class Producer:
        def topic_counts(self) -> list[TopicCounts]:
            return [orders(1)]

    producer = Producer()
    reporter = CountersReporter(world.poller, producer.topic_counts, clock=world.clock)
    world.clock.wait_for_waiters(2)
    del producer
    world.clock.advance(60)
    reporter._thread.join(10)
    assert not reporter._thread.is_alive()
    assert world.told() == []


def test_a_producer_without_a_name_has_its_hosts_and_its_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "pod-3")
    monkeypatch.setattr("os.getpid", lambda: 17)
    reporter = CountersReporter(world.poller, list, clock=world.clock)
    reporter.close()
    assert reporter.client == "pod-3-17"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"interval": 0}, "interval must be more than 0 seconds, not 0"),
        ({"interval": float("nan")}, "interval must be more than 0 seconds"),
        ({"client": ""}, "client must name the producer"),
    ],
)
def test_arguments_of_no_use_are_refused(world: World, wrong: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        CountersReporter(world.poller, list, **wrong)
