"""The reducer's state: what it takes, what it refuses, and what a restart of the observer undoes."""

import json

import pytest

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.incidents import Rules
from kafka_partition_events.incidents.reducer import REMEMBERED, Reducer, Standing
from kafka_partition_events.incidents.state import VERSION, decode, encode
from kafka_partition_events.metadata import events as ev
from tests.incident_kit import World, happenings, in_words, moment, suspected, told_by


def reducer_after(world: World, *, at: float = 60) -> Reducer:
    reducer = Reducer()
    told_by(reducer, happenings(world.look(0)))
    world.down(2)
    told_by(reducer, happenings(world.look(at)))
    return reducer


def test_20_000_partitions_of_one_broker_take_what_their_topics_names_take() -> None:
    reducer = reducer_after(World([1, 2, 3], {f"t{n}": [[2]] * 100 for n in range(200)}))
    state = encode(reducer)
    remembered = len(json.dumps(list(reducer.recent)))
    assert len(reducer.recent) == REMEMBERED
    assert len(state) - remembered < 10_000
    back = decode(state, Rules())
    assert back.standing == Standing(held=1)
    assert encode(back) == state
    (opened,) = back.tick(moment(90))
    assert opened is not None
    assert opened.data["offline_count"] == 20_000


@pytest.mark.parametrize("broker", [10_000_000, 167_772_161, 2**31 - 1])
def test_a_broker_whose_id_was_made_of_an_address_is_remembered(broker: int) -> None:
    world, reducer = World([1, broker], {"single": [[broker]]}), Reducer()
    told_by(reducer, happenings(world.look(0)))
    world.down(broker)
    told_by(reducer, happenings(world.look(60)))
    (opened,) = decode(encode(reducer), Rules()).tick(moment(90))
    assert opened.data["brokers"] == [broker]


def test_what_is_stable_and_up_again_is_forgotten() -> None:
    world = World([1, 2, 3], {"single": [[2]]})
    reducer = reducer_after(world)
    world.up(2)
    told_by(reducer, happenings(world.look(70)))
    assert reducer.troubles
    reducer.tick(moment(70 + Rules().flap_window))
    assert not reducer.troubles


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "can't be read"),
        (b"\xff", "can't be read"),
        (b"[]", "can't be read"),
        (b"{}", "can't be read"),
        (b'{"version": 99}', f"has version 99, not {VERSION}"),
        (encode(Reducer()).replace(b'"troubles":[]', b'"troubles":[5]'), "can't be read"),
        (encode(Reducer()).replace(b'"mutes":[]', b'"mutes":[{}]'), "can't be read"),
        (encode(Reducer()).replace(b'"suppressed":{}', b'"suppressed":{"bored":1}'), "can't be read"),
    ],
)
def test_what_is_no_state_is_refused(value: bytes, message: str) -> None:
    with pytest.raises(OutboxError, match=message):
        decode(value, Rules())


def test_a_restarted_observer_takes_back_what_it_knew_of_itself_and_of_its_producers() -> None:
    world = World([1, 2, 3], {"single": [[3]]})
    reducer = reducer_after(world)
    for event in (ev.MetadataUnavailable(error="timed out"), suspected(3)):
        told_by(reducer, happenings([world.tell(event, 60)]))
    opened = [in_words(told) for told in reducer.tick(moment(90))]
    assert opened == [
        "90 s: opened broker/2 (gone)",
        "90 s: opened cluster",
        "90 s: opened broker/3 (suspected by sticky)",
    ]
    closed = [in_words(told) for told in reducer.observer_restarted(moment(100))]
    assert closed == ["100 s: closed cluster", "100 s: closed broker/3 (suspected by sticky)"]
    assert reducer.standing == Standing(open=1)
    assert not reducer.observer_restarted(moment(101))
