"""Records as JSON: versions, what is refused, what is passed over and counted."""

import json
from enum import StrEnum
from typing import Any

import pytest

from kafka_partition_events.assets import schemas
from kafka_partition_events.control.protocol import vocabulary
from kafka_partition_events.control.protocol.codec import (
    Oddity,
    RecordError,
    Skipped,
    UnknownVersionError,
    decode,
    decode_or_skip,
    encode,
)
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import (
    Answer,
    Change,
    Command,
    GroupProgress,
    Lease,
    TopicUse,
    Totals,
)
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from tests.control_kit import NEW, ONE, gated, lease
from tests.schema_kit import validator

ANSWER = Answer(offset=4, at_ms=5, verb=Verb.CANCEL, actor="bob", refused=True, detail="it is final")
CHANGE = Change(
    change_id=ONE,
    tracker_epoch=2,
    revision=7,
    state=State.OVERDUE,
    spec=gated(),
    requested_by="alice",
    why="INC-1",
    requested_ms=10,
    observed_ms=20,
    opened_by="deadline",
    totals=Totals(applied=3, unarmed=1),
    groups=(GroupProgress(group="billing"),),
    unverified=("the cluster can't be seen",),
    answers=(ANSWER,),
)
RECORDS: list[Any] = [
    Command(change_id=ONE, verb=Verb.REQUEST, actor="alice", reason="INC-1", spec=gated()),
    Command(change_id=ONE, verb=Verb.CANCEL, actor="bob"),
    CHANGE,
    lease("a", seen=12, used=4, born_ms=9, group="g"),
    lease("b", holds=ONE, armed=True, positioned=PartitionSet.of(NEW)),
]
NAMES = {Command: "control.command", Change: "control.change", Lease: "control.lease"}


def document(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(record))
    return found


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
class TestEveryRecord:
    def test_keeps_to_its_schema(self, record: Any) -> None:
        validator(NAMES[type(record)]).validate(document(record))

    def test_has_no_field_that_its_schema_does_not_know(self, record: Any) -> None:
        assert document(record).keys() == schemas()[NAMES[type(record)]]["properties"].keys()

    def test_comes_back_as_it_went_and_may_have_fields_that_a_later_library_adds(self, record: Any) -> None:
        for added in ({}, {"mood": "good"}):
            assert decode(type(record), json.dumps({**document(record), **added}).encode()) == record

    def test_of_another_version_is_refused(self, record: Any) -> None:
        for version in (0, 2, "1", None):
            with pytest.raises(UnknownVersionError):
                decode(type(record), json.dumps({**document(record), "version": version}).encode())


def test_the_topics_of_a_lease_have_no_field_that_its_schema_does_not_know() -> None:
    (use,) = document(lease("a"))["view"]
    assert use.keys() == schemas()["control.lease"]["properties"]["view"]["items"]["properties"].keys()


def test_what_is_not_understood_is_counted_by_kind_and_told_with_its_place() -> None:
    skipped = Skipped()
    good = document(RECORDS[1])
    values = good, {**good, "version": 2}, {**good, "actor": 7}, {**good, "format": "kpe.lease"}, [1]
    for offset, value in enumerate(values):
        decode_or_skip(Command, json.dumps(value).encode(), skipped, ("kpe.commands", 0, offset))
    assert decode_or_skip(Command, b"\xff", skipped, ("kpe.commands", 0, 5)) is None
    assert skipped.counts == {"version": 1, "malformed": 4}
    assert skipped.latest is not None
    assert skipped.latest.offset == 5
    decode_or_skip(Command, json.dumps({**good, "actor": 7}).encode(), skipped, ("kpe.commands", 0, 6))
    assert skipped.latest == Oddity("kpe.commands", 0, 6, "actor can't be 7")


def nested(depth: int) -> list[Any]:
    """Return a list in a list, so many times; JSON's decoder would take the stack of who imports this."""
    inner: list[Any] = []
    for _ in range(depth - 1):
        inner = [inner]
    return inner


HOSTILE: list[tuple[type[Any], Any]] = [
    (Command, b"[" * 60_000),
    (Lease, b'{"a":' * 12_000),
    (Lease, b" " * 70_000),
    (Lease, {"ttl_s": int("9" * 4_000)}),
    (Lease, {"ttl_s": 3_601}),
    (Lease, {"ttl_s": -1}),
    (Lease, {"born_ms": 253_402_300_800_000}),
    (Lease, {"born_ms": -1}),
    (Lease, {"lease_seq": 2**63}),
    (Lease, {"group": "a" * 2_001}),
    (Lease, {"group": "\x1b[2J"}),
    (Lease, {"group": "one\ntwo"}),
    (Lease, {"view": [{"topic": "orders", "seen": -1, "used": 0}]}),
    (Lease, {"view": [{"topic": "orders", "seen": 1, "used": 1}] * 1_001}),
    (Command, {"actor": "\ud800"}),
    (Command, {"reason": "a" * 2_001}),
    (Command, {"verb": ["request"]}),
    (Command, {"version": [1]}),
    *(
        (Command, {"spec": {**json.loads(encode(RECORDS[0]))["spec"], "topic": topic}})
        for topic in ("", "bad/name", "..", "t" * 250)
    ),
    *((Command, {"verb": nested(depth)}) for depth in range(900, 960, 20)),
    (Lease, {"ttl_s": float("nan")}),
    (Lease, {"ttl_s": float("inf")}),
    *(
        (Lease, {"view": [{"topic": "orders", "seen": 1, "used": 1, "positioned": odd}]})
        for odd in (",".join(["0-999999"] * 200), "0-10000", "²", "5-4", None, 1e400)
    ),
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
    for odd in ({"group": "a\nb"}, {"group": "\ud800"}, {"group": "a" * 2_001}, {"ttl_s": -1.0}):
        with pytest.raises(RecordError):
            encode(lease("a", **odd))


def test_a_lease_with_fifty_topics_stays_small() -> None:
    names = [f"some.long.topic.name-{n}" for n in range(50)]
    view = tuple(TopicUse(topic=name, topic_id="A" * 22, seen=1000, used=1000) for name in names)
    assert len(encode(lease("a", view=view))) < 10_240


@pytest.mark.parametrize(
    ("name", "words_there_are"), [("verb", vocabulary.Verb), ("state", vocabulary.State)]
)
def test_schemas_list_the_words_that_there_are(name: str, words_there_are: type[StrEnum]) -> None:
    assert schemas()["control"]["$defs"][name]["enum"] == [word.value for word in words_there_are]
