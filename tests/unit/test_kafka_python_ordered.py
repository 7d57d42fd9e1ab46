"""`ordered` around a consumer of kafka-python that needs no broker."""

import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from attrs import frozen
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.kafka_python.ordered import OrderedReader, ordered
from kafka_partition_events.testing import ManualClock
from tests.ordered_kit import TOPIC, Group, Partition, headers, in_memory

MODULE = "kafka_partition_events.clients.kafka_python.ordered"


@frozen
class Record:
    offset: int
    value: Any
    headers: Any


class Time:
    """A clock that sleeps."""

    def __init__(self, clock: ManualClock) -> None:
        self.monotonic, self.sleep = clock.monotonic, clock.advance


class Consumer:
    """As much of a ``KafkaConsumer`` as is used, on partitions in memory."""

    config: ClassVar = {"consumer_timeout_ms": 100}

    def __init__(self, group: Group, *partitions: int) -> None:
        self.group = group
        self.positions = {TopicPartition(TOPIC, at): 0 for at in partitions}
        self._subscription = SimpleNamespace(assignment={})
        self.join()

    def join(self) -> None:
        """Have its partitions as others."""
        self._subscription.assignment = {each: object() for each in self.positions}

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        found: dict[TopicPartition, list[Record]] = {}
        left = max_records or 500
        for each in [*self.positions]:
            log, position = self.group.partitions[each.partition], max(self.positions[each], 0)
            if left and (news := log.records[position : position + left]):
                found[each] = [Record(position + n, *record) for n, record in enumerate(news)]
                self.positions[each] += len(news)
                left -= len(news)
        for each in found:  # the others are next
            self.positions[each] = self.positions.pop(each)
        if not found:
            self.group.clock.advance(max(timeout_ms, 1) / 1000)
        return found

    def assignment(self) -> set[TopicPartition]:
        return {*self.positions}

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        assert timeout_ms == 0
        assert isinstance(partition, TopicPartition)
        return self.positions[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self.positions |= dict.fromkeys(partitions or self.positions, 0)

    def close(self) -> None:
        self.positions.clear()


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group([Partition() for _ in range(3)], ManualClock())
    module = importlib.import_module(MODULE)  # the function has its name
    stand_ins: dict[str, Any] = {"time": Time(made.clock), "_KafkaPythonEnquirer": made.enquirer}
    with in_memory(made), patch.multiple(module, **stand_ins):
        yield made


def reader(group: Group, *partitions: int, **options: Any) -> Any:
    return ordered(Consumer(group, *partitions), **options)


def polled(consumer: OrderedReader, times: int = 6) -> list[Any]:
    polls = (consumer.poll() for _ in range(times))
    return [record.value for found in polls for records in found.values() for record in records]


def test_iteration_processes_a_record_when_it_asks_for_the_next(group: Group) -> None:
    consumer = reader(group, 0, 1)
    group.partitions[0].append("second", headers({1: 1}))
    group.partitions[1].append("first")
    group.partitions[1].append("one more")
    taken = iter(consumer)
    assert next(taken).value == "first"
    assert consumer.positions[TopicPartition(TOPIC, 1)] == 1
    assert [record.value for record in taken] == ["one more", "second"]


def test_what_is_beyond_what_is_left_is_processed(group: Group) -> None:
    """A partition read from its end (``auto_offset_reset="latest"``) has nothing below its position."""
    consumer = reader(group, 0, 1)
    consumer.positions[TopicPartition(TOPIC, 1)] = 7
    group.partitions[0].append("second", headers({1: 6}))
    assert polled(consumer) == ["second"]


@pytest.mark.parametrize("how", ["to the beginning", "membership lost"])
def test_what_is_read_again_is_in_order_again(group: Group, how: str) -> None:
    consumer = reader(group, 0, 1)
    group.partitions[0].append("second", headers({1: 0}))
    group.partitions[1].append("first")
    assert polled(consumer) == ["first", "second"]
    if how == "to the beginning":
        consumer.seek_to_beginning()
    else:  # it joins again within one poll, and begins where it had committed: nowhere
        Consumer.seek_to_beginning(consumer._consumer)
        consumer._consumer.join()
    consumer._consumer.positions = dict.fromkeys(sorted(consumer._consumer.positions), 0)
    assert polled(consumer) == ["first", "second"]


def test_a_wait_that_is_too_long_raises_where_that_is_chosen(group: Group) -> None:
    consumer = reader(group, 0, max_wait_ms=5_000, on_timeout="raise")
    group.partitions[0].append("waits", headers({1: 0}))
    group.partitions[1].append("first")
    polled(consumer)
    group.clock.advance(5.0)
    with pytest.raises(KafkaTimeoutError, match="has waited 5 s"):
        polled(consumer)
    with pytest.raises(ConfigurationError, match="deliver, raise"):
        reader(group, on_timeout="skip")
    consumer.close()
