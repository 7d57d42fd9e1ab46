"""What the judge of a campaign takes for a false event, a missing one, a page too many."""

from math import inf
from typing import Any

import pytest

from tests.chaos import event_checker as checker
from tests.chaos.checker import Check
from tests.chaos.history import History, Page, Posted, Told, unfolded
from tests.chaos.truth import Truth, parse

IN_BASE64, ID = "EjRWeJCrze8SNFZ4kKvN7w", "12345678-90ab-cdef-1234-567890abcdef"
HEAD = "| offset: 7 CreateTime: {at} keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: "


def line(at: int, kind: str, **data: Any) -> str:
    text = str({"type": kind, "version": 0, "data": data}).replace("'", '"').replace("True", "true")
    return HEAD.format(at=at * 1_000) + text.replace("False", "false")


def batch(*lines: str) -> list[str]:
    return ["baseOffset: 7 lastOffset: 8 count: 2 CreateTime: 1 ...", *lines]


def partition(at: int, id_: int) -> str:
    born = {"leader": 1, "leaderEpoch": 0, "isr": [1, 2], "replicas": [1, 2]}
    return line(at, "PARTITION_RECORD", partitionId=id_, topicId=IN_BASE64, **born)


def change(at: int, **data: Any) -> str:
    return line(at, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=IN_BASE64, **data)


LOG = [
    *batch(line(90, "REGISTER_BROKER_RECORD", brokerId=1, fenced=True)),
    *batch(line(91, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, fenced=-1)),
    *batch(line(100, "TOPIC_RECORD", name="orders", topicId=IN_BASE64), partition(100, 0), partition(100, 1)),
    *batch(partition(200, 2), partition(200, 3)),
    *batch(change(300, isr=[1])),
    *batch(change(310, leader=-1), line(310, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, fenced=1)),
    *batch(
        change(500, leader=1, isr=[1]), line(500, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=1, fenced=-1)
    ),
    *batch(line(900, "REMOVE_TOPIC_RECORD", topicId=IN_BASE64)),
]


def truth() -> Truth:
    return parse(LOG)


def test_what_is_read_of_the_log() -> None:
    topic = truth().topics[ID]
    assert (topic.name, topic.created, topic.removed) == ("orders", 100.0, 900.0)
    assert topic.counts == [(100.0, 2), (200.0, 4)]
    assert [topic.count_at(at) for at in (50, 150, 200, 800)] == [0, 2, 4, 4]
    assert topic.sizes(150, 250) == {2, 4}
    states = [(state.epoch, state.leader, state.isr) for state in topic.states[0]]
    assert states == [(0, 1, (1, 2)), (0, 1, (1,)), (1, -1, (1,)), (2, 1, (1,))]
    assert topic.leaderless(0) == [(310.0, 500.0)]
    assert topic.leaderless(1) == []


@pytest.mark.parametrize(
    ("begin", "end", "was"), [(92, 300, False), (92, 310, True), (400, 450, True), (501, 800, False)]
)
def test_when_a_broker_was_fenced(begin: float, end: float, was: bool) -> None:
    assert truth().was_fenced(1, begin, end) is was


# -- events --------------------------------------------------------------------------------------------


def told(name: str, at: float, id_: str = "e1", prev_at: float | None = None, **data: Any) -> Told:
    known = {"topic": "orders", "topic_id": ID, "identity": "transition"}
    return Told(id_, name, {**known, **data}, at - 1 if prev_at is None else prev_at, at)


def led(name: str, at: float, leader: int | None, epoch: int, **more: Any) -> Told:
    after = {"leader": leader, "leader_epoch": epoch, "isr": [1], "replicas": [1, 2]}
    return told(name, at, partitions="0", after=after, **more)


def grew(at: float, before: int, after: int, **more: Any) -> Told:
    return told("partitions.added", at, before={"count": before}, after={"count": after}, **more)


def history(*events: Told, **more: Any) -> History:
    return History([], [], truth(), [(800.0, 890.0)], told=list(events), **more)


def found(check: Check, seen: History) -> list[str]:
    return [violation.check for violation in check(seen)]


TRUE = [
    grew(201, 2, 4),
    led("partition.offline", 311, None, 1),
    led("partition.offline", 311, None, 0),  # its leader is not listed any more
    led("partition.online", 501, 1, 2),
    led("isr.shrunk", 301, 1, 0),
    told("topic.created", 101, after={"count": 2}),
    told("topic.deleted", 901),
    told("broker.left", 311, broker=1),
    told("broker.joined", 501, broker=1),
    told("metadata.unavailable", 50),
]
FALSE = [
    grew(150, 2, 4),
    grew(201, 2, 5),
    grew(201, 3, 4),
    led("partition.offline", 305, None, 1),
    led("partition.offline", 301, None, 0),
    led("leadership.moved", 501, 2, 2),
    led("leadership.moved", 501, 1, 3),
    told("isr.expanded", 501, partitions="0", after={"isr": [1, 2, 3], "replicas": [1, 2]}),
    told("topic.created", 98, after={"count": 2}),
    told("topic.created", 101, topic_id="t9", after={"count": 2}),
    told("topic.deleted", 850),
    told("topic.recreated", 950, before={"topic_id": "t0"}, after={"count": 2}),
    told("broker.left", 200, broker=1),
    told("broker.joined", 501, broker=2),
]


