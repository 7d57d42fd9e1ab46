"""What one poll finds for one cause is one record: version 2 of the events of partitions. Pure.

A broker's loss is thousands of transitions, and one story. So those of one poll that have the same name,
topic and cause are one CloudEvent, of type ``….NAME.v2``, with a list of changes. What stands alone stays
version 1.

The ids are those of the single transitions, in both versions: two observers may have grouped them otherwise,
since they polled at different moments. A consumer that unfolds both has each transition under one id.
The digest has an id of its own, the same for all that grouped alike; it identifies the record, nothing else.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

from attrs import evolve, field, frozen
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.cloudevents import id_of, to_cloudevent, to_entry, to_json, uuid_of
from kafka_partition_events.events.facts import PartitionState, facts_of
from kafka_partition_events.events.names import name_of
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.outbox import Entry
from kafka_partition_events.ranges import ranges

MOST_CHANGES: Final = 200
"""A change takes 250 to 300 bytes, and CloudEvents promises transport for 64 KiB only."""

FOLDED: Final = frozenset({
    "partition.offline", "partition.online", "leadership.moved", "isr.shrunk", "isr.expanded",
    "replicas.changed",
})  # fmt: skip
"""The names of what may be one record."""

_V1: Final = ".v1"
_V2: Final = ".v2"


class DigestedChange(TypedDict):
    """One transition of a partition; the id is that of the event of version 1."""

    id: str
    sequence: int
    partition: int
    before: PartitionState | None
    after: PartitionState


class DigestedSnapshot(TypedDict):
    """It happened after prev_at (null: at any time before) and no later than at."""

    seq: int
    prev_at: str | None
    at: str
    gap: bool


class Digest(TypedDict):
    """The data of an event of version 2: what one poll found for one cause in one topic."""

    cluster_id: str | None
    topic: str
    topic_id: str | None
    partitions: str
    cause: dict[Literal["broker"], int] | dict[Literal["topic"], str] | None
    changes: list[DigestedChange]
    snapshot: DigestedSnapshot
    initial: bool
    identity: Literal["transition", "observation"]
    observer: str | None
    planned: NotRequired[bool]
    change_id: NotRequired[str]


@frozen(kw_only=True)
class Observed:
    """An event, and what its observer adds to it.

    Attributes:
        event: The event.
        recorded_at: When it is being recorded.
        blind: Whether polls failed in its time range.
        labels: What else ``data`` is to say.
    """

    event: ev.Event
    recorded_at: datetime
    blind: bool = False
    labels: Mapping[str, Any] = field(factory=dict)

    def cloudevent(self, observer: str | None, **more: Any) -> CloudEvent:
        """Return the event as a CloudEvent of version 1, with more labels."""
        return to_cloudevent(
            self.event,
            observer=observer,
            recorded_at=self.recorded_at,
            blind=self.blind,
            labels={**self.labels, **more},
        )


def fold(found: Sequence[Observed], *, observer: str | None) -> list[Entry]:
    """Return the entries of what a poll found, in order; what belongs together is where its first one was.

    Events of partitions say what caused them, as far as the same poll shows it: ``data.cause``.

    Args:
        found: What was found, by one poll or by several.
        observer: Who found it.
    """
    news = _News(found)
    groups: dict[tuple[Any, ...], _GroupedEvents] = {}
    for number, each in enumerate(found):
        event = each.event
        if not isinstance(event, ev.PartitionEvent):
            groups[(number,)] = _GroupedEvents(each)
            continue
        name, cause, facts = name_of(event), news.cause_of(event), facts_of(event)
        # What nothing proves is identified by the observation, so one digest does not mix the two. A label
        # may be a list.
        proved = facts.transition is not None
        when = (event.generation, event.previous_at, event.wall_time, event.initial, each.blind)
        key = (name, event.topic, event.topic_id, cause, proved, *when, repr(each.labels))
        if (group := groups.get(key)) is None:
            group = groups[key] = _GroupedEvents(each, {"cause": None if cause is None else dict((cause,))})
        id_ = id_of(event, name, facts, observer)
        group.changes[id_] = {
            "id": id_,
            "sequence": event.sequence,
            "partition": event.partition,
            "before": facts.data["before"],
            "after": facts.data["after"],
        }
    entries: list[Entry] = []
    for group in groups.values():
        as_v1 = group.first.cloudevent(observer, **group.labels)
        alone = to_entry(group.first.event, as_v1)
        if len(group.changes) < 2:
            of_topic = isinstance(group.first.event, ev.TopicEvent)
            entries.append(_with_again(alone, as_v1) if of_topic else alone)
        else:
            entries += _digests(alone, as_v1, list(group.changes.values()))
    return entries


_Cause = tuple[str, int | str] | None


@frozen
class _GroupedEvents:
    """What becomes one record: what its members have in common, by the first of them, and each one's own."""

    first: Observed
    labels: Mapping[str, Any] = field(factory=dict)
    changes: dict[str, DigestedChange] = field(factory=dict)


