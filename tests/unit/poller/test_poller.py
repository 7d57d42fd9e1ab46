"""The poller as a whole: who is told what and when."""

import threading
from datetime import datetime
from typing import Any

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, Node
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.metadata.state import step
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import ScriptedSource, observe
from tests.poller_kit import DOWN, WAIT_S, Pollers, Table, orders
from tests.replay import apply


class TestConfiguration:
    @pytest.mark.parametrize("name", ["interval", "fetch_timeout", "min_interval"])
    @pytest.mark.parametrize("value", [0, -1.0, float("nan")])
    def test_a_time_that_is_none_is_named(self, name: str, value: float) -> None:
        with pytest.raises(ConfigurationError, match=name):
            MetadataPoller(ScriptedSource(DOWN), **{name: value})  # type: ignore[arg-type]

    def test_one_text_is_no_list_of_topics_and_nothing_no_capacity(self, make: Pollers) -> None:
        with pytest.raises(ConfigurationError, match="topics"):
            MetadataPoller(ScriptedSource(DOWN), topics="orders")
        with pytest.raises(ConfigurationError, match="capacity"):
            make(orders(1)).register(RecordingListener(), capacity=0)


class TestNews:
    def test_kip_34_is_told_once_per_accepted_change_and_only_what_changed(self, make: Pollers) -> None:
        poller = make(orders(1, 2, 3), orders(1, 2, 3), orders(1, None, 3), orders(1, None, 3, 2), DOWN)
        listener = RecordingListener()
        registration = poller.register(listener)
        for _ in range(5):
            poller.poll_once()
        assert registration.wait_synced(WAIT_S)
        told = [{tp.partition: p.leader for tp, p in changed.items()} for _, changed in listener.changes]
        assert told == [{0: 1, 1: 2, 2: 3}, {1: None}, {3: 2}]
        assert [cluster.generation for cluster, _ in listener.changes] == [1, 2, 3]
        assert apply(EMPTY, listener.events) == poller.cluster

    def test_what_is_emitted_while_an_answer_is_taken_in_comes_after_what_follows_from_it(
        self, make: Pollers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By a signal handler: its event waits until the thread that it interrupted lets go of the lock."""
        listener, poller = RecordingListener(), make(orders(1), orders(1, 2))
        poller.poll_once()
        poller.register(listener, replay=False)

        def interrupted(*args: Any) -> Any:
            poller.emit(ev.CapLifted(topic="orders", partitions=1, partitioner="sticky"))
            return step(*args)

        monkeypatch.setattr("kafka_partition_events.metadata.poller.step", interrupted)
        poller.poll_once()
        assert poller.registrations[0].wait_synced(WAIT_S)
        assert [(e.kind, e.sequence) for e in listener.events] == [("partitions_added", 5), ("cap_lifted", 6)]


class TestPartitioners:
    def test_has_its_table_when_register_returns(self, make: Pollers) -> None:
        poller = make(orders(1))
        early, late = Table(), Table()
        poller.register(early)
        poller.poll_once()
        poller.register(late)
        assert early.adopted == [None, poller.cluster]
        assert late.adopted == [poller.cluster]

    def test_a_stale_snapshot_is_taken_away_and_given_back(self, make: Pollers, clock: ManualClock) -> None:
        poller = make(orders(1), DOWN, DOWN, orders(1))
        table, listener = Table(), RecordingListener()
        poller.register(table)
        registration = poller.register(listener)
        poller.poll_once()
        for _ in range(2):
            clock.advance(200)
            poller.poll_once()
        assert poller.health.stale
        assert table.adopted[-1] is None
        assert poller.cluster is not None, "it stays readable"
        poller.poll_once()
        assert not poller.health.stale
        assert table.adopted == [None, poller.cluster, None, poller.cluster]
        assert registration.wait_synced(WAIT_S)
        assert listener.kinds()[-3:] == ["metadata_unavailable", "metadata_stale", "metadata_recovered"]

    def test_one_whose_adoption_fails_disturbs_nobody(self, make: Pollers) -> None:
        poller = make(orders(1), orders(2))
        broken, healthy, listener = Table(error=ZeroDivisionError()), Table(), RecordingListener()
        registration = poller.register(broken)
        poller.register(healthy)
        heard = poller.register(listener)
        poller.poll_once()
        poller.poll_once()
        assert heard.wait_synced(WAIT_S)
        assert healthy.adopted == [None, *[c for c, _ in listener.changes]]
        assert poller.health.internal_errors == 3
        registration.close()


class TestTopicsThatAreTrackedLater:
    def test_are_created_if_they_had_been_asked_for_in_vain(self, make: Pollers) -> None:
        missing = observe({}, brokers=[1], errors={"orders": "UNKNOWN_TOPIC_OR_PARTITION"})
        poller = make(missing, observe({"orders": [1]}), topics=["orders"])
        poller.poll_once()
        (added,) = poller.poll_once()
        assert (added.kind, added.initial) == ("topic_added", False)
        assert added.previous_at is not None


# -- `on_settled`: which snapshot stands, and since when it is known to ------------------------------------


class Settled(PartitionChangeListener):
    """Keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Cluster, datetime | None]] = []

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        self.calls.append((cluster, polled_at))


class Slow(ScriptedSource):
    """Takes half a second for each answer."""

    clock: ManualClock

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        self.clock.advance(0.5)
        return super().fetch(topics, timeout=timeout)


def test_good_answers_alone_confirm_a_snapshot_from_the_moment_at_which_they_were_asked_for(
    make: Pollers, clock: ManualClock
) -> None:
    source = Slow(orders(1), orders(1), orders(2), DOWN, observe(brokers=[]))
    source.clock = clock
    poller, listener = make(source), Settled()
    registration = poller.register(listener)
    expected: list[tuple[Cluster, datetime | None]] = []
    for good in (True, True, True, False, False):
        began = clock.now()
        poller.poll_once()
        assert poller.cluster is not None
        expected.append((poller.cluster, began if good else expected[-1][1]))
        clock.advance(10)
    poller.emit(ev.CapLifted(topic="orders", partitions=1, partitioner="sticky"))
    assert registration.wait_synced(WAIT_S)
    assert listener.calls == [*expected, expected[-1]]
    assert [cluster.generation for cluster, _ in expected] == [1, 1, 2, 2, 2]


def test_answers_without_news_start_no_worker_for_other_listeners(make: Pollers) -> None:
    poller = make(orders(1))
    poller.poll_once()
    poller.register(RecordingListener(), replay=False)
    poller.poll_once()
    assert not [t for t in threading.enumerate() if t.name.startswith("kpe-")]


def test_an_answer_that_tells_no_racks_takes_none_away(make: Pollers) -> None:
    """A source that falls back to a poorer answer must not make racks come and go."""
    rich, poor, moved = (observe({"t": [1]}, brokers=[Node(1, "one", 9092, r)]) for r in ("r1", None, "r2"))
    poller = make(rich, poor, rich, moved)
    poller.poll_once()
    assert poller.poll_once() == ()
    assert poller.poll_once() == ()
    (changed,) = poller.poll_once()
    assert changed.kind == "broker_changed"
