"""librdkafka's own partitioners, in a real producer on its mock cluster, beside ours: key by key.

The names: librdkafka's ``murmur2_random``, ``consistent_random`` (its default) and ``fnv1a_random`` are our
``hash_name`` "murmur2", "crc32" and "fnv1a". In all three "random" is about records without a key, and
librdkafka's rule for what is no key differs from Java's; see the last tests.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.routing.hashing import HashName
from kafka_partition_events.testing import cluster_of
from tests.mock_cluster import MockCluster

PARTITIONS = 17
LIMIT_S = 60.0


def where(cluster: MockCluster, setting: str, keys: Sequence[bytes | None]) -> list[int]:
    """Return the partition that librdkafka chose for each key, as its delivery reports tell."""
    cluster.create_topic(setting, PARTITIONS)
    chosen = [-1] * len(keys)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "partitioner": setting,
            "sticky.partitioning.linger.ms": 0,  # else unkeyed records share turns, whatever the partitioner
            "queue.buffering.max.messages": len(keys) + 1,
        }
    )

    def note(number: int, error: object, message: Any) -> None:
        assert error is None
        chosen[number] = message.partition()

    for number, key in enumerate(keys):
        producer.produce(setting, b"", key, on_delivery=partial(note, number))
    assert producer.flush(LIMIT_S) == 0
    return chosen


def reached(hash_name: HashName, key: bytes | None) -> set[int]:
    """Return the partitions that we choose for 200 records with a key."""
    ours = DefaultPartitioner(hash_name=hash_name)
    ours.apply_snapshot(cluster_of({"t": [1] * PARTITIONS}))
    chosen = set()
    for _ in range(200):
        chosen.add(partition := ours.partition("t", key, key, None, b"", None))
        ours.on_new_batch("t", None, partition)
    return chosen


@pytest.mark.parametrize(
    ("setting", "hash_name"),
    [("murmur2_random", "murmur2"), ("consistent_random", "crc32"), ("fnv1a_random", "fnv1a")],
)
def test_an_empty_key_is_to_us_what_it_is_to_librdkafka(
    setting: str, hash_name: HashName, mock_cluster: MockCluster
) -> None:
    """A key like any other, but to ``consistent_random``, its default, none: it goes anywhere.

    200 records reach all 17 partitions but with a probability of 17 * (16/17)**200 = 9e-5; less than half of
    them with one below 1e-60.
    """
    theirs, ours = set(where(mock_cluster, setting, [b""] * 200)), reached(hash_name, b"")
    if setting == "consistent_random":
        assert len(theirs) > PARTITIONS / 2
        assert len(ours) > PARTITIONS / 2
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("setting", "hash_name"), [("murmur2", "murmur2"), ("consistent", "crc32"), ("fnv1a", "fnv1a")]
)
def test_without_random_librdkafka_hashes_no_key_as_an_empty_one_and_we_do_not(
    setting: str, hash_name: HashName, mock_cluster: MockCluster
) -> None:
    """All its unkeyed records go to one partition. Ours take turns: who wants one partition names it."""
    (_theirs,) = set(where(mock_cluster, setting, [None, b""] * 100))
    assert len(reached(hash_name, None)) > PARTITIONS / 2
