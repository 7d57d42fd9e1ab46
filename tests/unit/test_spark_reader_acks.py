"""What a streaming query's progress tells of the partitions that it reads."""

import pytest

pytest.importorskip("pyspark")

from kafka_partition_events.control.agents.consumer_duties import Reading
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.spark.control.reader_acks import advanced
from kafka_partition_events.spark.kafka import offsets_in


def at(**partitions: int) -> dict[TopicPartition, int]:
    return {TopicPartition("orders", int(name[1:])): offset for name, offset in partitions.items()}


def ids(partitions: frozenset[TopicPartition]) -> set[int]:
    return {tp.partition for tp in partitions}


def test_what_is_in_the_end_offset_has_a_position() -> None:
    reading = advanced(Reading(cluster_id="c-1"), at(p0=9, p1=0))
    assert (reading.cluster_id, reading.counts) == ("c-1", {"orders": 2})
    assert ids(reading.assigned) == ids(reading.positioned) == {0, 1}


def test_a_progress_that_tells_nothing_changes_nothing() -> None:
    before = advanced(Reading(), at(p0=6))
    assert advanced(before, {}) == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"orders": {"0": 12, "1": 0}}', at(p0=12, p1=0)),
        (None, {}),
        ("null", {}),
        ('{"logOffset": 7}', {}),  # a file source's
        ("7", {}),  # a rate source's
        ("no JSON", {}),
    ],
)
def test_offsets_are_those_of_kafkas_source(text: str | None, expected: dict[TopicPartition, int]) -> None:
    assert offsets_in(text) == expected
