"""The journal: what was told and what it led to become durable together; what it does in trouble."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.outbox import Entry
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events_listeners import journal as journal_module
from kafka_partition_events_listeners.journal import PAUSE_S, JournalListener, load_snapshot
from tests.unit.journal.shelf import FULL, Shelf, at, between, bodies, snapshot, tell


class TestOneWrite:
    def test_takes_all_events_of_a_batch_and_the_snapshot(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, observer="a", clock=clock)
        cluster = snapshot(orders=[1, None])
        tell(journal, *between(EMPTY, cluster))
        assert shelf.writes == [], "nothing is durable before all of it is"
        journal.on_settled(cluster, at(9))
        (write,) = shelf.writes
        names = ["broker.joined", "broker.joined", "broker.joined", "topic.created", "partition.offline"]
        assert [entry.name for entry in write.entries] == names
        assert write.values.keys() == {"topic/orders", "nodes"}
        assert {body["data"]["observer"] for body in bodies(write.entries)} == {"a"}
        assert journal.stats.written == 5
        assert journal.stats.waiting == 0

    def test_labels_are_said_in_the_data_and_change_no_id(self, shelf: Shelf, clock: ManualClock) -> None:
        def labels(event: ev.Event) -> Mapping[str, bool]:
            return {"planned": True} if isinstance(event, ev.BrokerAdded) else {}

        cluster = snapshot(orders=[1])
        for journal in (
            JournalListener(shelf, clock=clock, labels=labels),
            JournalListener(shelf, clock=clock),
        ):
            tell(journal, *between(EMPTY, cluster))
            journal.on_settled(cluster, at(9))
        labelled, bare = (bodies(write.entries) for write in shelf.writes)
        assert [body["data"].pop("planned", None) for body in labelled] == [True, True, True, None]
        assert labelled == bare

    def test_takes_labels_that_are_lists(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock, labels=lambda _: {"teams": ["a", "b"]})
        tell(journal, *between(snapshot(orders=[1, 2]), snapshot(orders=[None, None])))
        journal.close()
        assert [body["data"]["teams"] for body in bodies(shelf.entries)] == [["a", "b"]]

    def test_names_the_topics_that_changed_and_no_others(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        old = snapshot(orders=[1], payments=[1], gone=[1])
        journal.on_settled(old, at(1))
        topics = {"payments": old.by_topic["payments"], **snapshot(orders=[2], new=[1]).by_topic}
        new = evolve(old, by_topic=topics, generation=2)
        tell(journal, *between(old, new))
        journal.on_settled(new, at(2))
        first, second = shelf.topics_written
        assert first == {"orders": True, "payments": True, "gone": True}
        assert second == {"orders": True, "new": True, "gone": False}

    def test_renews_the_time_of_the_snapshot_now_and_then(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        cluster = snapshot(orders=[1])
        for second in range(13):
            journal.on_settled(cluster, at(second))
            clock.advance(1)
        assert len(shelf.writes) == 3
        assert shelf.topics_written[1:] == [{}, {}]
        assert load_snapshot(shelf) == (cluster, at(10))

    def test_happens_at_the_end_too(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        cluster = snapshot(orders=[1])
        journal.on_settled(cluster, at(1))
        journal.on_settled(cluster, at(2))
        tell(journal, ev.CapLifted(topic="orders", partitions=1, partitioner="sticky"))
        journal.close()
        assert load_snapshot(shelf) == (cluster, at(2))
        assert [entry.name for entry in shelf.entries] == ["cap.lifted"]

    def test_leaves_the_stored_snapshot_alone_as_long_as_none_is_known(
        self, shelf: Shelf, clock: ManualClock
    ) -> None:
        before = JournalListener(shelf, clock=clock)
        before.on_settled(snapshot(orders=[1]), at(1))
        journal = JournalListener(shelf, clock=clock)
        tell(journal, ev.MetadataUnavailable(error="no route"))
        journal.on_settled(EMPTY, None)
        assert [entry.name for entry in shelf.entries] == ["metadata.unavailable"]
        assert load_snapshot(shelf) == (snapshot(orders=[1]), at(1))
        journal.on_settled(snapshot(payments=[1]), at(2))
        clock.advance(PAUSE_S)
        journal.on_settled(snapshot(payments=[1]), at(3))
        assert load_snapshot(shelf) == (snapshot(payments=[1]), at(3))


class TestTheStoredSnapshot:
    def test_comes_with_what_is_to_be_stored_beside_it_and_not_before(
        self, shelf: Shelf, clock: ManualClock
    ) -> None:
        journal = JournalListener(shelf, clock=clock, values={"topics polled": b"orders.*"})
        tell(journal, ev.MetadataUnavailable(error="no route"))
        journal.on_settled(EMPTY, None)
        assert [write.values for write in shelf.writes] == [{}]
        clock.advance(PAUSE_S)
        journal.on_settled(snapshot(orders=[1]), at(1))
        assert shelf.writes[-1].values.keys() == {"topics polled", "nodes", "topic/orders"}

    @pytest.mark.parametrize(
        "damaged",
        [
            {"nodes": b"[]"},
            {"nodes": b"\xff"},
            {"topic/orders": b'{"name": "orders", "topic_id": null, "partitions": [[1]]}'},
            {"nodes": json.dumps({"format": "kpe.snapshot", "version": 99}).encode()},
        ],
        ids=["no object", "no text", "half a row", "of a later version"],
    )
    def test_that_is_damaged_is_told_and_passed_over(
        self, shelf: Shelf, clock: ManualClock, damaged: dict[str, bytes]
    ) -> None:
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[1]), at(1))
        shelf.write(values=damaged)
        with capture_logs() as logs:
            assert load_snapshot(shelf) is None
        assert [entry["event"] for entry in logs] == ["stored_snapshot_unreadable"]
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[2]), at(2))
        assert load_snapshot(shelf) == (snapshot(orders=[2]), at(2)), "the next one heals it"


class TestAnOutboxInTrouble:
    @pytest.fixture
    def journal(self, shelf: Shelf, clock: ManualClock) -> JournalListener:
        """One that has told a batch in vain."""
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = FULL
        tell(journal, *between(EMPTY, snapshot(orders=[1])))
        journal.on_settled(snapshot(orders=[1]), at(1))
        return journal

    def test_loses_nothing(self, shelf: Shelf, clock: ManualClock, journal: JournalListener) -> None:
        assert (journal.stats.written, journal.stats.waiting) == (0, 4)
        assert journal.stats.last_error == str(FULL)
        assert journal.stats.holds_to is None
        shelf.trouble = None
        clock.advance(PAUSE_S)
        old, new = snapshot(orders=[1]), snapshot(2, orders=[2])
        tell(journal, *between(old, new))
        journal.on_settled(new, at(2))
        (write,) = shelf.writes
        assert [entry.name for entry in write.entries][-2:] == ["topic.created", "leadership.moved"]
        assert load_snapshot(shelf) == (new, at(2))
        stats = journal.stats
        assert stats.holds_to == at(2)
        assert (stats.written, stats.waiting, stats.lost, stats.last_error) == (5, 0, 0, None)

    def test_is_not_tried_for_every_batch(
        self, shelf: Shelf, clock: ManualClock, journal: JournalListener
    ) -> None:
        shelf.trouble = None
        clock.advance(PAUSE_S - 0.1)
        tell(journal, ev.MetadataUnavailable(error="no route"))
        journal.on_settled(snapshot(orders=[1]), at(9))
        assert shelf.writes == []
        clock.advance(0.1)
        journal.on_settled(snapshot(orders=[1]), at(9))
        assert len(shelf.entries) == 5

    def test_is_logged_once_and_once_when_it_is_over(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = FULL
        with capture_logs() as logs:
            for second in range(10):
                tell(journal, ev.MetadataUnavailable(error="no route", sequence=second))
                journal.on_settled(snapshot(orders=[1]), at(second))
                clock.advance(PAUSE_S)
            shelf.trouble = None
            for second in range(10):
                journal.on_settled(snapshot(orders=[1]), at(second))
                clock.advance(PAUSE_S)
        assert [(entry["event"], entry["log_level"]) for entry in logs] == [
            ("journal_not_written", "error"),
            ("journal_written_again", "warning"),
        ]
        assert logs[0]["error"] == str(FULL)

    def test_makes_the_oldest_go(
        self, shelf: Shelf, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("kafka_partition_events_listeners.journal.MAX_WAITING", 4)
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = FULL
        clusters = [EMPTY, snapshot(1, a=[1]), snapshot(2, a=[2]), snapshot(3, a=[3], b=[1], c=[1])]
        for old, new in pairwise(clusters):
            tell(journal, *between(old, new))
            journal.on_settled(new, at(new.generation))
            clock.advance(PAUSE_S)
        names = [entry.name for entry in journal._waiting]
        assert names == ["leadership.moved", "leadership.moved", "topic.created", "topic.created"]
        assert (journal.stats.lost, journal.stats.waiting) == (4, 4)
        shelf.trouble = None
        journal.on_settled(clusters[-1], at(9))
        assert (journal.stats.written, journal.stats.lost) == (4, 4)

    def test_by_a_bug_is_told_too(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = OverflowError("date value out of range")
        tell(journal, *between(EMPTY, snapshot(orders=[1])))
        journal.on_settled(snapshot(orders=[1]), at(1))
        assert (journal.stats.waiting, journal.stats.last_error) == (4, repr(shelf.trouble))

    def test_that_lasts_until_the_end_is_told(self, journal: JournalListener) -> None:
        with capture_logs() as logs:
            journal.close()
        assert [(entry["event"], entry["events"]) for entry in logs] == [("journal_abandoned", 4)]


def test_what_no_entry_can_be_made_of_costs_itself_only(
    shelf: Shelf, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(look: Sequence[Observed], **how: Any) -> Sequence[Entry]:
        if any(isinstance(observed.event, ev.TopicAdded) for observed in look):
            raise ValueError("a bug")
        return fold(look, **how)

    monkeypatch.setattr(journal_module, "fold", refusing)
    journal = JournalListener(shelf, clock=clock)
    tell(journal, *between(EMPTY, snapshot(orders=[1, None])))
    with capture_logs() as logs:
        journal.on_settled(snapshot(orders=[1, None]), at(1))
    assert [entry.name for entry in shelf.writes[0].entries] == ["broker.joined"] * 3 + ["partition.offline"]
    assert (journal.stats.lost, journal.stats.waiting) == (1, 0)
    assert [log["event"] for log in logs] == ["poll_not_folded", "event_not_journalled"]
