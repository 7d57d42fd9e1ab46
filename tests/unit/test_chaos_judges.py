"""What the judge of a campaign takes for a violation: each check with a good history and a bad one."""

from math import inf
from typing import Any

import pytest
from attrs import evolve

from tests.chaos import checker, steady
from tests.chaos import event_checker as events
from tests.chaos.checker import Check
from tests.chaos.history import History, Life, Posted, Run, Sent, Told
from tests.chaos.plan import plan
from tests.chaos.promises import CAP
from tests.chaos.truth import Truth, parse

CREATED, READ = 100.0, 900.0
IN_BASE64, ID = "EjRWeJCrze8SNFZ4kKvN7w", "12345678-90ab-cdef-1234-567890abcdef"


def line(at: float, kind: str, **data: Any) -> str:
    """Return a line as Kafka's own tool dumps it."""
    text = str({"type": kind, "version": 0, "data": data}).replace("'", '"').replace("True", "true")
    return f"| offset: 7 CreateTime: {at * 1_000:.0f} keySize: -1 headerKeys: [] payload: {text}"


def partition(at: float, number: int) -> str:
    born = {"leader": 1, "leaderEpoch": 0, "isr": [1, 2], "replicas": [1, 2]}
    return line(at, "PARTITION_RECORD", partitionId=number, topicId=IN_BASE64, **born)


def truth_of(topic: str) -> Truth:
    """A topic with 6 partitions, from 300 on 7, whose leader, broker 1, is away between 310 and 500."""
    batch, change = "baseOffset: 7", {"partitionId": 0, "topicId": IN_BASE64}
    fenced, back = {"brokerId": 1, "fenced": 1}, {"brokerId": 1, "fenced": -1}
    return parse(
        [
            batch, line(90, "REGISTER_BROKER_RECORD", **fenced),
            batch, line(91, "BROKER_REGISTRATION_CHANGE_RECORD", **back),
            batch, line(CREATED, "TOPIC_RECORD", name=topic, topicId=IN_BASE64),
            *(partition(CREATED, number) for number in range(6)),
            batch, partition(300, 6),
            batch, line(310, "PARTITION_CHANGE_RECORD", **change, leader=-1),
            line(310, "BROKER_REGISTRATION_CHANGE_RECORD", **fenced),
            batch, line(500, "PARTITION_CHANGE_RECORD", **change, leader=1, isr=[1]),
            line(500, "BROKER_REGISTRATION_CHANGE_RECORD", **back),
        ]
    )  # fmt: skip


def sent(number: int, topic: str = "orders", key: str | None = None, at: float = 200.0, **more: Any) -> Sent:
    known = {"outcomes": 1, "heard_at": at + 1, "acked": True, "partition": 0, "offset": number}
    return Sent(number, topic, key, at, **{**known, **more})


def seen(writer: str, *records: Sent, there: Any = None, ended_at: float = 810.0, **more: Any) -> History:
    """A history of one producer; `there` is where which record lies, by default where it was reported."""
    run = Run(writer, 1, {each.number: each for each in records}, 110.0, 800.0, ended_at)
    reported = {(each.partition or 0, each.offset or 0): each.number for each in records if each.acked}
    rows: dict[tuple[int, int], int] = reported if there is None else there
    named = {place: f"{writer}.1/{number}" for place, number in rows.items()}
    topic = records[0].topic
    lives = [Life(topic, CREATED, READ, named)]
    return History([run], lives, truth_of(topic), **{"calm": [(700.0, 740.0)], **more})


def in_order(*numbers: int) -> dict[tuple[int, int], int]:
    return {(0, offset): number for offset, number in enumerate(numbers)}


def moved(*numbers: int) -> History:
    """Three records of a key that moves, read in an order."""
    records = [sent(number, "kept", "k") for number in range(3)]
    return seen("moved-c", *records, ordered=[f"moved-c.1/{number}" for number in numbers])


def capped(beyond: int) -> History:
    """A producer with a cap that has written so many records beyond it."""
    records = [sent(n, at=735.0, partition=n % CAP) for n in range(10 * CAP)]
    return seen("capped-c", *records, *(sent(100 + n, at=735.0, partition=CAP) for n in range(beyond)))


