"""Events as CloudEvents: one id per transition whoever sees it, honest times, valid JSON."""

import json
import uuid
from datetime import timedelta, timezone
from typing import Any

import pytest
from attrs import evolve
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.events.cloudevents import to_json
from kafka_partition_events.events.facts import MAX_LISTED
from kafka_partition_events.events.names import Severity, name_of, severity_of
from kafka_partition_events.listeners import CloudEventsListener, to_cloudevent, to_record
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, Node, TopicPartition
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.ranges import ids_in, ranges
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import PartitionSpec, TopicSpec, cluster_of
from tests.every_event import BEFORE, EVERY_EVENT, SEEN, STAMP

COMMON = {"cluster_id", "snapshot", "initial", "identity", "observer"}


def orders(*leaders: int | None, id: str | None = "id-1", epoch: int | None = 5) -> dict[str, TopicSpec]:  # noqa: A002
    """Return a topic; who lost the leader has begun an epoch."""
    partitions: list[PartitionSpec | int | None] = [
        {"leader": leader, "epoch": epoch and epoch + (leader is None)} for leader in leaders
    ]
    return {"orders": {"id": id, "partitions": partitions}}


def cluster(topics: dict[str, TopicSpec], brokers: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    return cluster_of(topics, brokers=brokers, cluster_id="c-1")


def changes(old: Cluster, new: Cluster, **stamp: Any) -> tuple[ev.Event, ...]:
    return diff(old, new, **{"wall_time": SEEN, "previous_at": BEFORE, **stamp})


def only(old: Cluster, new: Cluster, **stamp: Any) -> CloudEvent:
    (event,) = changes(old, new, **stamp)
    return to_cloudevent(event)


def as_json(event: CloudEvent) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(to_record(event).value)
    return parsed


UP = cluster(orders(1, 2, 3))
DOWN = cluster(orders(1, None, 3))


def test_an_offline_partition_in_full() -> None:
    (event,) = changes(UP, DOWN, first_sequence=4812)
    made = to_cloudevent(event, observer="obs-a", recorded_at=SEEN + timedelta(seconds=0.412))
    value = as_json(made)
    assert uuid.UUID(value.pop("id")).version == 5
    assert value == {
        "specversion": "1.0",
        "type": "io.github.kafka-partition-events.partition.offline.v1",
        "source": "kafka://c-1",
        "subject": "topic/orders/1",
        "time": "2026-11-20T10:00:10Z",
        "recordedtime": "2026-11-20T10:00:10.412000Z",
        "datacontenttype": "application/json",
        "dataschema": "urn:kpe:schema:partition.offline:1",
        "partitionkey": "c-1|orders",
        "sequence": "00000000000000004812",
        "severitynumber": 17,
        "data": {
            "cluster_id": "c-1",
            "topic": "orders",
            "topic_id": "id-1",
            "partitions": "1",
            "before": {"leader": 2, "leader_epoch": 5, "replicas": [], "isr": []},
            "after": {"leader": None, "leader_epoch": 6, "replicas": [], "isr": []},
            "snapshot": {
                "seq": 1,
                "prev_at": "2026-11-20T10:00:00.000000Z",
                "at": "2026-11-20T10:00:10.000000Z",
                "gap": False,
            },
            "initial": False,
            "identity": "transition",
            "observer": "obs-a",
        },
    }


def test_the_id_of_a_transition_can_be_computed_elsewhere() -> None:
    ours = uuid.UUID("6f1b2f0e-0c55-5d0b-9a42-3d1f0b8d7c11")
    transition = ["c-1", "partition.offline", "id-1", 1, 6]
    assert only(UP, DOWN).get_id() == str(uuid.uuid5(ours, json.dumps(transition)))


def test_after_a_restart_the_state_found_has_the_ids_of_the_transitions_that_led_to_it() -> None:
    lived = [to_cloudevent(e) for e in (*changes(EMPTY, UP), *changes(UP, DOWN))]
    found = [to_cloudevent(e) for e in changes(EMPTY, DOWN, initial=True)]
    by_type = {e.get_type().removesuffix(".v1").split("events.")[1]: e for e in found}
    ids = {e.get_id() for e in lived}
    assert by_type["partition.offline"].get_id() in ids
    assert by_type["topic.created"].get_id() in ids
    assert all(as_json(e)["data"]["initial"] for e in found)


@pytest.mark.parametrize(
    "other",
    [cluster(orders(1, 2, 3, 1)), cluster(orders(1, 2, 3, 1, 1, 1)), cluster(orders(1, 2, id="id-2"))],
    ids=["grown by 1", "grown by 3", "re-created"],
)
def test_different_transitions_have_different_ids(other: Cluster) -> None:
    grown_by_two = cluster(orders(1, 2, 3, 1, 2))
    assert only(UP, other).get_id() != only(UP, grown_by_two).get_id()


def test_without_proof_the_moment_of_the_observation_identifies_so_that_nothing_collapses() -> None:
    up = cluster(orders(1, 2, id=None, epoch=None))
    down = cluster(orders(1, None, id=None, epoch=None))
    first, later = only(up, down), only(up, down, wall_time=SEEN + timedelta(minutes=1))
    assert first.get_id() != later.get_id()
    assert first.get_id() == only(up, down).get_id()
    assert as_json(first)["data"]["identity"] == "observation"


def test_a_leader_that_is_unlisted_and_listed_again_at_one_epoch_is_new_each_time() -> None:
    topics = orders(1, 2, 3)
    listed, unlisted = cluster(topics), cluster(topics, brokers=(1, 3))
    for old, new in ((listed, unlisted), (unlisted, listed)):
        changed = (changes(old, new, wall_time=SEEN + timedelta(minutes=n)) for n in range(2))
        first, second = (
            {to_cloudevent(e).get_id() for e in each if isinstance(e, ev.PartitionEvent)} for each in changed
        )
        assert len(first) == len(second) == 1
        assert first != second


def test_an_isr_that_shrinks_twice_within_one_epoch_is_two_transitions() -> None:
    full = cluster({"t": {"id": "id-1", "partitions": [{"leader": 1, "epoch": 3, "isr": [1, 2]}]}})
    shrunk = cluster({"t": {"id": "id-1", "partitions": [{"leader": 1, "epoch": 3, "isr": [1]}]}})
    first, second = only(full, shrunk), only(full, shrunk, wall_time=SEEN + timedelta(seconds=9))
    assert first.get_type().endswith(".isr.shrunk.v1")
    assert only(shrunk, full).get_type().endswith(".isr.expanded.v1")
    assert first.get_id() != second.get_id()


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


def test_growth_names_the_new_partitions_as_a_range_and_their_leaders() -> None:
    growth, _born_offline = changes(UP, cluster(orders(1, 2, 3, 1, 1, None)))
    value = as_json(to_cloudevent(growth))
    data = value["data"]
    assert value["subject"] == "topic/orders/3-5"
    assert data["partitions"] == "3-5"
    assert data["before"]["count"] == 3
    assert data["after"] == {"count": 6, "topic_id": "id-1", "leaders": {"3-4": 1, "5": None}}


def test_a_topic_too_large_to_list_says_how_many_partitions_it_has() -> None:
    huge = cluster({"t": {"id": "x", "partitions": [1, 2, 3] * MAX_LISTED}})
    created = next(e for e in changes(EMPTY, huge) if isinstance(e, ev.TopicAdded))
    assert "leaders" not in as_json(to_cloudevent(created))["data"]["after"]
    largest = cluster({"t": {"id": "x", "partitions": [1 + i % 3 for i in range(MAX_LISTED)]}})
    created = next(e for e in changes(EMPTY, largest) if isinstance(e, ev.TopicAdded))
    assert len(to_record(to_cloudevent(created)).value) < 65_536


def test_there_is_an_event_of_every_kind() -> None:
    assert {type(event) for event in EVERY_EVENT} == set(ev.EVENT_TYPES)


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: event.kind)
def test_every_kind_is_written_as_the_sdk_writes_it(event: ev.Event) -> None:
    made = to_cloudevent(event, observer="a", recorded_at=SEEN)
    record = to_record(made)
    assert record.value == to_json(made) == JSONFormat().write(made)
    assert record.headers == {"content-type": b"application/cloudevents+json"}
    assert str(record.key).startswith("c-1")
    assert as_json(made)["data"].keys() >= COMMON


