"""A small cluster that things happen to, the journal of who looks at it, and what is told, in words."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import evolve

from kafka_partition_events.events.cloudevents import to_cloudevent
from kafka_partition_events.events.entries import to_entry
from kafka_partition_events.incidents.causes import Cause
from kafka_partition_events.incidents.inputs import Happening, happenings_of
from kafka_partition_events.incidents.outputs import Notice
from kafka_partition_events.incidents.reducer import Reducer
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


def cleared(broker: int, by: str = "sticky") -> ev.Event:
    return ev.BrokerCleared(
        broker=broker,
        reason=ev.Clearance.ANSWERED,
        suspected_ms=900.0,
        probes=3,
        usual_ms=5.0,
        partitioner=by,
    )


def happenings(entries: Iterable[Entry]) -> list[Happening]:
    return [happening for entry in entries for happening in happenings_of(entry)]


Told = Notice | Happening
"""What is told: a notice, or what happened, as it is."""


def told_by(reducer: Reducer, found: Iterable[Happening]) -> list[Told]:
    """Return what a reducer tells on hearing of this."""
    told: list[Told] = []
    for happening in found:
        notices, passes = reducer.hear(happening)
        told += [*notices, *([happening] if passes else [])]
    return told


# -- words ---------------------------------------------------------------------------------------------


def in_words(told: Told) -> str:
    """Return what an on-call person reads: the second of the story, and what it was."""
    words = _happening(told) if isinstance(told, Happening) else _notice(told)
    return f"{(told.at - START).total_seconds():g} s: {words}"


def _happening(told: Happening) -> str:
    about = told.data.get("topic")
    return told.name if about is None else f"{told.name} {about}"


def _notice(told: Notice) -> str:
    data = told.data
    kind, verb = told.name.split(".")
    if kind == "silence":
        muted = ", ".join(f"{name} {count}" for name, count in data["muted"].items())
        still_open = f"{len(data['still_open'])} still open"
        return f"silence {data['silence_id']} ended: muted {muted or 'nothing'}; {still_open}"
    cause = Cause(**(data["cause"] or {})).subject or "cluster"
    if kind == "flapping":
        return f"flapping {verb} {cause}: {data['transitions']} transitions, {data['offline_s']:g} s down"
    listed = data["partitions"] if verb == "closed" else data["offline"]
    extent = " ".join(f"{topic}:{ids}" for topic, ids in listed.items())
    signs = [word for word in ("gone", "reminder") if data.get(word)]
    signs += [f"suspected by {name}" for name in data["suspected_by"]]
    return " ".join(filter(None, (verb, cause, f"({', '.join(signs)})" if signs else "", extent)))
