"""The lane's state: what it takes, what it refuses, and what a restart of the observer undoes."""

import json

import pytest

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.incidents import Rules
from kafka_partition_events.incidents.lane import REMEMBERED, Lane, Standing
from kafka_partition_events.incidents.state import VERSION, decode, encode
from kafka_partition_events.metadata import events as ev
from tests.incident_kit import World, happenings, in_words, moment, suspected, told_by


def lane_after(world: World, *, at: float = 60) -> Lane:
    lane = Lane()
    told_by(lane, happenings(world.look(0)))
    world.down(2)
    told_by(lane, happenings(world.look(at)))
    return lane


def test_20_000_partitions_of_one_broker_take_what_their_topics_names_take() -> None:
    lane = lane_after(World([1, 2, 3], {f"t{n}": [[2]] * 100 for n in range(200)}))
    state = encode(lane)
    remembered = len(json.dumps(list(lane.recent)))
    assert len(lane.recent) == REMEMBERED
    assert len(state) - remembered < 10_000
    back = decode(state, Rules())
    assert back.standing == Standing(held=1)
    assert encode(back) == state
    (opened,) = back.tick(moment(90))
    assert opened is not None
    assert opened.data["offline_count"] == 20_000


@pytest.mark.parametrize("broker", [10_000_000, 167_772_161, 2**31 - 1])
def test_a_broker_whose_id_was_made_of_an_address_is_remembered(broker: int) -> None:
    world, lane = World([1, broker], {"single": [[broker]]}), Lane()
    told_by(lane, happenings(world.look(0)))
    world.down(broker)
    told_by(lane, happenings(world.look(60)))
    (opened,) = decode(encode(lane), Rules()).tick(moment(90))
    assert opened.data["brokers"] == [broker]


def test_what_is_stable_and_up_again_is_forgotten() -> None:
    world = World([1, 2, 3], {"single": [[2]]})
    lane = lane_after(world)
    world.up(2)
    told_by(lane, happenings(world.look(70)))
    assert lane.troubles
    lane.tick(moment(70 + Rules().flap_window))
    assert not lane.troubles


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "can't be read"),
        (b"\xff", "can't be read"),
        (b"[]", "can't be read"),
        (b"{}", "can't be read"),
        (b'{"version": 99}', f"has version 99, not {VERSION}"),
        (encode(Lane()).replace(b'"troubles":[]', b'"troubles":[5]'), "can't be read"),
        (encode(Lane()).replace(b'"mutes":[]', b'"mutes":[{}]'), "can't be read"),
        (encode(Lane()).replace(b'"suppressed":{}', b'"suppressed":{"bored":1}'), "can't be read"),
    ],
)
def test_what_is_no_state_is_refused(value: bytes, message: str) -> None:
    with pytest.raises(OutboxError, match=message):
        decode(value, Rules())


def test_a_restarted_observer_takes_back_what_it_knew_of_itself_and_of_its_producers() -> None:
    world = World([1, 2, 3], {"single": [[3]]})
    lane = lane_after(world)
    for event in (ev.MetadataUnavailable(error="timed out"), suspected(3)):
        told_by(lane, happenings([world.tell(event, 60)]))
    opened = [in_words(told) for told in lane.tick(moment(90))]
    assert opened == [
        "90 s: opened broker/2 (gone)",
        "90 s: opened cluster",
        "90 s: opened broker/3 (suspected by sticky)",
    ]
    closed = [in_words(told) for told in lane.observer_restarted(moment(100))]
    assert closed == ["100 s: closed cluster", "100 s: closed broker/3 (suspected by sticky)"]
    assert lane.standing == Standing(open=1)
    assert not lane.observer_restarted(moment(101))