def test_a_cap_names_the_partitions_that_it_leaves_out() -> None:
    event = ev.CapReached(topic="t", partitions=9, admitted=(0, 1, 2, 7), limit=4, partitioner="sticky")
    data = as_json(to_cloudevent(event))["data"]
    assert data["partitions"] == "3-6,8"
    assert data["after"] == {"count": 9, "admitted": "0-2,7", "limit": 4}


def test_what_deliveries_tell_is_one_producers_observation() -> None:
    waiting = TopicPartition("orders", 7), TopicPartition("logs", 0), TopicPartition("orders", 6)
    suspected = ev.BrokerSuspected(
        broker=2, role=ev.Role.REPLICA, reason=ev.Suspicion.SILENT, waiting=waiting, outstanding=12,
        silence_ms=43.5, usual_ms=None, partitioner="sticky",
    )  # fmt: skip
    value = as_json(to_cloudevent(suspected))
    assert (value["severitynumber"], value["subject"]) == (13, "broker/2")
    assert {name: v for name, v in value["data"].items() if name not in COMMON} == {
        "broker": 2, "role": "replica", "reason": "silent", "waiting": {"orders": "6-7", "logs": "0"},
        "outstanding": 12, "silence_ms": 43.5, "usual_ms": None, "partitioner": "sticky",
    }  # fmt: skip
    assert value["data"]["identity"] == "observation"
    assert to_cloudevent(suspected, observer="a").get_id() != to_cloudevent(suspected, observer="b").get_id()


