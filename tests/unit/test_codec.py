import json
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from kafka_partition_events.events.event_json import encode_event
from kafka_partition_events.events.snapshot_json import CodecError, Snapshot, decode_snapshot, encode_snapshot
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, Node, TopicPartition
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.testing.scripted import cluster_of
from tests.every_event import EVERY_EVENT

NOON = datetime(2024, 1, 31, 12, 0, 0, 250, UTC)
ONLINE: Any = {"leader": 1, "epoch": 7, "replicas": [1, 2], "isr": [1]}
OFFLINE: Any = {"leader": None, "replicas": [2], "isr": []}
RICH_CLUSTER = cluster_of(
    {"orders": {"id": "A", "partitions": [ONLINE, OFFLINE]}, "empty": [], "plain": [1]},
    brokers=[Node(1, "a", 9092, "r1"), Node(2, "b", 9093)],
    generation=5,
)


def _through_json(document: object) -> object:
    return json.loads(json.dumps(document))


def test_equal_clusters_give_equal_text() -> None:
    one, other = cluster_of({"a": [1], "b": [1]}), cluster_of({"b": [1], "a": [1]})
    assert json.dumps(encode_snapshot(Snapshot(one))) == json.dumps(encode_snapshot(Snapshot(other)))


def test_a_reader_passes_over_fields_that_it_does_not_know() -> None:
    document = {**encode_snapshot(Snapshot(RICH_CLUSTER)), "new_in_a_later_version": 1}
    assert decode_snapshot(document).cluster == RICH_CLUSTER


def _damaged(path: str, value: object) -> dict[str, object]:
    document = _through_json(encode_snapshot(Snapshot(RICH_CLUSTER, NOON)))
    assert isinstance(document, dict)
    place = document
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in parents:
        place = place[step]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("format", "other", 'not a snapshot: "format" is not "kpe.snapshot"'),
        ("version", 2, "snapshot version 2 is not known here, only 1"),
        ("version", True, "version must be a whole number, not bool"),
        ("brokers", {}, "brokers must be a list, not an object"),
        ("brokers.0", 7, "brokers[0] must be an object, not a whole number"),
        ("brokers.1.id", 1, "a broker id or a topic name occurs twice"),
        ("topics.1.name", KeyError, "topics[1].name is missing"),
        ("topics.1.topic_id", 4, "topics[1].topic_id must be text or null, not a whole number"),
        ("topics.1.partitions.0.partition", 3, "topics[1].partitions: ids are not 0 to 1 in order"),
        ("topics.1.partitions.0.leader", "x", "topics[1].partitions[0].leader must be a whole number or"),
        ("topics.1.partitions.0.isr", ["x"], "topics[1].partitions[0].isr must be a list of whole numbers"),
        ("taken_at", "noon", "taken_at: 'noon' is not an ISO-8601 time with a zone"),
        ("taken_at", "2024-01-31T12:00:00", "taken_at: '2024-01-31T12:00:00' is not"),
    ],
)
def test_a_damaged_snapshot_is_refused_with_the_place(path: str, value: object, complaint: str) -> None:
    with pytest.raises(CodecError) as refused:
        decode_snapshot(_damaged(path, value))
    assert str(refused.value).startswith(complaint)


def orders(leader: int | None, generation: int) -> Cluster:
    partition: Any = {"leader": leader, "replicas": [1, 2], "isr": [1, 2]}
    topics: Any = {"orders": {"id": "A", "partitions": [partition]}}
    return cluster_of(topics, brokers=[1, 2], generation=generation)


def test_an_event_is_a_flat_object_of_stable_names() -> None:
    old, new = orders(1, 1), orders(None, 2)
    (event,) = diff(old, new, first_sequence=9, wall_time=NOON)
    assert _through_json(encode_event(event)) == {
        "kind": "partition_offline",
        "cluster_id": "test",
        "sequence": 9,
        "generation": 2,
        "wall_time": "2024-01-31T12:00:00.000250Z",
        "previous_at": None,
        "initial": False,
        "topic": "orders",
        "topic_id": "A",
        "partition": 0,
        "old": {"partition": 0, "leader": 1, "leader_epoch": None, "replicas": [1, 2], "isr": [1, 2]},
        "new": {"partition": 0, "leader": None, "leader_epoch": None, "replicas": [1, 2], "isr": [1, 2]},
    }


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: event.kind)
def test_any_event_is_json_under_the_names_of_its_fields(event: ev.Event) -> None:
    told = json.loads(json.dumps(encode_event(event)))
    fields = {field.name for field in attrs.fields(type(event))} - {"observed_at"}
    assert told.keys() - {"inferred"} == fields | {"kind"}


def test_who_waits_is_named_by_topic_and_partition() -> None:
    encoded = encode_event(
        ev.BrokerSuspected(
            broker=1, role=ev.Role.REPLICA, reason=ev.Suspicion.SILENT, outstanding=3, silence_ms=43.0,
            usual_ms=None, waiting=(TopicPartition("orders", 3), TopicPartition("logs", 0)), partitioner="P",
        )
    )  # fmt: skip
    assert (type(encoded["role"]), encoded["role"]) == (str, "replica")
    assert encoded["waiting"] == [{"topic": "orders", "partition": 3}, {"topic": "logs", "partition": 0}]
