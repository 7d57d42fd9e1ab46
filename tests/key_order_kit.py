"""Proves from what a topic has that no record of a key has overtaken an earlier one, although keys moved."""

import time
from collections.abc import Iterator, Mapping

from kafka import KafkaConsumer, TopicPartition

from kafka_partition_events.clients.flight.predecessors import parse_after
from kafka_partition_events.testing import KafkaCluster


def proven_moves(
    cluster: KafkaCluster, topic: str, places: Mapping[int, tuple[int, int]], keys: int, limit_s: float
) -> int:
    """Return how often a key has changed its partition; fail if a record does not name what it comes after.

    ``places`` are partition and offset of the records that were acknowledged, by numbers in the order in
    which they were sent; record n has key n modulo ``keys``.
    """
    after = dict(_read_back(cluster, topic, limit_s))
    last: dict[int, tuple[int, int]] = {}
    moves = 0
    for number, (partition, offset) in sorted(places.items()):
        before = last.get(number % keys)
        if before is not None and before[0] == partition:
            assert before[1] < offset
        elif before is not None:
            moves += 1
            assert after[partition, offset].get(before[0], -1) >= before[1]
        last[number % keys] = partition, offset
    return moves


def _read_back(
    cluster: KafkaCluster, topic: str, limit_s: float
) -> Iterator[tuple[tuple[int, int], dict[int, int]]]:
    """Return what each record comes after, by partition and offset."""
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","), enable_auto_commit=False)
    partitions = [TopicPartition(topic, partition) for partition in cluster.leaders(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    wait = time.monotonic() + limit_s
    while any(consumer.position(each) < end for each, end in ends.items()):
        assert time.monotonic() < wait, "all records"
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                yield (record.partition, record.offset), parse_after(record.headers)
    consumer.close()
