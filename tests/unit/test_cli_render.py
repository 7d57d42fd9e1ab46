from datetime import UTC, datetime

import pytest
from attrs import evolve

from kafka_partition_events.cli.common.event_text import describe, subject, table_line
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo
from kafka_partition_events.testing.scripted import cluster_of

ONLINE = PartitionInfo("orders", 3, 2, (2, 3), (2, 3), 4)
SIX, TWELVE = (
    TopicInfo("orders", tuple(PartitionInfo("orders", p, 1, (1, 2)) for p in range(n)), "id") for n in (6, 12)
)


def _change(cls: type[ev.PartitionEvent], old: PartitionInfo, **changed: object) -> ev.PartitionEvent:
    new = evolve(old, **changed)  # type: ignore[arg-type]
    return cls(topic="orders", partition=3, old=old, new=new)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ev.TopicAdded(topic="orders", new=SIX), "orders: 6 partitions, replication factor 2"),
        (ev.TopicRemoved(topic="orders", old=SIX), "orders: had 6 partitions, replication factor 2"),
        (ev.PartitionsAdded(topic="orders", old=SIX, new=TWELVE), "orders: 6 -> 12 partitions"),
        (ev.TopicRecreated(topic="orders", old=TWELVE, new=SIX), "orders: 12 -> 6 partitions, new topic id"),
        (
            ev.TopicRecreated(topic="orders", old=TWELVE, new=evolve(SIX, topic_id=None)),
            "orders: 12 -> 6 partitions, known by its smaller size",
        ),
        (_change(ev.PartitionOffline, ONLINE, leader=None), "orders-3: leader 2 -> none"),
        (_change(ev.PartitionOffline, evolve(ONLINE, leader=None)), "orders-3: no leader; replicas on 2,3"),
        (_change(ev.PartitionOnline, evolve(ONLINE, leader=None), leader=3), "orders-3: leader none -> 3"),
        (_change(ev.LeaderChanged, ONLINE, leader=3), "orders-3: leader 2 -> 3"),
        (_change(ev.LeaderChanged, ONLINE, leader_epoch=5), "orders-3: leader 2 elected again, epoch 4 -> 5"),
        (_change(ev.IsrChanged, ONLINE, isr=(2,)), "orders-3: in sync 2,3 -> 2 of 2,3"),
        (_change(ev.ReplicasChanged, ONLINE, replicas=(3, 1)), "orders-3: replicas 2,3 -> 3,1"),
        (ev.BrokerAdded(new=Node(4, "h", 9092, "r1")), "broker 4: h:9092, rack r1"),
        (ev.BrokerRemoved(old=Node(4, "h", 9092)), "broker 4: was h:9092"),
        (ev.BrokerChanged(old=Node(4, "h", 1), new=Node(4, "i", 2)), "broker 4: h:1 -> i:2"),
        (ev.MetadataUnavailable(error="no\nanswer"), "cluster: no answer"),
        (
            ev.MetadataRecovered(attempts=1, blind_s=1.26),
            "cluster: answers again after 1 failed attempt, 1.3 s blind",
        ),
        (
            ev.MetadataRejected(reason=ev.Rejection.SHRINK, topic="orders", kept="12", offered="6", strike=2),
            "orders: shrink: keeps 12, was offered 6 (strike 2)",
        ),
        (
            ev.Resync(cluster=cluster_of({"orders": [1, 2]}), dropped=7),
            "cluster: 7 events not shown (output too slow); now 2 brokers, 1 topic, 2 partitions, 0 offline",
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, ev.Event) else "",
)
def test_an_event_in_words(event: ev.Event, words: str) -> None:
    assert f"{subject(event)}: {describe(event)}" == words


def test_a_line_has_time_kind_subject_and_words_however_long_the_name() -> None:
    topic = "t" * 240
    moment = datetime(2024, 1, 31, 9, 5, 7, 123_456, UTC)
    event = ev.PartitionsAdded(topic=topic, old=SIX, new=TWELVE, wall_time=moment)
    assert table_line(event).plain == f"09:05:07.123Z  partitions_added      {topic}  6 -> 12 partitions"
    assert table_line(event, timed=False).plain.startswith("partitions_added")


def test_what_is_bad_is_red_and_what_is_good_green() -> None:
    events = _change(ev.PartitionOffline, ONLINE, leader=None), ev.BrokerAdded(new=Node(4, "h", 1))
    assert [str(table_line(event, timed=False).spans[0].style) for event in events] == ["red", "green"]
