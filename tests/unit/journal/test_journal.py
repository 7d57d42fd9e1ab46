"""The journal: what was told and what it led to become durable together."""

import json
from collections.abc import Mapping

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.outbox import Write
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events_listeners.journal import PAUSE_S, JournalListener, load_snapshot
from tests.unit.journal.shelf import Shelf, at, between, bodies, snapshot, tell


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
    @pytest.mark.parametrize(
        "damaged",
        [
            {"nodes": b"{"},
            {"nodes": b"[]"},
            {"nodes": b"\xff"},
            {"topic/orders": b"null"},
            {"topic/orders": b"{}"},
            {"topic/orders": b'{"name": "orders", "topic_id": null, "partitions": [[1]]}'},
            {"nodes": json.dumps({"format": "kpe.snapshot", "version": 99}).encode()},
        ],
        ids=[
            "cut off",
            "no object",
            "no text",
            "no topic",
            "without partitions",
            "half a row",
            "of a later version",
        ],
    )
    def test_that_is_damaged_is_told_and_passed_over(
        self, shelf: Shelf, clock: ManualClock, damaged: dict[str, bytes]
    ) -> None:
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[1]), at(1))
        shelf.write(Write(values=damaged))
        with capture_logs() as logs:
            assert load_snapshot(shelf) is None
        assert [entry["event"] for entry in logs] == ["stored_snapshot_unreadable"]
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[2]), at(2))
        assert load_snapshot(shelf) == (snapshot(orders=[2]), at(2)), "the next one heals it"
