"""kafka-python asks twice of a record without a key that finds its batch full: no other one is to answer."""

from kafka_partition_events import AdaptivePartitioner, StickyPartitioner
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.testing.scripted import cluster_of

CLUSTER = cluster_of({"t": [1, 2, 3, 1, 2, 3]})


def ask(partitioner: Partitioner, key: bytes | None = None) -> int:
    return partitioner.partition("t", key, key, b"v", b"v", None)


def test_a_record_with_a_key_goes_home_though_the_second_question_was_interrupted() -> None:
    partitioner = AdaptivePartitioner()
    partitioner.apply_snapshot(CLUSTER)
    home = ask(partitioner, b"key")
    partitioner.on_new_batch("t", CLUSTER, next(number for number in range(6) if number != home))
    assert ask(partitioner, b"key") == home


def test_a_record_with_a_key_goes_home_though_probing_ended_before_the_second_question() -> None:
    partitioner = StickyPartitioner(key_partitions={"t": 6})
    partitioner.apply_snapshot(CLUSTER)
    home, stays = ask(partitioner, b"key"), ask(partitioner)
    partitioner.deliveries.probing = True
    partitioner.on_new_batch("t", CLUSTER, next(it for it in range(6) if it not in {home, stays}))
    partitioner.deliveries.probing = False
    ask(partitioner)
    assert ask(partitioner, b"key") == home
