from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.cli.common.event_text import describe, subject, table_line
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.testing.scripted import cluster_of

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)
ONLINE = PartitionInfo("orders", 3, 2, (2, 3), (2, 3), 4)
SIX, TWELVE = (
    TopicInfo("orders", tuple(PartitionInfo("orders", p, 1, (1, 2)) for p in range(n)), "id") for n in (6, 12)
)


def _change(cls: type[ev.PartitionEvent], old: PartitionInfo, **changed: object) -> ev.PartitionEvent:
    new = evolve(old, **changed)  # type: ignore[arg-type]
    return cls(topic="orders", partition=3, old=old, new=new)


def _suspected(**changed: Any) -> ev.BrokerSuspected:
    usual = ev.BrokerSuspected(
        broker=4,
        reason=ev.Suspicion.SILENT,
        outstanding=12,
        silence_ms=43.2,
        usual_ms=6.0,
        partitioner="Sticky",
    )
    return evolve(usual, **changed)


def _waiting(count: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", partition) for partition in range(1, count + 1))


def _cleared(reason: ev.Clearance = ev.Clearance.ANSWERED) -> ev.BrokerCleared:
    return ev.BrokerCleared(
        broker=4, reason=reason, suspected_ms=1_340.0, probes=3, usual_ms=6.0, partitioner="Sticky"
    )


@pytest.mark.parametrize(
    ("event", "about", "words"),
    [
        (ev.TopicAdded(topic="orders", new=SIX), "orders", "6 partitions, replication factor 2"),
        (ev.TopicRemoved(topic="orders", old=SIX), "orders", "had 6 partitions, replication factor 2"),
        (ev.PartitionsAdded(topic="orders", old=SIX, new=TWELVE), "orders", "6 -> 12 partitions"),
        (
            ev.TopicRecreated(topic="orders", old=TWELVE, new=SIX),
            "orders",
            "12 -> 6 partitions, new topic id",
        ),
        (
            ev.TopicRecreated(topic="orders", old=TWELVE, new=evolve(SIX, topic_id=None)),
            "orders",
            "12 -> 6 partitions, its smaller size tells",
        ),
        (_change(ev.PartitionOffline, ONLINE, leader=None), "orders-3", "leader 2 -> none"),
        (
            _change(ev.PartitionOffline, evolve(ONLINE, leader=None)),
            "orders-3",
            "no leader; replicas on 2,3",
        ),
        (_change(ev.PartitionOnline, evolve(ONLINE, leader=None), leader=3), "orders-3", "leader none -> 3"),
        (_change(ev.LeaderChanged, ONLINE, leader=3), "orders-3", "leader 2 -> 3"),
        (
            _change(ev.LeaderChanged, ONLINE, leader_epoch=5),
            "orders-3",
            "leader 2 elected again, epoch 4 -> 5",
        ),
        (_change(ev.IsrChanged, ONLINE, isr=(2,)), "orders-3", "in sync 2,3 -> 2 of 2,3"),
        (_change(ev.ReplicasChanged, ONLINE, replicas=(3, 1)), "orders-3", "replicas 2,3 -> 3,1"),
        (ev.BrokerAdded(new=Node(4, "h", 9092, "r1")), "broker 4", "h:9092, rack r1"),
        (ev.BrokerRemoved(old=Node(4, "h", 9092)), "broker 4", "was h:9092"),
        (
            ev.BrokerChanged(old=Node(4, "h", 1), new=Node(4, "i", 2)),
            "broker 4",
            "h:1 -> i:2",
        ),
        (
            ev.CapReached(topic="orders", partitions=12, admitted=(1, 2), limit=2, partitioner="Sticky"),
            "orders",
            "Sticky uses 2 of 12 partitions",
        ),
        (_suspected(), "broker 4", "silent for 43 ms with 12 records outstanding, usual answer 6 ms"),
        (
            _suspected(outstanding=1, silence_ms=2_060.0, usual_ms=None),
            "broker 4",
            "silent for 2.1 s with 1 record outstanding",
        ),
        (
            _suspected(reason=ev.Suspicion.UNREACHABLE),
            "broker 4",
            "unreachable, 12 records outstanding",
        ),
        (
            _suspected(waiting=_waiting(1)),
            "broker 4",
            "silent for 43 ms with 12 records outstanding, usual answer 6 ms",
        ),
        (
            _suspected(role=ev.Role.REPLICA, waiting=_waiting(2), usual_ms=None),
            "broker 4",
            "replica holds up orders-1, orders-2: silent for 43 ms with 12 records outstanding",
        ),
        (
            _suspected(role=ev.Role.REPLICA, reason=ev.Suspicion.UNREACHABLE),
            "broker 4",
            "replica: unreachable, 12 records outstanding",
        ),
        (_cleared(), "broker 4", "trusted again after 1.3 s and 3 probes"),
        (
            _cleared(ev.Clearance.NEEDED),
            "broker 4",
            "trusted again after 1.3 s and 3 probes: no other is trusted either",
        ),
        (_cleared(ev.Clearance.LEFT), "broker 4", "not needed any more, was suspected for 1.3 s"),
        (ev.RecordsRescued(broker=4, copies=7, withheld=2), "broker 4", "7 copies sent, 2 withheld"),
        (ev.RecordsRescued(broker=None, copies=1, withheld=0), "cluster", "1 copy sent"),
        (ev.KeysMoved(topic="t", brokers=(2, 3), keys=7), "t", "7 keys left, 2,3 suspect"),
        (ev.KeysReturned(topic="t", keys=1, away=0), "t", "1 key had left; home again"),
        (ev.KeysReturned(topic="t", keys=9, away=2), "t", "9 keys had left; home again, 2 not written since"),
        (ev.MetadataUnavailable(error="no\nanswer"), "cluster", "no answer"),
        (
            ev.ClusterSummary(begin=NOON, end=NOON, brokers=(), topics=1, partitions=2, offline=1),
            "cluster",
            "0 brokers, 1 topic, 2 partitions, 1 offline",
        ),
        (
            ev.MetadataRecovered(attempts=1, blind_s=1.26),
            "cluster",
            "answers again after 1 failed attempt, 1.3 s blind",
        ),
        (
            ev.MetadataRejected(reason=ev.Rejection.SHRINK, topic="orders", kept="12", offered="6", strike=2),
            "orders",
            "shrink: keeps 12, was offered 6 (strike 2)",
        ),
        (
            ev.Resync(cluster=cluster_of({"orders": [1, 2]}), dropped=7),
            "cluster",
            "7 events not shown (output too slow); now 2 brokers, 1 topic, 2 partitions, 0 offline",
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, ev.Event) else "",
)
def test_an_event_in_words(event: ev.Event, about: str, words: str) -> None:
    assert subject(event) == about
    assert describe(event) == words


def test_a_line_has_time_kind_subject_and_words_however_long_the_name() -> None:
    topic = "t" * 240
    moment = datetime(2024, 1, 31, 9, 5, 7, 123_456, UTC)
    event = ev.PartitionsAdded(topic=topic, old=SIX, new=TWELVE, wall_time=moment)
    assert table_line(event).plain == f"09:05:07.123Z  partitions_added      {topic}  6 -> 12 partitions"
    assert table_line(event, timed=False).plain.startswith("partitions_added")


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "orders-1:"),
        (3, "orders-1, orders-2, orders-3:"),
        (4, "orders-1, orders-2, orders-3 and 1 more:"),
        (8, "orders-1, orders-2, orders-3 and 5 more:"),
    ],
)
def test_few_of_those_that_a_replica_holds_up_are_named(count: int, named: str) -> None:
    event = _suspected(role=ev.Role.REPLICA, waiting=_waiting(count))
    assert describe(event).startswith(f"replica holds up {named} silent for 43 ms")


def test_a_suspected_broker_is_bad_news_and_a_cleared_one_good() -> None:
    assert [str(table_line(event, timed=False).spans[0].style) for event in (_suspected(), _cleared())] == [
        "red",
        "green",
    ]


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0.43, "0.4 ms"), (9.97, "10 ms"), (43.2, "43 ms"), (999.4, "999 ms"), (999.6, "1.0 s")],
)
def test_a_silence_is_told_in_the_unit_that_fits(ms: float, words: str) -> None:
    assert f"silent for {words} with" in describe(_suspected(silence_ms=ms))