SERVED = [sent(n, ("orders", "volatile")[n % 2], at=735.0 + n / 10) for n in range(4)]
KEYED = [sent(number, key="k") for number in range(3)]
TWO, GATED = (sent(0), sent(1)), sent(0, "gated")
INFERRED = sent(0, offset=None)
ELSEWHERE, NAMED = {(0, 0): 0, (3, 1): 1}, {(0, 0): {"gated-c.1/0"}}
CASES: list[tuple[Check, History, list[str]]] = [
    (checker.acknowledged_records_are_there, seen("ours-c", *TWO), []),
    (checker.acknowledged_records_are_there, seen("ours-c", *TWO, there={(0, 0): 0}), ["lost"]),
    (checker.acknowledged_records_are_there, seen("ours-c", *TWO, there=ELSEWHERE), ["elsewhere"]),
    (checker.acknowledged_records_are_there, seen("hedge-c", INFERRED, there={}), ["inferred"]),
    (checker.acknowledged_records_are_there, seen("ours-c", INFERRED, there={}), ["lost"]),
    (checker.acknowledged_records_are_there, seen("hedge-k", INFERRED, there={}), ["lost"]),
    (checker.acknowledged_records_are_there, seen("ours-c", sent(0, at=CREATED - 1), there={}), []),
    (checker.nothing_is_there_that_nobody_sent, seen("ours-c", *TWO), []),
    (checker.nothing_is_there_that_nobody_sent, seen("ours-c", *TWO, there={(0, 7): 7}), ["invented"]),
    (checker.each_record_has_one_outcome, seen("ours-c", *TWO), []),
    (checker.each_record_has_one_outcome, seen("ours-c", sent(0, outcomes=0)), ["no outcome"]),
    (checker.each_record_has_one_outcome, seen("ours-c", sent(0, outcomes=0), ended_at=inf), []),  # killed
    (checker.each_record_has_one_outcome, seen("ours-c", sent(0, outcomes=2)), ["outcome twice"]),
    (checker.each_record_has_one_outcome, seen("ours-c", sent(0, heard_at=900.0)), ["late outcome"]),
    (checker.keys_are_in_order, seen("keyed-c", *KEYED, there=in_order(0, 1, 0, 2)), []),
    (checker.keys_are_in_order, seen("keyed-c", *KEYED, there=in_order(0, 2, 1)), ["out of order"]),
    (checker.keys_that_move_are_read_in_order, moved(0, 1, 2), []),
    (checker.keys_that_move_are_read_in_order, moved(0, 2, 1), ["read out of order"]),
    (checker.keys_that_move_are_read_in_order, moved(0, 1, 0, 2), ["read twice"]),
    (checker.keys_that_move_are_read_in_order, moved(0, 2), ["not read"]),
    (checker.nothing_is_beyond_the_cap, capped(1), []),  # a probe
    (checker.nothing_is_beyond_the_cap, capped(10), ["beyond the cap"]),
    (checker.the_group_has_received_everything, seen("gated-c", GATED, received=NAMED), []),
    (checker.the_group_has_received_everything, seen("gated-c", GATED), ["missed by the group"]),
    (checker.an_offset_has_one_record, seen("gated-c", GATED, received=NAMED), []),
    (checker.an_offset_has_one_record, seen("gated-c", GATED, received={(0, 0): {"b"}}), ["read otherwise"]),
    (checker.everybody_is_served_when_all_is_calm, seen("plain-k", *SERVED), []),
    (checker.everybody_is_served_when_all_is_calm, seen("plain-k", *SERVED[::2]), ["not served"]),
    (
        checker.everybody_is_served_when_all_is_calm,
        seen("plain-k", *SERVED, sent(9, at=730.0, acked=False)),
        ["failed in calm"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("check", "history", "expected"), CASES)
def test_records_groups_and_processes(check: Check, history: History, expected: list[str]) -> None:
    assert [violation.check for violation in check(history)] == expected


@pytest.mark.parametrize("writer", ["ours-c", "ours-k", "plain-c", "kept-c"])
def test_a_key_goes_by_the_size_that_its_topic_has(writer: str) -> None:
    kept = writer == "kept-c"
    topic, hash_name = ("kept" if kept else "orders"), "murmur2" if writer.endswith("-k") else "crc32"

    def misplaced(size: int, at: float) -> bool:
        names = (f"key-{number}" for number in range(100))
        key = next(k for k in names if len({checker.hash_of(hash_name, k) % n for n in (5, 6, 7)}) == 3)  # type: ignore[arg-type]
        record = sent(0, topic, key, at, partition=checker.hash_of(hash_name, key) % size)  # type: ignore[arg-type]
        return bool(list(checker.keys_are_where_promised(seen(writer, record))))

    late = 300.0 + checker.PLAIN_STALE_S + 1
    assert not misplaced(6, 110.0)
    assert misplaced(6, late) is not kept
    assert misplaced(7, late) is kept
    assert misplaced(5, late)


def told(name: str, at: float, id_: str = "e1", **data: Any) -> Told:
    known = {"topic": "orders", "topic_id": ID, "identity": "transition"}
    return Told(id_, name, {**known, **data}, at - 1, at)


def led(name: str, at: float, leader: int | None, epoch: int) -> Told:
    after = {"leader": leader, "leader_epoch": epoch, "isr": [1], "replicas": [1, 2]}
    return told(name, at, partitions="0", after=after)


def grew(at: float, before: int, after: int) -> Told:
    return told("partitions.added", at, before={"count": before}, after={"count": after})


@pytest.mark.parametrize(
    ("event", "true"),
    [
        (grew(301, 6, 7), True), (grew(250, 6, 7), False), (grew(301, 6, 8), False),
        (led("partition.offline", 311, None, 1), True), (led("partition.offline", 305, None, 1), False),
        (led("partition.offline", 311, None, 0), True),  # its leader is not listed any more
        (led("partition.online", 501, 1, 2), True), (led("leadership.moved", 501, 2, 2), False),
        (led("isr.shrunk", 501, 1, 2), True), (led("isr.shrunk", 305, 1, 0), False),
        (told("topic.created", 101), True), (told("topic.created", 98), False),
        (told("topic.created", 101, topic_id="another"), False), (told("topic.deleted", 850), False),
        (told("broker.left", 311, broker=1), True), (told("broker.left", 200, broker=1), False),
        (told("broker.joined", 501, broker=1), True), (told("broker.joined", 501, broker=2), False),
    ],
)  # fmt: skip
def test_an_event_is_true_or_not(event: Told, true: bool) -> None:
    assert (not list(events.events_are_true(observed(told=[event])))) is true


def observed(**what: Any) -> History:
    return History([], [], truth_of("orders"), [(800.0, 890.0)], **what)


def posted(at: float, until: float, subject: str = "1", name: str = "KafkaBrokerMissing") -> Posted:
    return Posted(name, subject, at, until)


def offline(topic: str) -> Posted:
    return posted(340.0, 360.0, topic, "KafkaPartitionsOffline")


FIRST = told("topic.created", 95, after={"count": 6})
OFFLINE, GROWTH = led("partition.offline", 312, None, 1), grew(301, 6, 7)


@pytest.mark.parametrize(
    ("check", "what", "expected"),
    [
        (events.what_lasted_was_told, {"told": [FIRST, GROWTH, OFFLINE]}, []),
        (events.what_lasted_was_told, {"told": [FIRST, OFFLINE]}, ["untold"]),
        (events.what_lasted_was_told, {"told": [FIRST, GROWTH]}, ["untold"]),
        (events.one_id_is_one_transition, {"told": [GROWTH, grew(330, 6, 7)]}, []),
        (events.one_id_is_one_transition, {"told": [GROWTH, OFFLINE]}, ["two of one id"]),
        (events.alerts_are_true, {"posted": [posted(340.0, 360.0)]}, []),
        (events.alerts_are_true, {"posted": [posted(280.0, 300.0)]}, ["false alert"]),
        (events.alerts_are_true, {"posted": [offline("orders")]}, []),
        (events.alerts_are_true, {"posted": [offline("others")]}, ["false alert"]),
        (events.lasting_outages_are_alerted, {"posted": [posted(340.0, 360.0)]}, []),
        (events.lasting_outages_are_alerted, {"posted": [posted(510.0, 530.0)]}, ["no alert"]),
        (events.alerts_end_in_calm, {"posted": [posted(880.0, 900.0), posted(885.0, 885.0)]}, []),
        (events.alerts_end_in_calm, {"posted": [posted(880.0, 900.0)]}, ["alert in calm"]),
    ],
)  # fmt: skip
def test_events_and_alerts(check: Check, what: dict[str, Any], expected: list[str]) -> None:
    assert [violation.check for violation in check(observed(**what))] == expected


def test_a_seed_is_a_plan() -> None:
    assert plan(7, 3_600) == plan(7, 3_600) != plan(8, 3_600)
    assert steady.faults(7, 3_600)[:4] == steady.faults(7, 240)


GOOD = steady.Counts(at=70.0, sent=1_000, acked={"0": 500, "1": 500}, failed={}, skipped=3, balance=0)


@pytest.mark.parametrize(
    ("counts", "written", "wrong"),
    [
        (GOOD, [500, 500], 0),
        (evolve(GOOD, sent=1_001), [500, 500], 1),
        (evolve(GOOD, balance=4), [500, 500], 1),
        (evolve(GOOD, skipped=101), [500, 500], 1),
        (GOOD, [499, 500], 1),
        (GOOD, [500, 501], 1),
    ],
)
def test_what_a_steady_hour_has_lost(counts: steady.Counts, written: list[int], wrong: int) -> None:
    assert len(list(steady.losses(counts, written, copies=False))) == wrong


@pytest.mark.parametrize(("after", "flat"), [(70.0, True), (70.5, False)])
def test_what_has_grown_in_a_steady_hour(after: float, flat: bool) -> None:
    samples = [steady.Sample(10.0 * n, 60.0 if n < 6 else after, 9, 7, 4, 2.0 * n) for n in range(12)]
    assert steady.growths(samples)["mb"].is_flat is flat
