"""Whatever the bytes are: a reader learns a record or why there is none, soon, and in little memory."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.control.protocol.codec import Skipped, decode, decode_or_skip, encode
from kafka_partition_events.control.protocol.records import Change, Command, Lease
from tests.control_kit import damaged
from tests.unit.control.test_records import RECORDS

KINDS: list[Any] = [Command, Change, Lease]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**300, 10**310),
    st.floats(),
    st.text(st.characters(), max_size=30),
    st.sampled_from(["\ud800", "\x1b[2J", "0-999999", "5-4", "²", "a|b", "1e400", "request", "kpe.lease"]),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)


def is_read_or_refused(kind: Any, value: bytes) -> None:
    began = time.process_time()
    skipped = Skipped()
    record = decode_or_skip(kind, value, skipped, ("kpe.any", 0, 7))
    assert time.process_time() - began < 1.0
    if record is not None:
        assert decode(kind, encode(record)) == record
    if skipped.latest is not None:
        assert skipped.latest.reason.isprintable()
        assert len(skipped.latest.reason) < 500


@given(st.sampled_from(KINDS), st.binary(max_size=200))
def test_bytes(kind: Any, value: bytes) -> None:
    is_read_or_refused(kind, value)


@given(st.sampled_from(KINDS), ANYTHING)
def test_json(kind: Any, document: Any) -> None:
    is_read_or_refused(kind, json.dumps(document).encode())


@given(st.sampled_from(RECORDS), st.lists(st.integers(0, 40), min_size=1, max_size=4), ANYTHING)
def test_records_of_which_one_place_is_something_else(record: Any, way: list[int], odd: Any) -> None:
    document = damaged(json.loads(encode(record)), way, odd)
    is_read_or_refused(type(record), json.dumps(document).encode())


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
@given(cut=st.integers(0, 4_000), odd=st.binary(max_size=3))
def test_records_of_which_some_bytes_are_others(record: Any, cut: int, odd: bytes) -> None:
    value = encode(record)
    at = cut % len(value)
    is_read_or_refused(type(record), value[:at] + odd + value[at + len(odd) :])


def test_what_is_kept_of_what_was_skipped_does_not_grow() -> None:
    skipped = Skipped()
    for offset in range(1_000):
        decode_or_skip(Lease, b"{}", skipped, ("kpe.leases", 0, offset))
    assert skipped.counts["malformed"] == 1_000
    assert skipped.latest is not None
    assert skipped.latest.offset == 999
