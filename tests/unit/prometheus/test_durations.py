"""How long things take, as histograms: there at 0 from the first scrape, and timed by the injected clock."""

import pytest

from kafka_partition_events import Event, Observation, PartitionChangeListener
from kafka_partition_events.testing import ManualClock, ScriptedSource
from tests.poller_kit import DOWN, WAIT_S, orders
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


class SlowListener(PartitionChangeListener):
    """Takes its time for each event."""

    name = "slow"

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock

    def on_event(self, event: Event) -> None:
        self.clock.advance(0.02)


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
