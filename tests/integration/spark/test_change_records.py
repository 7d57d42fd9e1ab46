"""What the pipeline makes of records of the control topics: what the codec makes of them."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events.control.protocol.codec import NO_PLACE, Skipped, decode_or_skip, encode
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import Ack, Change, Lease
from kafka_partition_events.control.protocol.vocabulary import Status
from tests.changes_kit import ControlTopics, read, records_of, silver_of
from tests.control_kit import NEW, ack, gated, grown, lease
from tests.fleet_kit import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHANGE = grown(gated()).change
LEASE = lease("a", born_ms=7)
ACK = ack("a", Status.CAPPED, positioned=PartitionSet.of(NEW))
REASONS = {"version": "unknown", "malformed": "unparsed"}


def document(record: Any, **fields: Any) -> bytes:
    return json.dumps({**json.loads(encode(record)), **fields}).encode()


def without(record: Any, name: str) -> bytes:
    found = json.loads(encode(record))
    del found[name]
    return json.dumps(found).encode()


SPEC = json.loads(encode(CHANGE))["spec"]
VALUES: list[tuple[Any, bytes]] = [
    *((kind, encode(record)) for kind, record in ((Change, CHANGE), (Lease, LEASE), (Ack, ACK))),
    (Change, document(CHANGE, mood="good")),
    (Change, document(CHANGE, version=2, state=["new"])),
    (Lease, without(LEASE, "version")),
    (Lease, document(ACK)),
    (Ack, b"not json"),
    (Ack, b""),
    (Ack, b'["a"]'),
    (Ack, b'"a"'),
    *((Change, without(CHANGE, name)) for name in ("change_id", "spec", "requested_ms", "state")),
    *((Lease, without(LEASE, name)) for name in ("instance_id", "incarnation", "lease_seq", "view")),
    *((Ack, without(ACK, name)) for name in ("status", "ack_seq", "incarnation")),
    (Change, document(CHANGE, state="lost")),
    (Change, document(CHANGE, revision="7")),
    (Change, document(CHANGE, revision=True)),
    (Change, document(CHANGE, spec={**SPEC, "kind": "delete"})),
    (Change, document(CHANGE, spec=None)),
    (Change, document(CHANGE, uncovered_groups="billing")),
    (Lease, document(LEASE, lease_seq=1.5)),
    (Lease, document(LEASE, ttl_s=60)),
    (Lease, document(LEASE, view=[{"topic": "orders", "seen": 6}])),
    (Lease, document(LEASE, role="boss")),
    (Ack, document(ACK, positioned="x")),
    (Ack, document(ACK, positioned="")),
    (Ack, document(ACK, status="done")),
    (Ack, document(ACK, born_ms="yesterday")),
]  # fmt: skip


def test_what_is_not_understood_is_what_the_codec_passes_over(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.control.records import parse  # noqa: PLC0415

    topics = ControlTopics(partitions=1)
    wanted = []
    for kind, value in VALUES:
        topic = {Change: "changes", Lease: "leases", Ack: "acks"}[kind]
        topics.write(topic, "key", value, 1)
        skipped = Skipped()
        decode_or_skip(kind, value, skipped, NO_PLACE)
        wanted.append((kind.__name__, value, REASONS[next(iter(skipped.counts))] if skipped.counts else None))
    parsed = parse(records_of(spark.newSession(), topics.entries)).select("of", "record.value", "defect")
    kinds = {"changes": "Change", "leases": "Lease", "acks": "Ack"}
    found = [(kinds[row["of"]], row["value"], row["defect"]) for row in parsed.toArrow().to_pylist()]
    assert found == wanted
    assert {defect for _, _, defect in found} == {None, "unknown", "unparsed"}


def test_a_tombstone_retires_a_change_and_one_of_a_lease_tells_nothing(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.control.latest import latest_changes  # noqa: PLC0415

    topics = ControlTopics(partitions=1)
    topics.append(CHANGE, 1)
    topics.write("changes", "c-1|never-heard-of", None, 2)
    topics.write("leases", "a", None, 3)
    silver = silver_of(spark.newSession(), topics.entries)
    assert [(row["change_id"], row["retired"]) for row in rows(latest_changes(silver["changes"]))] == [
        (CHANGE.change_id, False)
    ]
    assert silver["leases"].isEmpty()
    topics.write("changes", f"c-1|{CHANGE.change_id}", None, 4)
    topics.append(CHANGE, 5)
    last = rows(latest_changes(silver_of(spark.newSession(), topics.entries)["changes"]))
    assert [row["change_id"] for row in last if row["retired"]] == [CHANGE.change_id]
    assert not read(topics.entries).changes