def test_an_event_of_the_users_own_is_told_by_its_kind() -> None:
    class PaymentHeld(ev.Event):
        kind = "payment_held"

    value = as_json(to_cloudevent(PaymentHeld(cluster_id="c-1")))
    assert value["type"] == "io.github.kafka-partition-events.payment.held.v1"
    assert value.keys().isdisjoint({"subject", "dataschema"})


def test_times_of_another_zone_become_utc_and_keep_their_moment() -> None:
    east = SEEN.astimezone(timezone(timedelta(hours=9)))
    made = only(UP, DOWN, wall_time=east, previous_at=None)
    assert made.get_time() == SEEN
    assert made.get_time().utcoffset() == timedelta(0)  # type: ignore[union-attr]
    snapshot = as_json(made)["data"]["snapshot"]
    assert snapshot["at"] == "2026-11-20T10:00:10.000000Z"
    assert snapshot["prev_at"] is None


@pytest.mark.parametrize(
    ("ids", "text"),
    [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((5, 4, 9, 4), "4-5,9"), (range(12, 24), "12-23")],
)
def test_ranges(ids: tuple[int, ...], text: str) -> None:
    assert ranges(ids) == text


@given(st.frozensets(st.integers(0, 200)))
def test_ranges_lose_nothing(ids: frozenset[int]) -> None:
    assert list(ids_in(ranges(ids))) == sorted(ids)


# -- the base of listeners that pass them on ------------------------------------------------------------


class Collecting(CloudEventsListener):
    """Keeps what it is handed."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.heard: list[tuple[ev.Event, CloudEvent]] = []

    def on_cloudevent(self, event: ev.Event, cloudevent: CloudEvent) -> None:
        self.heard.append((event, cloudevent))

    def gaps(self) -> list[bool]:
        data = [cloudevent.get_data() for _, cloudevent in self.heard]
        return [each["snapshot"]["gap"] for each in data if isinstance(each, dict)]


@pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
def test_each_event_comes_with_its_cloudevent(event: ev.Event) -> None:
    listener = Collecting(observer="a", clock=ManualClock(wall=SEEN))
    event.deliver(listener)
    ((heard, cloudevent),) = listener.heard
    blind = isinstance(event, ev.MetadataRecovered)
    made = to_cloudevent(event, observer="a", recorded_at=SEEN, blind=blind)
    assert heard is event
    assert cloudevent.get_attributes() == made.get_attributes()
    assert cloudevent.get_data() == made.get_data()


def test_what_one_look_found_after_an_outage_happened_within_the_gap_and_later_events_did_not() -> None:
    listener = Collecting()
    recovered = ev.MetadataRecovered(attempts=2, blind_s=10.0, **STAMP)
    found = ev.BrokerRemoved(old=Node(1, "b", 9092), **STAMP)
    for event in (evolve(found, previous_at=BEFORE - timedelta(seconds=1)), recovered, found):
        event.deliver(listener)
    evolve(found, previous_at=SEEN).deliver(listener)
    evolve(found, previous_at=None).deliver(listener)
    assert listener.gaps() == [False, True, True, False, False]
