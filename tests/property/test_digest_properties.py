"""However transitions are grouped, whoever unfolds them has what single events would have told, id for id."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.assets import schemas
from kafka_partition_events.events.cloudevents import to_entry
from kafka_partition_events.events.digests import FOLDED, MOST_CHANGES, Observed, fold
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry
from kafka_partition_events.testing.scripted import cluster_of
from tests.every_event import BEFORE
from tests.schema_kit import validator

BROKERS = (1, 2, 3)
TOPICS = ("a", "b", "wide")
VALIDATORS = {name: validator(name) for name in schemas()}
LEADERS = st.sampled_from([None, *BROKERS])
IN_SYNC = st.sampled_from([[1], [2], [1, 2], [1, 3], [1, 2, 3]])
PARTITION = st.fixed_dictionaries(
    {"leader": LEADERS, "isr": IN_SYNC, "epoch": st.sampled_from([None, 1, 2, 3])}
)


def moment(seconds: float) -> datetime:
    return BEFORE + timedelta(seconds=seconds)


@st.composite
def clusters(draw: st.DrawFn) -> list[Cluster]:
    """A few looks at a cluster whose topics come, go and grow."""
    looks = []
    topics: dict[str, Any]
    for generation in range(1, draw(st.integers(2, 4))):
        topics = {
            name: {
                "id": draw(st.sampled_from([None, f"id-{name}"])),
                "partitions": draw(st.lists(PARTITION, min_size=1, max_size=4)),
            }
            for name in draw(st.sets(st.sampled_from(TOPICS)))
        }
        brokers = sorted(draw(st.sets(st.sampled_from(BROKERS), min_size=1)))
        looks.append(cluster_of(topics, brokers, generation=generation))
    return looks


def events_of(looks: Iterable[Cluster]) -> list[ev.Event]:
    told: list[ev.Event] = []
    before = EMPTY
    for number, cluster in enumerate(looks):
        told += diff(
            before,
            cluster,
            first_sequence=len(told) + 1,
            wall_time=moment(number),
            previous_at=moment(number - 1) if number else None,
            initial=number == 0,
        )
        before = cluster
    return told


def observed(events: Iterable[ev.Event], draw: st.DataObject) -> list[Observed]:
    labels: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{}, {"planned": False}, {"planned": True, "change_id": "c-7"}]
    )
    return [
        Observed(event=e, recorded_at=moment(99), blind=draw.draw(st.booleans()), labels=draw.draw(labels))
        for e in events
    ]


def folded(look: list[Observed]) -> list[Entry]:
    return fold(look, observer="a")


def unfolded(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """Yield the events of version 1 that records tell, id and all, as a reader of theirs would."""
    for entry in entries:
        event = json.loads(entry.body)
        if event["type"].endswith(".v1"):
            yield event
            continue
        common = {name: value for name, value in event["data"].items() if name != "changes"}
        for change in event["data"]["changes"]:
            partitions = str(change["partition"])
            own = {"partitions": partitions, "before": change["before"], "after": change["after"]}
            yield {
                **event,
                "id": change["id"],
                "type": event["type"].removesuffix("2") + "1",
                "subject": f"topic/{common['topic']}/{partitions}",
                "sequence": f"{change['sequence']:020d}",
                "dataschema": f"urn:kpe:schema:{entry.name}:1",
                "data": {**common, **own},
            }


def documents(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """What they tell, but for what the rest of their look adds."""
    told = []
    for document in unfolded(entries):
        document["data"].pop("cause", None)
        told.append(document)
    return sorted(told, key=lambda document: str(document["sequence"]) + str(document["id"]))


@given(clusters(), st.data())
def test_what_is_unfolded_is_what_single_events_tell(looks: list[Cluster], draw: st.DataObject) -> None:
    look = observed(events_of(looks), draw)
    alone = [to_entry(o.event, o.cloudevent("a")) for o in look]
    assert documents(folded(look)) == documents(alone)


@given(clusters(), st.data(), st.integers(0, 30))
def test_two_observers_that_grouped_otherwise_agree(
    looks: list[Cluster], draw: st.DataObject, cut: int
) -> None:
    look = observed(events_of(looks), draw)
    once, twice = folded(look), [*folded(look[:cut]), *folded(look[cut:])]

    def transitions(entries: Iterable[Entry]) -> set[str]:
        return {event["id"] for event in unfolded(entries)}

    assert transitions(once) == transitions(twice)


@given(clusters(), st.data())
def test_every_record_is_what_its_schema_says(looks: list[Cluster], draw: st.DataObject) -> None:
    for entry in folded(observed(events_of(looks), draw)):
        document = json.loads(entry.body)
        VALIDATORS["envelope"].validate(document)
        name, version = document["dataschema"].split(":")[-2:]
        VALIDATORS[name if version == "1" else f"{name}.v{version}"].validate(document["data"])


def broker_loss(partitions: int) -> list[Observed]:
    """Broker 2 leaves; of each partition it was the leader, and in sync."""
    before = cluster_of(
        {"wide": {"id": "w", "partitions": [{"leader": 2, "isr": [2, 1], "epoch": 1}] * partitions}},
        [1, 2],
        generation=1,
    )
    after = cluster_of(
        {"wide": {"id": "w", "partitions": [{"leader": 1, "isr": [1], "epoch": 2}] * partitions}},
        [1],
        generation=2,
    )
    found = diff(before, after, first_sequence=1, wall_time=moment(5), previous_at=moment(0))
    return [Observed(event=event, recorded_at=moment(6)) for event in found]


def test_a_brokers_loss_is_a_few_records_that_say_why() -> None:
    entries = folded(broker_loss(2 * MOST_CHANGES + 1))
    names = [entry.name for entry in entries]
    assert sorted(names) == ["broker.left", *["isr.shrunk"] * 3, *["leadership.moved"] * 3]
    by_name = {entry.name: json.loads(entry.body)["data"] for entry in entries}
    count = 2 * MOST_CHANGES + 1
    assert by_name["leadership.moved"]["cause"] == {"broker": 2}
    moved = [entry for entry in entries if entry.name == "leadership.moved"]
    assert [entry.subject for entry in moved] == ["topic/wide/0-199", "topic/wide/200-399", "topic/wide/400"]
    assert len([*unfolded(moved)]) == count
    assert max(len(entry.body) for entry in entries) < 64 * 1024


def test_what_stands_alone_stays_as_it_was() -> None:
    entries = folded(broker_loss(1))
    types = [json.loads(entry.body)["type"].rsplit(".", 1)[-1] for entry in entries]
    assert types == ["v1"] * 3


def test_a_digest_is_told_under_the_same_id_by_who_groups_alike() -> None:
    look = broker_loss(3)
    moved = [o for o in look if isinstance(o.event, ev.LeaderChanged)]
    other = [evolve(o, recorded_at=moment(60)) for o in reversed(moved)]
    (one,), (two,) = folded(moved), fold(other, observer="b")
    assert one.name in FOLDED
    assert one.id == two.id
