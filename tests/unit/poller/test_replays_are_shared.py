"""Listeners that register while nothing happens get the same replay; who comes later hears what is then."""

import gc
import weakref
from collections.abc import Callable

import pytest

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from tests.poller_kit import DOWN, WAIT_S, Pollers, Table, eventually, orders


def told(poller: MetadataPoller) -> RecordingListener:
    """Return a listener that has been told how things stand."""
    listener = RecordingListener()
    assert poller.register(listener).wait_synced(WAIT_S)
    return listener


def is_shared(a: RecordingListener, b: RecordingListener) -> bool:
    """Tell whether two listeners, told nothing but a replay, got the same one."""
    shared = all(x is y for x, y in zip(a.events, b.events, strict=True))
    assert shared is (a.changes[0][1] is b.changes[0][1]), "events and KIP-34's map belong together"
    return shared


@pytest.fixture
def poller(make: Pollers) -> MetadataPoller:
    poller = make(orders(1, 2), orders(1, 2), orders(1, 3), DOWN, DOWN, orders(1, 3))
    poller.poll_once()
    return poller


def test_all_that_register_between_two_looks_share_one(poller: MetadataPoller) -> None:
    first, second, third = told(poller), told(poller), told(poller)
    assert is_shared(first, second)
    assert is_shared(first, third)
    assert first.kinds() == [*["broker_added"] * 3, "topic_added"]
    assert first.replayed() == poller.cluster
    assert {event.sequence for event in first.events} == {4}
    assert all(event.initial for event in first.events)


def test_the_map_of_all_partitions_is_shared_too_and_not_made_for_who_does_not_ask(
    poller: MetadataPoller,
) -> None:
    class Plain(PartitionChangeListener):
        def on_event(self, event: ev.Event) -> None:
            pass

    assert poller.register(Plain()).wait_synced(WAIT_S)
    kept = poller.subscriptions._kept_replay
    assert kept is not None
    assert kept.changed is None
    first, second = told(poller), told(poller)
    ((cluster, changed),) = first.changes
    assert cluster is poller.cluster
    assert changed is second.changes[0][1]
    assert {tp.partition for tp in changed} == {0, 1}


def test_it_ends_with_the_next_look_also_if_that_finds_nothing(
    poller: MetadataPoller, clock: ManualClock
) -> None:
    first = told(poller)
    clock.advance(30)
    poller.poll_once()
    second = told(poller)
    assert second.replayed() == first.replayed()
    assert not is_shared(first, second)
    assert {event.wall_time for event in second.events} == {clock.now()}
    assert {event.sequence for event in second.events} == {4}


def test_who_comes_after_a_change_is_told_what_is_then(poller: MetadataPoller) -> None:
    first = told(poller)
    poller.poll_once()
    poller.poll_once()  # 0 stays, 1 moves
    second = told(poller)
    assert second.replayed() == poller.cluster
    assert second.events[-1].generation == 2
    first.wait_for(5)
    assert first.replayed() == poller.cluster


@pytest.mark.parametrize(
    "happen",
    [
        lambda poller: poller.emit(ev.CapLifted(topic="orders", partitions=2, partitioner="p")),
        lambda poller: poller.register(Table(ev.CapLifted(topic="orders", partitions=2, partitioner="p"))),
    ],
    ids=["emitted", "found out by a partitioner"],
)
def test_it_bears_the_number_of_the_last_event_before_the_registration(
    poller: MetadataPoller, happen: Callable[[MetadataPoller], object]
) -> None:
    first = told(poller)
    happen(poller)
    second = told(poller)
    first.wait_for(5)
    assert first.events[-1].sequence == 5
    assert {event.sequence for event in second.events} == {5}


def test_looks_that_fail_end_it_too(poller: MetadataPoller, clock: ManualClock) -> None:
    poller.poll_once()
    poller.poll_once()
    poller.poll_once()
    first = told(poller)
    clock.advance(1)
    poller.poll_once()  # it still fails, which is no news
    second = told(poller)
    assert {event.wall_time for event in second.events} == {clock.now()}
    assert {event.sequence for event in first.events} == {event.sequence for event in second.events}


def test_each_batch_tells_when_the_last_look_began(make: Pollers, clock: ManualClock) -> None:
    poller = make(orders(1))
    settled: list[tuple[int, object]] = []

    class Settled(PartitionChangeListener):
        def on_settled(self, cluster: Cluster, polled_at: object) -> None:
            settled.append((cluster.generation, polled_at))

    polled_at = clock.now()
    poller.poll_once()
    clock.advance(5)
    for _ in range(2):
        assert poller.register(Settled()).wait_synced(WAIT_S)
    assert settled == [(1, polled_at)] * 2


def test_it_is_gone_when_nobody_needs_it_any_more(make: Pollers) -> None:
    poller = make(orders(1, 2), orders(1, 2))
    poller.poll_once()
    refs: list[weakref.ref[ev.Event]] = []

    class Counting(PartitionChangeListener):
        def on_event(self, event: ev.Event) -> None:
            refs.append(weakref.ref(event))

    for _ in range(3):
        assert poller.register(Counting()).wait_synced(WAIT_S)
    poller.poll_once()
    assert len(refs) == 12
    gc.collect()
    # The workers wait for the next batch; none of them holds on to the last one.
    eventually(lambda: all(ref() is None for ref in refs))


def test_who_wants_no_replay_makes_none(poller: MetadataPoller) -> None:
    poller.register(RecordingListener(), replay=False)
    assert poller.subscriptions._kept_replay is None
