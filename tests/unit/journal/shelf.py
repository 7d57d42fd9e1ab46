"""An outbox that outlives processes, and the observers that journal to it one after the other."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import ScriptedSource, cluster_of, observe
from kafka_partition_events_listeners.journal import JournalListener, load_snapshot

WAIT_S = 10.0
LOOKS_EVERY = timedelta(seconds=10)
FULL = OutboxError("events.db: the disk is full; free some space")


class Write(NamedTuple):
    """What was written together."""

    entries: Sequence[Entry]
    values: Mapping[str, bytes | None]


class Shelf(SqliteOutbox):
    """An outbox, as far as a journal is concerned. It does what a file would do that outlives the process."""

    def __init__(self) -> None:  # nothing else is called
        self.writes: list[Write] = []
        self.trouble: Exception | None = None
        self._values: dict[str, bytes] = {}

    def write(
        self,
        entries: Sequence[Entry] = (),
        *,
        cursors: Mapping[str, int] = MappingProxyType({}),
        values: Mapping[str, bytes | None] = MappingProxyType({}),
    ) -> None:
        assert not cursors
        if self.trouble is not None:
            raise self.trouble
        self.writes.append(Write(entries, values))
        for name, value in values.items():
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value

    def values(self, prefix: str) -> Mapping[str, bytes]:
        return {name: value for name, value in self._values.items() if name.startswith(prefix)}

    @property
    def entries(self) -> list[Entry]:
        return [entry for write in self.writes for entry in write.entries]

    @property
    def topics_written(self) -> list[dict[str, bool]]:
        """Of each write, the topics and whether they were stored (or else removed)."""
        return [
            {
                name.removeprefix("topic/"): value is not None
                for name, value in write.values.items()
                if name.startswith("topic/")
            }
            for write in self.writes
        ]


class World:
    """A cluster whose journal is kept by one observer after the other."""

    def __init__(self, shelf: Shelf, clock: ManualClock) -> None:
        self.shelf, self.clock = shelf, clock
        self.pollers: list[MetadataPoller] = []

    def observer(
        self, *answers: Observation | Exception, **options: Any
    ) -> tuple[MetadataPoller, JournalListener]:
        """Begin to observe, as a process that has just started."""
        source = ScriptedSource(*answers)
        poller = MetadataPoller(source, clock=self.clock, resume=load_snapshot(self.shelf))
        journal = JournalListener(self.shelf, clock=self.clock, **options)
        self.pollers.append(poller)
        registration = poller.register(journal)
        for _ in answers:
            poller.poll_once()
            assert registration.wait_synced(WAIT_S)
            self.clock.advance(LOOKS_EVERY.total_seconds())
        return poller, journal


def answer(brokers: Sequence[int] = (1, 2, 3), **topics: Any) -> Observation:
    proved = {name: {"id": name, "partitions": partitions} for name, partitions in topics.items()}
    return observe(proved, brokers=brokers)  # type: ignore[arg-type]


def snapshot(generation: int = 1, **topics: Any) -> Cluster:
    return cluster_of(topics, brokers=[1, 2, 3], generation=generation)


def at(second: int) -> datetime:
    return datetime(2026, 11, 20, 10, 0, second, tzinfo=UTC)


def tell(journal: JournalListener, *events: Event) -> None:
    for event in events:
        event.deliver(journal)


def between(old: Cluster, new: Cluster, first: int = 1) -> tuple[Event, ...]:
    return diff(old, new, first_sequence=first, wall_time=at(first % 60), previous_at=at(0))


def bodies(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [json.loads(entry.body) for entry in entries]
