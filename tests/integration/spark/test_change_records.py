"""What the pipeline makes of records of changes: what the codec makes of them."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.control.protocol.codec import NO_PLACE, Skipped, decode_or_skip, encode
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.spark.control.convergence import change_convergence
from kafka_partition_events.spark.control.records import rows as read
from tests.control_kit import gated, grown
from tests.fleet_kit import rows

pytestmark = pytest.mark.spark

CHANGE = grown(gated()).change
REASONS = {"version": "unknown", "malformed": "unparsed"}
KEY = CHANGE.change_id
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def document(record: Any, **fields: Any) -> bytes:
    return json.dumps({**json.loads(encode(record)), **fields}).encode()


def without(record: Any, name: str) -> bytes:
    found = json.loads(encode(record))
    del found[name]
    return json.dumps(found).encode()


SPEC = json.loads(encode(CHANGE))["spec"]
VALUES: list[bytes] = [
    encode(CHANGE),
    document(CHANGE, mood="good"),
    document(CHANGE, version=2, state=["new"]),
    without(CHANGE, "version"),
    b"not json",
    b"",
    b'["a"]',
    b'"a"',
    *(without(CHANGE, name) for name in ("change_id", "spec", "requested_ms", "state")),
    document(CHANGE, state="lost"),
    document(CHANGE, revision="7"),
    document(CHANGE, revision=True),
    document(CHANGE, revision=1.5),
    document(CHANGE, spec={**SPEC, "kind": "delete"}),
    document(CHANGE, spec=None),
    document(CHANGE, requested_ms="yesterday"),
    document(CHANGE, uncovered_groups="billing"),
]


def told(spark: SparkSession, records: Iterable[tuple[str, bytes | None]]) -> DataFrame:
    """Return the rows of ``silver/changes`` of keys and values, one appended each millisecond."""
    written = [
        (key.encode(), value, "kpe.changes", 0, number, _EPOCH + timedelta(milliseconds=number))
        for number, (key, value) in enumerate(records)
    ]
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
    return read(spark.createDataFrame(written, schema))


def test_what_is_not_understood_is_what_the_codec_passes_over(spark: SparkSession) -> None:
    wanted = []
    for value in VALUES:
        skipped = Skipped()
        decode_or_skip(Change, value, skipped, NO_PLACE)
        wanted.append(REASONS[next(iter(skipped.counts))] if skipped.counts else None)
    found = told(spark.newSession(), [("key", value) for value in VALUES]).toArrow().to_pylist()
    assert [row["defect"] for row in found] == wanted
    assert {row["defect"] for row in found} == {None, "unknown", "unparsed"}
    assert [row["value"] for row in found] == [
        value if defect else None for value, defect in zip(VALUES, wanted, strict=True)
    ]


def test_a_tombstone_retires_a_change_whenever_it_comes(spark: SparkSession) -> None:
    def found(*records: tuple[str, bytes | None]) -> list[tuple[str, bool]]:
        made = rows(change_convergence(told(spark.newSession(), records)))
        return [(row["change_id"], row["retired"]) for row in made]

    change = KEY, encode(CHANGE)
    assert found(change, ("never-heard-of", None)) == [(CHANGE.change_id, False)]
    assert found(change, (KEY, None), change) == [(CHANGE.change_id, True)]
