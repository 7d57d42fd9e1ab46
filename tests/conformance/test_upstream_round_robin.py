"""What Apache Kafka's ``RoundRobinPartitionerTest`` asks of its round robin (KIP-369), asked of ours.

Ours differs on purpose: it starts at a random partition, because many short-lived producers that all start
at 0 all write to 0 (KAFKA-4402). ``start=0`` is Kafka's behaviour, and where the order matters here it is
set. Kafka's goes through the metadata's list in the order of the answer; ours goes by partition id, so the
lists that Kafka's tests shuffle on purpose are sorted here.
"""

from collections import Counter

import pytest

from kafka_partition_events import RoundRobinPartitioner
from tests.conformance.asking import ask, with_topics


@pytest.mark.parametrize("partitions", [3, 4])
def test_a_new_batch_for_each_record_takes_no_partition_its_turn(partitions: int) -> None:
    """KAFKA-9965, as fixed by KAFKA-17632: 3 and, what had failed, an even number of partitions."""
    partitioner = with_topics(RoundRobinPartitioner(), a=[0] * partitions, b=[0])
    placed: Counter[int] = Counter()
    for number in range(10 * partitions):
        first = ask(partitioner, "a")
        partitioner.on_new_batch("a", None, first)
        placed[ask(partitioner, "a")] += 1
        if number % 5 == 0:
            ask(partitioner, "b")
    assert placed == dict.fromkeys(range(partitions), 10)


def test_a_new_batch_for_every_other_record_takes_no_partition_its_turn_either() -> None:
    partitioner = with_topics(RoundRobinPartitioner(), a=[0, 1, 2])
    placed: Counter[int] = Counter()
    for number in range(30):
        chosen = ask(partitioner, "a")
        if number % 2 == 0:
            partitioner.on_new_batch("a", None, chosen)
        else:
            placed[chosen] += 1
    assert placed == {0: 5, 1: 5, 2: 5}


def test_the_counter_does_not_wrap() -> None:
    """Kafka's is an int that turns negative after 2,147,483,647 records, and is masked then."""
    partitioner = with_topics(RoundRobinPartitioner(start=2**31 - 1), test=[0, 1, 2])
    assert [ask(partitioner) for _ in range(4)] == [(2**31 - 1 + step) % 3 for step in range(4)]
