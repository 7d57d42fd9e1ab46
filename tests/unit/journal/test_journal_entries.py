"""What a journal makes of events: each once, with its gap; and what it does while nothing is taken."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve

from kafka_partition_events.events.names import Severity, is_churn, name_of, severity_of
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from kafka_partition_events_listeners.journal import JournalListener
from tests.every_event import BEFORE, EVERY_EVENT, SEEN
from tests.outbox_kit import scratch_journal

TOLD = [event for event in EVERY_EVENT if not isinstance(event, ev.Resync)]
# Some in minutes, or one for each topic, not thousands in a second.
DERIVED = (ev.ClusterSummary,)
MOVED = [event for event in TOLD if is_churn(name_of(event)) and not isinstance(event, DERIVED)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall=SEEN + timedelta(seconds=1, microseconds=5))


@pytest.fixture
def file(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteOutbox]:
    outbox = SqliteOutbox(tmp_path / "outbox.db", clock=clock)
    yield outbox
    outbox.close()


def journaled(outbox: SqliteOutbox, clock: ManualClock, *events: ev.Event) -> list[Entry]:
    """Return the entries that these events become, without their places."""
    journal = JournalListener(outbox, observer="a", clock=clock)
    for event in events:
        event.deliver(journal)
    journal.on_settled(cluster_of({"orders": [1]}), SEEN)
    return [evolve(entry, seq=0) for entry in outbox.history()]


def test_entries_of_an_outage_bear_its_gap(clock: ManualClock, file: SqliteOutbox) -> None:
    recovered = ev.MetadataRecovered(attempts=2, blind_s=9.0, wall_time=SEEN, previous_at=BEFORE)
    told = [MOVED[0], recovered, *MOVED]
    entries = journaled(file, clock, *told)
    gaps = {json.loads(entry.body)["data"]["snapshot"]["gap"] for entry in entries[2:]}
    assert gaps == {True}


def test_what_is_told_twice_is_kept_once(clock: ManualClock) -> None:
    outbox = scratch_journal(clock=clock)
    proved = [event for event in MOVED if isinstance(event, ev.LeaderChanged)]
    told = [evolve(event, new=evolve(event.new, leader_epoch=5)) for event in proved]
    journaled(outbox, clock, *told, *told)
    journaled(outbox, clock, *told)
    assert len(list(outbox.history())) == len(told)


@pytest.mark.parametrize(
    ("old", "new", "name", "severity"),
    [
        ((1, 2), (1,), "isr.shrunk", Severity.WARN),
        ((1,), (1, 2), "isr.expanded", Severity.INFO),
        ((1, 2), (1, 3), "isr.shrunk", Severity.WARN),
        ((1,), (), "isr.shrunk", Severity.WARN),
        ((), (1,), "isr.expanded", Severity.INFO),
        ((2, 1), (1, 2, 3), "isr.expanded", Severity.INFO),
    ],
)
def test_in_sync_replicas_that_changed_are_named_after_those_that_left(
    old: tuple[int, ...], new: tuple[int, ...], name: str, severity: Severity
) -> None:
    before, after = (cluster_of({"t": [{"leader": 1, "isr": isr}]}, brokers=[1]) for isr in (old, new))
    (event,) = diff(before, after)
    assert isinstance(event, ev.IsrChanged)
    assert (name_of(event), severity_of(event)) == (name, severity)
