"""What comes after the events of a batch, and after a look that found none."""

from datetime import UTC, datetime

import pytest

from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.registration import Batch, Registration
from kafka_partition_events.testing.scripted import cluster_of
from tests.unit.dispatch.mail import WAIT_S, Blocking, Open, news, sequences


class Settling(Blocking):
    """Also keeps what it was told to be settled, among the events; blocks in its first event."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        self.heard.append(event.sequence)

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        self.heard.append((cluster.generation, polled_at))


def at(second: int) -> datetime:
    return datetime(2026, 11, 20, 10, 0, second, tzinfo=UTC)


def settled(generation: int, second: int, *sequences: int) -> Batch:
    """A batch that leads to this generation, found by the look that began in this second."""
    return Batch(cluster_of(generation=generation), news(*sequences).events, polled_at=at(second))


def held_up(open_mailbox: Open, *batches: Batch) -> tuple[Settling, Registration]:
    """Let batches wait, in a mailbox for one event, for a listener that blocks in its first one."""
    listener = Settling()
    mailbox = open_mailbox(listener, capacity=1)
    mailbox.put(settled(1, 10, 1))
    assert listener.entered.wait(WAIT_S)
    for batch in batches:
        mailbox.put(batch)
    listener.let_go.set()
    assert mailbox.wait_synced(WAIT_S)
    return listener, mailbox


class TestSettled:
    """`on_settled`: everything up to this snapshot has been told."""

    def test_comes_after_the_last_event_of_each_batch(self, open_mailbox: Open) -> None:
        listener = Settling()
        listener.let_go.set()
        mailbox = open_mailbox(listener)
        mailbox.put(settled(1, 10, 1, 2))
        mailbox.put(settled(2, 20, 3))
        assert mailbox.wait_synced(WAIT_S)
        assert listener.heard == [1, 2, (1, at(10)), 3, (2, at(20))]
        assert mailbox.stats.delivered == 3, "it is no event"

    def test_looks_without_news_that_wait_become_one(self, open_mailbox: Open) -> None:
        looks = [settled(1, second) for second in range(11, 30)]
        listener, _ = held_up(open_mailbox, *looks, settled(2, 30, 2), settled(2, 31))
        assert listener.heard == [1, (1, at(10)), (1, at(29)), 2, (2, at(30)), (2, at(31))]

    def test_a_look_without_news_drops_nobodys_backlog(self, open_mailbox: Open) -> None:
        """More than the capacity, but nothing waits before it."""
        listener, mailbox = held_up(open_mailbox, settled(2, 20, 2, 3, 4), settled(2, 30))
        assert sequences(listener) == [1, 2, 3, 4]
        assert mailbox.stats.dropped == 0

    def test_comes_after_a_resync_with_the_snapshot_that_it_brought(self, open_mailbox: Open) -> None:
        listener, _ = held_up(open_mailbox, settled(2, 20, 2), settled(3, 30, 3))
        assert isinstance(listener.events[-1], Resync)
        assert listener.heard[-1] == (3, at(30))
        assert (2, at(20)) not in listener.heard

    @pytest.mark.parametrize("events", [(1, 2), (1,)], ids=["before the last event", "during it"])
    def test_is_not_told_after_a_close_that_cuts_the_batch_short(
        self, open_mailbox: Open, events: tuple[int, ...]
    ) -> None:
        listener = Settling()
        mailbox = open_mailbox(listener)
        mailbox.put(settled(1, 10, *events))
        assert listener.entered.wait(WAIT_S)
        mailbox.close()
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert listener.heard == [1]
