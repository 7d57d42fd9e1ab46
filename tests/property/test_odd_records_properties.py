"""A tracker that reads odd records, commands among them, goes on with its work: nothing stops its rounds."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_partition_events.control.changes import transitions
from kafka_partition_events.control.groups.state import Probe
from kafka_partition_events.control.protocol.codec import Skipped, decode_or_skip, encode
from kafka_partition_events.control.protocol.records import Command, Given, Lease
from kafka_partition_events.control.protocol.vocabulary import State
from tests.control_kit import TOPIC, damaged, gated
from tests.property.examples import scaled
from tests.property.test_control_codec_properties import ANYTHING
from tests.unit.control.test_records import RECORDS
from tests.unit.control.test_rounds import World, asks

ODD = st.lists(
    st.tuples(st.sampled_from(RECORDS), st.lists(st.integers(0, 40), min_size=1, max_size=4), ANYTHING),
    max_size=20,
)


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
@given(ODD)
def test_a_growth_among_them_goes_its_way(odd: list[tuple[Any, list[int], Any]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transitions, "EXPIRES_S", 86_400.0)
        _play(World(probe=Probe(readers={TOPIC: frozenset({"billing"})})), Skipped(), odd)


def _play(world: World, skipped: Skipped, odd: list[tuple[Any, list[int], Any]]) -> None:
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
