"""Records as JSON: versions, what is refused, what is passed over and counted."""

import json
from enum import StrEnum
from typing import Any

import pytest

from kafka_partition_events.assets import schemas, validator
from kafka_partition_events.control.protocol import vocabulary
from kafka_partition_events.control.protocol.codec import (
    Oddity,
    RecordError,
    Skipped,
    UnknownVersionError,
    decode,
    decode_or_skip,
    encode,
    key_of,
)
from kafka_partition_events.control.protocol.records import (
    Ack,
    Approval,
    Capacity,
    Change,
    Command,
    Counted,
    Lease,
    Order,
    Refusal,
    TopicUse,
    Totals,
)
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Gate, Kind, Reason, Role, State, Status, Verb
from kafka_partition_events.errors import ConfigurationError
from tests.control_kit import NEW, ONE, ack, draining, gated, growth, lease, shrinking

REFUSAL = Refusal(
    verb=Verb.FINISH, actor="bob", offset=4, at_ms=5, reason=Reason.WRONG_STATE, detail="it is final"
)
CHANGE = Change(
    change_id=ONE,
    number=3,
    tracker_epoch=2,
    revision=7,
    state=State.ROLLING_BACK,
    spec=gated(),
    requested_by="alice",
    why="INC-1",
    approved_by="bob",
    requested_ms=10,
    observed_ms=20,
    deadline_ms=620_020,
    before=Order(limit=4),
    order=Order(limit=6, offline=frozenset({1, 2, 5})),
    gate=Gate.HELD,
    becomes=State.REJECTED,
    reason=Reason.INSTANCE_REJECTED,
    totals=Totals(applied=3, uncovered=1),
    counted=Counted(at_ms=30, state=State.CONVERGING, leases=(7, 0), acks=(3,), writers=4),
    uncovered_groups=("billing",),
    unverified=("the cluster can't be seen",),
    refusals=(REFUSAL,),
)
RECORDS: list[Any] = [
    Command(change_id=ONE, verb=Verb.REQUEST, actor="alice", reason="INC-1", spec=draining()),
    Command(change_id=ONE, verb=Verb.CANCEL, actor="bob"),
    Approval(change_id=ONE, spec=gated(), actor="bob", reason="INC-1"),
    CHANGE,
    lease("a", seen=12, used=4, capacity=Capacity(buffer_memory=65_536, batch_size=16_384), born_ms=9),
    ack("a", Status.CAPPED, limit=Capacity(max_partitions=4), group="g", role=Role.CONSUMER, positioned=NEW),
]
NAMES = {
    Command: "control.command",
    Approval: "control.approval",
    Change: "control.change",
    Lease: "control.lease",
    Ack: "control.ack",
}


def document(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(record))
    return found


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
class TestEveryRecord:
    def test_comes_back_as_it_went(self, record: Any) -> None:
        assert decode(type(record), encode(record)) == record

    def test_keeps_to_its_schema(self, record: Any) -> None:
        validator(NAMES[type(record)]).validate(document(record))

    def test_has_no_field_that_its_schema_does_not_know(self, record: Any) -> None:
        assert document(record).keys() == schemas()[NAMES[type(record)]]["properties"].keys()

    def test_may_have_fields_that_a_later_library_adds(self, record: Any) -> None:
        later = json.dumps({**document(record), "mood": "good"}).encode()
        assert decode(type(record), later) == record

    def test_of_another_version_is_refused(self, record: Any) -> None:
        for version in (0, 2, "1", None):
            with pytest.raises(UnknownVersionError):
                decode(type(record), json.dumps({**document(record), "version": version}).encode())

    def test_says_whose_it_is_by_its_key(self, record: Any) -> None:
        keys = {Command: ONE, Approval: ONE, Change: f"c-1|{ONE}", Lease: "a", Ack: f"{ONE}|a"}
        assert key_of(record) == keys[type(record)]


def test_the_topics_of_a_lease_have_no_field_that_its_schema_does_not_know() -> None:
    (use,) = document(lease("a"))["view"]
    assert use.keys() == schemas()["control.lease"]["properties"]["view"]["items"]["properties"].keys()


def test_a_lease_of_an_earlier_library_tells_no_limit_of_a_topic() -> None:
    told = document(lease("a"))
    told["view"] = [{"topic": "orders", "topic_id": None, "seen": 6, "used": 6}]
    assert decode(Lease, json.dumps(told).encode()).view == (TopicUse(topic="orders", seen=6, used=6),)


def test_what_is_not_understood_is_counted_by_kind_and_told_with_its_place() -> None:
    skipped = Skipped()
    good = document(RECORDS[1])
    values = good, {**good, "version": 2}, {**good, "actor": 7}, {**good, "format": "kpe.ack"}, [1]
    for offset, value in enumerate(values):
        decode_or_skip(Command, json.dumps(value).encode(), skipped, ("kpe.commands", 0, offset))
    assert decode_or_skip(Command, b"\xff", skipped, ("kpe.commands", 0, 5)) is None
    assert skipped.counts == {"version": 1, "malformed": 4}
    assert skipped.latest[1] == Oddity("kpe.commands", 0, 2, "actor can't be 7")
    assert [oddity.offset for oddity in skipped.latest] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ({"actor": None}, "actor can't be None"),
        ({"ttl_s": True}, "ttl_s can't be True"),
        ({"verb": "destroy"}, "verb must be one of request"),
        ({"spec": {"kind": "partitions.increase"}}, "spec lacks cluster_id"),
        ({"spec": {**json.loads(encode(RECORDS[0]))["spec"], "partitions": "3-1"}}, "spec.partitions"),
        ({"spec": {**json.loads(encode(RECORDS[0]))["spec"], "partitions": "0-9999999999"}}, "partitions"),
        ({"spec": {**json.loads(encode(RECORDS[0]))["spec"], "required_groups": [1]}}, r"groups\[0\]"),
        ({"spec": {**json.loads(encode(RECORDS[0]))["spec"], "min_acked_ratio": 2}}, "min_acked_ratio"),
    ],
)
def test_a_refusal_names_the_place(damage: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RecordError, match=complaint):
        decode(Command, json.dumps({**document(RECORDS[0]), **damage}).encode())


