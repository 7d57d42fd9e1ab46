"""How long things take, as histograms: there at 0 from the first scrape, and timed by the injected clock."""

import pytest

from kafka_partition_events import Cluster, Event, Observation, PartitionChangeListener
from kafka_partition_events.metadata.registration import FAILURES_BEFORE_PAUSE, PAUSE_S
from kafka_partition_events.testing import ManualClock, ScriptedSource
from tests.poller_kit import DOWN, WAIT_S, Table, orders
from tests.scrape_kit import Watch, Watched

POLLS, COMPARISONS = "kpe_poll_duration_seconds", "kpe_diff_duration_seconds"
LISTENERS = "kpe_listener_duration_seconds"
NOTHING_YET: tuple[dict[str, float], float] = ({}, 0)


class SlowSource(ScriptedSource):
    """Takes its time for an answer."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock, self.seconds = clock, 0.0

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        self.clock.advance(self.seconds)
        return super().fetch(topics, started_at=started_at, timeout=timeout)


class SlowTable(Table):
    """A partitioner that takes its time for a snapshot."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock

    def apply_snapshot(self, cluster: Cluster | None) -> tuple[Event, ...]:
        self.clock.advance(0.2)
        return super().apply_snapshot(cluster)


class SlowListener(PartitionChangeListener):
    """Takes its time for each event."""

    name = "slow"

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def on_event(self, event: Event) -> None:
        self.clock.advance(0.02)


class FailingListener(SlowListener):
    """Then it raises."""

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        raise ZeroDivisionError


def test_all_are_there_at_0_before_anything_has_happened(clock: ManualClock) -> None:
    watched = Watched(clock, orders(1), kafka_cluster="test")
    scrape = watched.scrape()
    assert scrape.histogram(POLLS) == scrape.histogram(COMPARISONS) == NOTHING_YET
    assert scrape.histogram(LISTENERS, listener="PrometheusListener") == NOTHING_YET
    watched.poller.close()


def test_a_poll_takes_until_there_is_an_answer_or_none(clock: ManualClock) -> None:
    source = SlowSource(clock)
    watched = Watched(clock, source=source, kafka_cluster="test")
    for source.seconds, step in ((0.02, orders(1)), (0.025, orders(1)), (4.0, DOWN), (60.0, DOWN)):
        watched.poll(step)
    buckets, total = watched.scrape().histogram(POLLS)
    assert buckets == {"0.03": 2, "10.0": 1, "+Inf": 1}
    assert total == pytest.approx(64.045)
    watched.poller.close()


def test_a_comparison_takes_until_partitioners_have_their_tables(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(1))
    watched.poller.register(SlowTable(clock))
    watched.poll(orders(2))
    scrape = watched.scrape()
    buckets, total = scrape.histogram(COMPARISONS)
    assert buckets == {"0.003": 1, "0.3": 1}
    assert total == pytest.approx(0.2)
    assert scrape.histogram(POLLS) == ({"0.003": 2}, 0)


def test_where_there_is_no_answer_nothing_is_compared(watch: Watch) -> None:
    watched = watch(orders(1))
    watched.poll(DOWN, DOWN)
    assert watched.scrape().value(f"{COMPARISONS}_count") == 1


def test_a_listener_takes_as_long_as_for_all_that_one_change_told(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(1, 1))
    registration = watched.poller.register(SlowListener(clock), replay=False)
    assert watched.scrape().histogram(LISTENERS, listener="slow") == NOTHING_YET
    for answer in (orders(None, None), DOWN):
        watched.poll(answer)
        assert registration.wait_synced(WAIT_S)
    buckets, total = watched.scrape().histogram(LISTENERS, listener="slow")
    assert buckets == {"0.1": 1, "0.03": 1}
    assert total == pytest.approx(0.06)


def test_a_pause_after_failures_is_not_the_listeners_time(watch: Watch, clock: ManualClock) -> None:
    watched = watch(orders(*[1] * FAILURES_BEFORE_PAUSE))
    registration = watched.poller.register(FailingListener(clock), replay=False)
    watched.poll(orders(*[None] * FAILURES_BEFORE_PAUSE), DOWN)
    clock.wait_for_waiters()
    clock.advance(PAUSE_S)
    clock.wait_for_waiters()
    clock.advance(PAUSE_S)
    assert registration.wait_synced(WAIT_S)
    assert registration.stats.failures == FAILURES_BEFORE_PAUSE + 1
    _, total = watched.scrape().histogram(LISTENERS, listener="slow")
    assert total == pytest.approx(0.02 * (FAILURES_BEFORE_PAUSE + 1))
