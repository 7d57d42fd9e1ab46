"""An outbox that can't be written: what waits, what goes first when it gets too much, and who is told."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.outbox import Entry
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events_listeners import journal as journal_module
from kafka_partition_events_listeners.journal import PAUSE_S, JournalListener, load_snapshot
from tests.unit.journal.shelf import FULL, Shelf, at, between, snapshot, tell


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

    def test_makes_churn_go_first_then_the_oldest(
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
        assert names == ["broker.joined", "topic.created", "topic.created", "topic.created"]
        assert (journal.stats.lost, journal.stats.waiting) == (4, 4)
        shelf.trouble = None
        journal.on_settled(clusters[-1], at(9))
        assert (journal.stats.written, journal.stats.lost) == (4, 4)

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
    assert [log["event"] for log in logs] == ["look_not_folded", "event_not_journalled"]
