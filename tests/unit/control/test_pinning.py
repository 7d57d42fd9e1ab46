"""Which partitions a consumer begins to read at their beginning."""

from kafka_partition_events.control.agents.new_partitions import to_pin
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.metadata.cluster import TopicPartition
from tests.control_kit import grown, growth

ALL = [TopicPartition("orders", n) for n in range(12)]
OLD, NEW = ALL[:6], ALL[6:]


def opened() -> Change:
    return grown(growth()).change


def test_nothing_at_the_first_assignment_if_nobody_knows_of_growth() -> None:
    assert to_pin(ALL, [], {}, []) == []


def test_what_was_not_there_at_the_last_assignment() -> None:
    assert to_pin(ALL, [], {"orders": 6}, []) == NEW
    assert to_pin(ALL, [], {"orders": 12}, []) == []


def test_what_an_open_change_tells_to_be_new_even_at_the_first_assignment() -> None:
    assert to_pin(ALL, [], {}, [opened()]) == NEW
    assert to_pin(ALL, [], {"orders": 12}, [opened()]) == NEW


def test_not_what_the_group_has_committed() -> None:
    assert to_pin(ALL, NEW[:4], {"orders": 6}, [opened()]) == NEW[4:]


def test_only_what_this_consumer_was_given() -> None:
    assert to_pin([*OLD, NEW[0]], [], {"orders": 6}, []) == [NEW[0]]
