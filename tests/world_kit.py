"""A small cluster that things happen to, and the journal of who looks at it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import evolve

from kafka_partition_events.events.cloudevents import to_cloudevent, to_entry
from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry
from kafka_partition_events.testing.scripted import cluster_of

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)  # a Friday
POLL_S = 5.0
"""The look before each look was so long ago."""


def moment(seconds: float) -> datetime:
    """Return the moment so many seconds into a story."""
    return START + timedelta(seconds=seconds)


class World:
    """A cluster that elects leaders as Kafka does, and an observer that polls it every five seconds.

    Each topic is the list of its partitions' replicas. Everything is there at second 0, and was seen.
    """

    def __init__(self, brokers: Iterable[int], topics: Mapping[str, Sequence[Sequence[int]]]) -> None:
        self.brokers = set(brokers)
        self.topics: dict[str, TopicInfo] = {}
        self.seen = EMPTY
        self.sequence = 0
        self.ids = 0
        for name, partitions in topics.items():
            self.create(name, partitions)

    # -- what happens --------------------------------------------------------------------------------

    def create(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        self.ids += 1
        made = [PartitionInfo(name, i, None, tuple(r), tuple(r), 0) for i, r in enumerate(partitions)]
        self.topics[name] = TopicInfo(name, tuple(map(self._elected, made)), f"id-{self.ids}")

    def grow(self, name: str, partitions: Sequence[Sequence[int]]) -> None:
        old = self.topics[name]
        first = len(old.partitions)
        made = [PartitionInfo(name, first + i, None, tuple(r), tuple(r), 0) for i, r in enumerate(partitions)]
        self.topics[name] = evolve(old, partitions=(*old.partitions, *map(self._elected, made)))

    def delete(self, name: str) -> None:
        del self.topics[name]

    def down(self, *brokers: int) -> None:
        self.brokers -= set(brokers)
        self._elect()

    def up(self, *brokers: int) -> None:
        self.brokers |= set(brokers)
        self._elect()

    def _elect(self) -> None:
        for name, info in self.topics.items():
            self.topics[name] = evolve(info, partitions=tuple(map(self._elected, info.partitions)))

    def _elected(self, p: PartitionInfo) -> PartitionInfo:
        alive = [r for r in p.isr if r in self.brokers]
        leader = p.leader if p.leader in alive else next(iter(alive), None)
        in_sync = tuple(r for r in p.replicas if r in self.brokers) if alive else p.isr[:1]
        epoch = (p.leader_epoch or 0) + (leader != p.leader)
        return evolve(p, leader=leader, isr=in_sync, leader_epoch=epoch)

    # -- what the observer puts into the journal -----------------------------------------------------

    def look(self, at: float, *, planned: bool | None = None, **stamp: Any) -> list[Entry]:
        found = cluster_of(
            self.topics, sorted(self.brokers), cluster_id="c-1", generation=self.seen.generation + 1
        )
        first = self.seen is EMPTY
        changes = diff(
            self.seen,
            found,
            first_sequence=self.sequence + 1,
            **{
                "wall_time": moment(at),
                "previous_at": None if first else moment(at - POLL_S),
                "initial": first,
                **stamp,
            },
        )
        self.seen = found
        return [self.entry(event, planned=planned) for event in changes]

    def tell(self, event: ev.Event, at: float) -> Entry:
        """Return the entry of an event that is not found by looking."""
        return self.entry(
            evolve(
                event,
                cluster_id="c-1",
                sequence=self.sequence + 1,
                wall_time=moment(at),
                previous_at=moment(at - POLL_S),
            )
        )

    def entry(self, event: ev.Event, *, planned: bool | None = None) -> Entry:
        self.sequence += 1
        labels = {} if planned is None else {"planned": planned}
        return to_entry(event, to_cloudevent(event, observer="a", recorded_at=event.wall_time, labels=labels))


def suspected(broker: int, by: str = "sticky") -> ev.Event:
    return ev.BrokerSuspected(
        broker=broker,
        reason=ev.Suspicion.SILENT,
        outstanding=9,
        silence_ms=250.0,
        usual_ms=5.0,
        partitioner=by,
    )


class Folding(World):
    """A world of which a look is told as a journal does it: what belongs together as one entry."""

    def look(self, at: float, *, planned: bool | None = None, **stamp: Any) -> list[Entry]:
        self.found: list[ev.Event] = []
        super().look(at, **stamp)
        look = [Observed(event=event, recorded_at=event.wall_time) for event in self.found]
        return fold(look, observer="a")

    def entry(self, event: ev.Event, *, planned: bool | None = None) -> Entry:
        self.found.append(event)
        return super().entry(event, planned=planned)


def events_of(world: World) -> list[Entry]:
    entries = world.look(0)
    for broker in (3, 2):
        world.down(broker)
        entries += world.look(10)
        world.up(broker)
        entries += world.look(20)
    world.down(2)
    world.delete("single")
    return [*entries, *world.look(30), world.tell(suspected(1), 40)]


def real_entries() -> list[list[Entry]]:
    """Return single events, and digests of the same."""
    topics = {"orders": [[1, 2], [2, 1], [2, 3]], "single": [[1], [2], [2]]}
    single, folded = (events_of(kind([1, 2, 3], topics)) for kind in (World, Folding))
    assert any(".v2" in entry.body.decode() for entry in folded)
    return [single, folded]
