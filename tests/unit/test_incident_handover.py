"""Who was told of a beginning is told of the end, whoever leads by then; and storms are few pages."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.incidents import Rules
from kafka_partition_events.incidents.causes import Cause
from kafka_partition_events.incidents.decisions import Decision
from kafka_partition_events.incidents.handover import Opened, decode_opened, encode_opened
from kafka_partition_events.incidents.inputs import Happening
from kafka_partition_events.incidents.outputs import Notice
from kafka_partition_events.incidents.reducer import Reducer
from kafka_partition_events.incidents.state import decode, encode
from tests.incident_kit import World, happenings, in_words, moment, told_by

RULES = Rules(flap_transitions=4, flap_window=600)
BROKER = Cause(broker=2)
OTHER_ID = "0f0f0f0f-0000-5000-8000-000000000000"


class Standby:
    """An observer that has told nobody what its reducer says, until it leads."""

    def __init__(self) -> None:
        self.world, self.reducer = World([1, 2, 3], {"single": [[2]]}), Reducer(rules=RULES)
        self.look(0)

    def look(self, at: float) -> list[str]:
        words = [in_words(told) for told in told_by(self.reducer, happenings(self.world.look(at)))]
        return words + self.tick(at)

    def down(self, at: float) -> list[str]:
        self.world.down(2)
        return self.look(at)

    def up(self, at: float) -> list[str]:
        self.world.up(2)
        return self.look(at)

    def tick(self, at: float) -> list[str]:
        return [in_words(told) for told in self.reducer.tick(moment(at))]

    def lead(self, at: float, *theirs: Opened, waiting: bool = False) -> list[str]:
        own = {told.id for told in self.reducer.told_open} if waiting else set[str]()
        notices = self.reducer.take_over(theirs, own, moment(at))
        self.reducer = decode(encode(self.reducer), RULES)
        return [in_words(notice) for notice in notices] + self.tick(at)


def opened(cause: Cause = BROKER, id_: str = OTHER_ID, at: float = 95) -> Opened:
    return Opened(cause=cause, id=id_, opened_at=moment(at))


@pytest.fixture
def standby() -> Standby:
    return Standby()


def test_what_both_know_goes_on_under_the_id_that_was_told(standby: Standby) -> None:
    standby.down(60)
    assert standby.tick(100) == ["90 s: opened broker/2 (gone) single:0"]
    assert standby.lead(200, opened()) == []
    assert standby.reducer.told_open == [opened(at=90)]
    assert standby.up(300) == ["300 s: closed broker/2 single:0"]


def test_what_is_held_down_here_and_was_told_is_not_told_again(standby: Standby) -> None:
    standby.down(60)
    assert standby.lead(80, opened(at=75)) == []
    assert standby.tick(200) == []
    assert standby.up(300) == ["300 s: closed broker/2 single:0"]


def test_what_is_over_here_is_told_as_over(standby: Standby) -> None:
    theirs = [opened(), opened(Cause(topic="orders")), opened(Cause())]
    assert standby.lead(200, *theirs) == [
        "200 s: closed broker/2",
        "200 s: closed topic/orders",
        "200 s: closed cluster",
    ]
    assert standby.reducer.told_open == []


def test_what_reached_nobody_is_told_anew(standby: Standby) -> None:
    standby.down(60)
    standby.tick(100)
    assert standby.lead(200) == ["200 s: opened broker/2 (gone) single:0"]
    assert len(standby.reducer.told_open) == 1


def test_what_is_yet_to_be_delivered_is_not_told_twice(standby: Standby) -> None:
    standby.down(60)
    standby.tick(100)
    assert standby.lead(200, waiting=True) == []


def test_what_was_told_under_another_id_and_will_be_under_this_one_is_closed_once(standby: Standby) -> None:
    standby.down(60)
    standby.tick(100)
    assert standby.lead(110, opened(), waiting=True) == ["110 s: closed broker/2"]
    ((mine),) = standby.reducer.told_open
    assert mine.id != OTHER_ID
    assert standby.up(300) == ["300 s: closed broker/2 single:0"]


def test_an_outage_is_told_although_this_one_took_the_last_two_for_flapping(standby: Standby) -> None:
    """The clock of the former leader was wrong: for it they were two, both over and told so."""
    standby.down(60)
    standby.tick(100)
    standby.up(150)
    standby.down(200)
    assert standby.up(260)[1:] == ["260 s: flapping started broker/2: 4 transitions, 150 s down"]
    assert len(standby.reducer.told_open) == 1  # as far as this one knows
    assert standby.lead(300) == []
    assert standby.reducer.told_open == []
    standby.down(400)
    assert standby.tick(440) == ["430 s: opened broker/2 (gone) single:0"]


def test_what_somebody_closed_stays_closed(standby: Standby) -> None:
    standby.down(60)
    standby.tick(100)
    word = Decision(verb="close", cause="broker/2", at=moment(110), author="ada", reason="scrapped")
    assert [n.name for n in standby.reducer.decide(word, moment(110))] == ["incident.closed"]
    assert standby.lead(200, opened()) == ["200 s: closed broker/2"]
    assert standby.lead(300) == []


@given(
    st.one_of(st.none(), st.builds(Cause, broker=st.integers(0, 2**31 - 1)), st.just(Cause(topic="a.b_C-1")))
)
def test_what_is_written_can_be_read(cause: Cause | None) -> None:
    told = opened(cause or Cause())
    assert decode_opened(encode_opened(told)) == told


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["cause", "id", "opened_at", "broker", "topic"]), x
)))  # fmt: skip
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        decode_opened(json.dumps(value).encode())


def offline(topic: str, partition: int, second: float) -> Happening:
    """The last two replicas in sync went together, and nobody knows who led."""
    return Happening(
        id=f"{topic}-{partition}-{second}",
        name="partition.offline",
        cluster="c-1",
        severity=17,
        at=moment(second),
        data={"topic": topic, "partitions": str(partition), "before": None, "after": {"isr": [2, 3]}},
    )


def test_beyond_so_many_topics_at_a_time_the_rest_is_one_incident() -> None:
    reducer = Reducer(rules=Rules(max_topics=2, hold_down=10))
    found = [offline(topic, partition, 1) for topic in "abcd" for partition in (0, 1)]
    for happening in found:
        reducer.hear(happening)
    told = reducer.tick(moment(12))
    assert [in_words(notice) for notice in told] == [
        "11 s: opened topic/a a:0-1",
        "11 s: opened topic/b b:0-1",
        "11 s: opened topic/* c:0-1 d:0-1",
    ]
    back: list[Notice] = []
    for happening in found:
        up = Happening(id=f"{happening.id}-up", name="partition.online", at=moment(60), data=happening.data)
        back += reducer.hear(up)[0]
    assert [in_words(notice) for notice in back] == [
        "60 s: closed topic/a a:0-1",
        "60 s: closed topic/b b:0-1",
        "60 s: closed topic/* c:0-1 d:0-1",
    ]