HOSTILE: list[tuple[type[Any], Any]] = [
    (Command, b"[" * 60_000),
    (Lease, b'{"a":' * 12_000),
    (Lease, b" " * 70_000),
    (Lease, {"ttl_s": int("9" * 4_000)}),
    (Lease, {"ttl_s": 3_601}),
    (Lease, {"ttl_s": 0}),
    (Lease, {"born_ms": 253_402_300_800_000}),
    (Lease, {"born_ms": -1}),
    (Lease, {"lease_seq": 2**63}),
    (Lease, {"app": "a" * 257}),
    (Lease, {"app": "\x1b[2J"}),
    (Lease, {"app": "one\ntwo"}),
    (Lease, {"view": [{"topic": "orders", "seen": -1, "used": 0}]}),
    (Lease, {"view": [{"topic": "orders", "seen": 1_000_001, "used": 0}]}),
    (Lease, {"view": [{"topic": "orders", "seen": 1, "used": 1}] * 1_001}),
    (Command, {"actor": "\ud800"}),
    (Command, {"reason": "a" * 2_001}),
    (Command, {"change_id": "a|b"}),
    (Command, {"verb": ["request"]}),
    (Command, {"version": [1]}),
    *((Command, {"verb": json.loads("[" * depth + "]" * depth)}) for depth in range(900, 960, 20)),
    (Lease, {"view": [{"topic": f"t-{n}", "seen": 1, "used": 1} for n in range(51)]}),
    (Command, {"ttl_s": float("nan")}),
    (Command, {"ttl_s": float("inf")}),
    (Ack, {"positioned": ",".join(["0-999999"] * 200)}),
    (Ack, {"positioned": "0-10000"}),
    (Ack, {"positioned": "²"}),
    (Ack, {"positioned": "5-4"}),
    (Ack, {"positioned": None}),
    (Ack, {"seen_count": 1e400}),
]


@pytest.mark.parametrize(("kind", "damage"), HOSTILE, ids=lambda value: str(value)[:40])
def test_what_would_cost_its_readers_dear_is_no_record(kind: type[Any], damage: Any) -> None:
    good = next(document(record) for record in RECORDS if type(record) is kind)
    value = damage if isinstance(damage, bytes) else json.dumps({**good, **damage}).encode()
    with pytest.raises(RecordError) as refused:
        decode(kind, value)
    assert len(str(refused.value)) < 400
    assert str(refused.value).isprintable()


def test_what_nobody_would_read_is_not_written() -> None:
    for odd in ({"app": "a\nb"}, {"app": "\ud800"}, {"app": "a" * 300}, {"ttl_s": 1e9}):
        with pytest.raises(RecordError):
            encode(lease("a", **odd))


@pytest.mark.parametrize(
    "fields",
    [
        {"to_count": 6},
        {"to_count": 3},
        {"from_count": 0},
        {"topic": None},
        {"broker": 1},
        {"kind": Kind.OFFLINE},
        {"kind": Kind.DECREASE, "gate": vocabulary.GateRule.CONSUMERS_FIRST, "to_count": 3},
        {"deadline_s": 0.0},
        {"expires_s": float("inf")},
        {"settle_s": -1.0},
        {"min_acked_ratio": 0.0},
        {"to_count": 10_007},
        {"kind": Kind.DECREASE, "from_count": 10_002, "to_count": 1},
        {"kind": Kind.OFFLINE, "partitions": frozenset(range(10_001)), "from_count": 0, "to_count": 0},
    ],
)
def test_a_specification_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="a change of the kind"):
        growth(**fields)


def test_a_specification_tells_what_it_is_about() -> None:
    assert (growth().subject, growth().affected) == ("c-1|topic/orders", NEW)
    assert shrinking().affected == {4, 5}
    assert draining().affected == {1, 4}
    of_broker = Spec(kind=Kind.ONLINE, cluster_id="c-1", broker=2)
    assert (of_broker.subject, of_broker.affected) == ("c-1|broker/2", frozenset())


def test_a_lease_with_fifty_topics_stays_small() -> None:
    view = tuple(
        TopicUse(topic=f"some.long.topic.name-{n}", topic_id="A" * 22, seen=1000, used=1000)
        for n in range(50)
    )
    assert len(encode(lease("a", view=view))) < 8_192


@pytest.mark.parametrize(
    ("name", "words_there_are"),
    [
        ("verb", vocabulary.Verb),
        ("role", vocabulary.Role),
        ("state", vocabulary.State),
        ("status", vocabulary.Status),
        ("reason", vocabulary.Reason),
    ],
)
def test_schemas_list_the_words_that_there_are(name: str, words_there_are: type[StrEnum]) -> None:
    assert schemas()["control"]["$defs"][name]["enum"] == [word.value for word in words_there_are]
