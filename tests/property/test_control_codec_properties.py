"""Whatever the bytes are: a reader learns a record or why there is none, soon, and in little memory.

A tracker goes on with its work: nothing stops its rounds.
"""

import json
import time
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_partition_events.control.changes import transitions
from kafka_partition_events.control.groups.state import Probe
from kafka_partition_events.control.protocol.codec import Skipped, decode, decode_or_skip, encode
from kafka_partition_events.control.protocol.records import Change, Command, Given, Lease
from kafka_partition_events.control.protocol.vocabulary import State
from tests.control_kit import TOPIC, damaged, gated
from tests.property.examples import scaled
from tests.unit.control.test_records import RECORDS
from tests.unit.control.test_rounds import World, asks

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
WAYS = st.lists(st.integers(0, 40), min_size=1, max_size=4)
"""Down which way of a document something is to be odd."""


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


@given(st.sampled_from(RECORDS), WAYS, ANYTHING)
def test_records_of_which_one_place_is_something_else(record: Any, way: list[int], odd: Any) -> None:
    document = damaged(json.loads(encode(record)), way, odd)
    is_read_or_refused(type(record), json.dumps(document).encode())


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
@given(cut=st.integers(0, 4_000), odd=st.binary(max_size=3))
def test_records_of_which_some_bytes_are_others(record: Any, cut: int, odd: bytes) -> None:
    value = encode(record)
    at = cut % len(value)
    is_read_or_refused(type(record), value[:at] + odd + value[at + len(odd) :])


# -- a tracker that reads them -----------------------------------------------------------------------------


def take(world: World, record: Any, value: bytes, skipped: Skipped) -> list[Given]:
    """Let the tracker read a record; return it if it is a command."""
    at = ("kpe.any", 0, next(world.offsets))
    if isinstance(record, Command):
        command = decode_or_skip(Command, value, skipped, at)
        return [] if command is None else [Given(command, at[2], world.now_ms)]
    if isinstance(record, Lease) and (lease := decode_or_skip(Lease, value, skipped, at)):
        world.ledger.take_lease(lease, world.now_ms)
    return []


@settings(max_examples=scaled(60))
@given(st.lists(st.tuples(st.sampled_from(RECORDS), WAYS, ANYTHING), max_size=20))
def test_a_growth_among_odd_records_goes_its_way(odd: list[tuple[Any, list[int], Any]]) -> None:
    with patch.object(transitions, "EXPIRES_S", 86_400.0):
        world, skipped = World(probe=Probe(readers={TOPIC: frozenset({"billing"})})), Skipped()
        world.lives("z")
        spec = gated(execute=True, deadline_s=60.0)
        world.round(asks(change_id="wanted", spec=spec))
        for record, way, something in odd:
            value = json.dumps(damaged(json.loads(encode(record)), way, something)).encode()
            assert not world.round(*take(world, record, value, skipped)).faults
        world.now_ms += 7_300_000  # no lease lasts longer
        world.lives("z", holds="wanted", armed=True)
        assert [change.change_id for change in world.round().due] == ["wanted"]
        world.count = 12
        world.round()
        wanted = world.ledger.changes["wanted"]
        assert (wanted.state, wanted.holds) == (State.GATED, True)
        world.round(seconds=61)
        wanted = world.ledger.changes["wanted"]
        assert wanted.opened_by == "deadline"