class _News:
    """What a poll found that may be why partitions changed."""

    def __init__(self, found: Iterable[Observed]) -> None:
        self._left: dict[int, set[int]] = defaultdict(set)
        self._joined: dict[int, set[int]] = defaultdict(set)
        self._grown: set[tuple[int, str]] = set()
        for event in (each.event for each in found if not each.event.initial):
            match event:
                case ev.BrokerRemoved():
                    self._left[event.generation].add(event.old.id)
                case ev.BrokerAdded():
                    self._joined[event.generation].add(event.new.id)
                case ev.PartitionsAdded():
                    self._grown.add((event.generation, event.topic))

    def cause_of(self, event: ev.PartitionEvent) -> _Cause:
        """Return the broker that left or joined with it, or the topic that grew; None: not known."""
        old, new, generation = event.old, event.new, event.generation
        for brokers, there, elsewhere in ((self._left, old, new), (self._joined, new, old)):
            if not event.initial and (found := brokers.get(generation)) is not None:
                if there.leader is not None and there.leader in found and there.leader != elsewhere.leader:
                    return "broker", there.leader
                for broker in there.isr:
                    if broker in found and broker not in elsewhere.isr:
                        return "broker", broker
        return ("topic", event.topic) if (generation, event.topic) in self._grown else None


def _with_again(entry: Entry, event: CloudEvent, changes: Sequence[DigestedChange] = ()) -> Entry:
    """Return an entry with what it is if its transitions seem to come about a second time."""
    data = {**cast("Mapping[str, Any]", event.get_data())}
    if data["initial"] or data["identity"] == "observation":
        return entry  # what is found at first sight was journalled when it came about
    if changes:
        data["changes"] = [{**each, "id": _again(each["id"], entry.at)} for each in changes]
    id_ = _again(entry.id, entry.at)
    other = CloudEvent({**event.get_attributes(), "id": id_}, {**data, "identity": "observation"})
    return evolve(entry, again=evolve(entry, id=id_, body=to_json(other)))


def _again(id_: str, at: datetime) -> str:
    return uuid_of(f"{id_} {at.isoformat()}")


def _digests(alone: Entry, as_v1: CloudEvent, changes: Sequence[DigestedChange]) -> Iterator[Entry]:
    """Yield the entries of changes, given what the first of them would be if it stood alone."""
    data = dict(cast("Mapping[str, Any]", as_v1.get_data()))
    del data["before"], data["after"], data["partitions"]
    for first in range(0, len(changes), MOST_CHANGES):
        part = changes[first : first + MOST_CHANGES]
        partitions = ranges(change["partition"] for change in part)
        id_ = uuid_of(" ".join(sorted(change["id"] for change in part)))
        subject = f"topic/{data['topic']}/{partitions}"
        attributes = {
            **as_v1.get_attributes(),
            "id": id_,
            "type": as_v1.get_type().removesuffix(_V1) + _V2,
            "subject": subject,
            "sequence": f"{part[0]['sequence']:020d}",
            "dataschema": f"urn:kpe:schema:{alone.name}:2",
        }
        digest = cast("Digest", {**data, "partitions": partitions, "changes": part})
        event = CloudEvent(attributes, cast("dict[str, Any]", digest))
        yield _with_again(evolve(alone, id=id_, subject=subject, body=to_json(event)), event, part)
