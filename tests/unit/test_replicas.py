"""What can be written if one broker hangs, or is out of sync."""

import pytest
from attrs import evolve

from kafka_partition_events.diagnose.replicas import UNEXPOSED, exposure_of, outages, outages_of
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, PartitionInfo, TopicInfo
from tests.replicas_kit import Rows, around, topic, world

SPREAD = around(24, 6, 3)


@pytest.mark.parametrize(
    ("rows", "without", "hanging"),
    [
        (around(24, 3, 3), 24, 0),  # three brokers with RF 3: none
        (SPREAD, 0, 12),
        (around(24, 4, 2), 0, 12),
        ([[1, 2, 3]], 1, 0),  # one partition: that one, always
        ([[1]], 1, 0),
        ([[1], [2]], 0, 1),  # one replica each, on two brokers
        ([[1], [1]], 2, 0),
        ([[1, 2], [1, 3], [1, 4]], 3, 0),  # nobody but broker 1 blocks all
        ([[1, 2], [3, 4]], 0, 1),
    ],
)
def test_partitions_without_safe_alternative(rows: Rows, without: int, hanging: int) -> None:
    found = outages_of(topic(rows))
    assert (found.without_safe_alternative, found.hanging) == (without, hanging)
    assert exposure_of(world(topic(rows), brokers=6)).by_topic == ({"orders": without} if without else {})


@pytest.mark.parametrize(
    ("least", "out"),
    [(1, 24), (2, 24), (3, 0), (None, None)],  # RF 3 with min.insync.replicas 3: nobody may be missing
)
def test_a_broker_that_is_out_of_sync_blocks_only_what_needs_it(least: int | None, out: int | None) -> None:
    found = outages_of(topic(around(24, 3, 3)), least)
    assert (found.hanging, found.out) == (0, out)
    assert [broker.out for broker in found.brokers] == [out] * 3


def test_with_one_replica_what_its_broker_has_is_gone() -> None:
    found = outages_of(topic([[1], [2], [2]]), 1)
    assert [(b.broker, b.hanging, b.out) for b in found.brokers] == [(2, 1, 1), (1, 2, 2)]


def test_kafka_asks_for_no_more_replicas_in_sync_than_a_partition_has() -> None:
    found = outages_of(topic([[1], [2, 3], [3, 2]], isr={2: [3]}), 2)
    assert (found.writable, found.hanging) == (2, 1)  # the last one has two, and one in sync
    assert [(b.broker, b.out) for b in found.brokers] == [(1, 1), (2, 1), (3, 1)]


def test_what_is_not_writable_now_is_no_alternative() -> None:
    info = topic([[1, 2], [3, 4]], isr={1: [3]})
    assert outages_of(info).without_safe_alternative == 0
    found = outages_of(info, 2)
    assert (found.writable, found.without_safe_alternative, found.hanging) == (1, 1, 0)


def test_a_partition_without_leader_is_no_alternative_and_has_none() -> None:
    info = topic([[1, 2], [3, 4]], isr={1: []})
    assert outages_of(info).without_safe_alternative == 1
    assert exposure_of(world(info, brokers=4)).by_topic == {"orders": 1}


def test_replicas_that_are_out_of_sync_do_not_block() -> None:
    info = topic(around(3, 3, 3), isr={0: [1, 2], 1: [2, 3], 2: [3, 1]})
    found = outages_of(info, 2)
    assert (found.without_safe_alternative, found.hanging, found.out) == (0, 1, 1)


def test_the_leader_is_in_sync_whatever_a_client_tells() -> None:
    partitions = tuple(PartitionInfo("orders", n, leader=1) for n in range(2))
    assert outages_of(TopicInfo("orders", partitions)).without_safe_alternative == 2


def test_nothing_comes_of_nothing() -> None:
    found = outages_of(TopicInfo("orders", ()), 2)
    assert (found.hanging, found.out, found.without_safe_alternative) == (0, 0, 0)
    assert exposure_of(EMPTY) is UNEXPOSED
    assert exposure_of(Cluster(by_topic=[TopicInfo("orders", ())])).by_topic == {}


def test_the_worst_topic_comes_first() -> None:
    topics = [
        topic(SPREAD, "spread"),
        topic(around(24, 4, 2), "halves"),
        topic(around(3, 3, 3), "few"),
        topic(around(24, 3, 3), "many"),
        topic([[n] for n in range(1, 7)], "singles"),
    ]
    assert [found.topic for found in outages(topics, {"few": 2})] == [
        "many", "few", "halves", "spread", "singles"
    ]  # fmt: skip


def test_counting_goes_on_from_the_last_snapshot() -> None:
    alone, spread = topic([[1]], "alone"), topic(SPREAD, "spread")
    first = exposure_of(world(alone, spread, brokers=6))
    assert exposure_of(first.cluster, first) is first
    changed = world(evolve(alone), topic(around(9, 3, 3), "spread"), topic([[2]], "new"), brokers=6)
    assert exposure_of(changed, first).by_topic == {"alone": 1, "spread": 9, "new": 1}
    assert exposure_of(world(spread, brokers=6), first).by_topic == {}