@pytest.mark.parametrize("event", TRUE, ids=lambda event: event.name)
def test_a_true_event(event: Told) -> None:
    assert found(checker.events_are_true, history(event)) == []


@pytest.mark.parametrize("event", FALSE, ids=lambda event: event.name)
def test_a_false_event(event: Told) -> None:
    assert found(checker.events_are_true, history(event)) == ["false event"]


def test_what_lasted_must_be_told() -> None:
    first = told("topic.created", 95, after={"count": 2})
    offline, growth = led("partition.offline", 312, None, 1), grew(201, 2, 4)
    assert found(checker.what_lasted_was_told, history(first, growth, offline)) == []
    assert found(checker.what_lasted_was_told, history(first, offline)) == ["untold"]
    assert found(checker.what_lasted_was_told, history(first, growth)) == ["untold"]
    assert found(checker.what_lasted_was_told, history(grew(450, 2, 4))) == []  # nobody looked before


def test_one_id_is_one_transition() -> None:
    assert found(checker.one_id_is_one_transition, history(grew(201, 2, 4), grew(230, 2, 4))) == []
    assert found(checker.one_id_is_one_transition, history(grew(201, 2, 4), grew(201, 2, 3))) == [
        "two of one id"
    ]


def test_a_digest_is_unfolded() -> None:
    snapshot = {"prev_at": None, "at": "12"}
    change = {"id": "c1", "partition": 3, "after": {"leader": 1}}
    digest = {
        "id": "d1",
        "type": "io.x.partition.offline.v2",
        "data": {"topic_id": ID, "snapshot": snapshot, "changes": [change, {**change, "id": "c2"}]},
    }
    one, other = unfolded(digest, float)
    assert (one.id, other.id, one.name, one.prev_at, one.at) == ("c1", "c2", "partition.offline", -inf, 12.0)
    assert (one.data["topic_id"], one.data["partitions"], one.data["after"]) == (ID, "3", {"leader": 1})
    alone = {**digest, "type": "io.x.topic.created.v1", "data": {"topic_id": ID, "snapshot": snapshot}}
    assert [each.id for each in unfolded(alone, float)] == ["d1"]


# -- pages ---------------------------------------------------------------------------------------------


def page(at: float, id_: str = "p1", broker: int = 1, **more: Any) -> Page:
    return Page(id_, "broker.left", at, True, {"broker": broker, **more})


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ([page(340.0)], []),
        ([page(340.0), page(350.0), page(345.0, id_="p2")], []),  # at least once, from each observer
        ([page(340.0), page(341.0, note="else")], ["two bodies"]),
        ([page(340.0, observer="one"), page(341.0, observer="other")], []),
        ([page(250.0)], ["false page"]),
    ],
)
def test_pages(pages: list[Page], expected: list[str]) -> None:
    assert found(checker.pages_are_true, history(pages=pages)) == expected


def test_a_lasting_outage_is_paged() -> None:
    assert found(checker.lasting_outages_are_paged, history(pages=[page(340.0)])) == []
    assert found(checker.lasting_outages_are_paged, history(pages=[page(340.0, broker=2)])) == ["no page"]


# -- alerts --------------------------------------------------------------------------------------------


def posted(at: float, until: float, subject: str = "1", name: str = "KafkaBrokerMissing") -> Posted:
    return Posted(name, subject, at, until)


@pytest.mark.parametrize(
    ("posts", "expected"),
    [
        ([posted(340.0, 360.0)], []),
        ([posted(520.0, 540.0)], []),  # an observer that was held up
        ([posted(280.0, 300.0)], ["false alert"]),
        ([posted(280.0, 270.0)], []),  # it says that it is over
        ([posted(340.0, 360.0, "orders", "KafkaPartitionsOffline")], []),
        ([posted(280.0, 300.0, "orders", "KafkaPartitionsOffline")], ["false alert"]),
        ([posted(340.0, 360.0, "others", "KafkaPartitionsOffline")], ["false alert"]),
        ([posted(280.0, 300.0, "orders", "KafkaPartitionsUnderReplicated")], []),  # not judged
    ],
)
def test_what_fires_was_so(posts: list[Posted], expected: list[str]) -> None:
    assert found(checker.alerts_are_true, history(posted=posts)) == expected


@pytest.mark.parametrize(
    ("posts", "expected"),
    [
        ([posted(340.0, 360.0)], []),
        ([posted(340.0, 330.0)], ["no alert"]),
        ([posted(510.0, 530.0)], ["no alert"]),
        ([posted(340.0, 360.0, "2")], ["no alert"]),
    ],
)
def test_what_lasts_fires(posts: list[Posted], expected: list[str]) -> None:
    assert found(checker.lasting_outages_are_alerted, history(posted=posts)) == expected


def test_what_is_over_does_not_fire_at_the_end_of_a_calm() -> None:
    fires, over = posted(880.0, 900.0), posted(885.0, 885.0)
    assert found(checker.alerts_end_in_calm, history(posted=[fires])) == ["alert in calm"]
    assert found(checker.alerts_end_in_calm, history(posted=[fires, over])) == []
    assert (
        found(checker.alerts_end_in_calm, history(posted=[posted(860.0, 880.0)])) == []
    )  # it ends by itself
