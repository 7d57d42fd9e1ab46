"""Who needs which rights: the lines for Kafka's own tool. That they are enough, and no more: integration."""

import pytest

from kafka_partition_events.control.protocol.acls import Part, as_commands, rights
from kafka_partition_events.control.protocol.topics import control_topics

Captured = pytest.CaptureFixture[str]


def written(part: Part) -> set[str]:
    return {right.name for right in rights(part) if right.kind == "topic" and "Write" in right.operations}


def test_the_tracker_reads_all_and_alters_what_it_may_grow_alone() -> None:
    named = [right for right in rights(Part.TRACKER, grows=["shop.*"]) if right.kind == "topic"]
    read = {right.name for right in named if "Read" in right.operations}
    assert {topic.name for topic in control_topics()} == read
    assert {right.name for right in named if "Alter" in right.operations} == {"shop.*"}


def test_each_line_is_one_for_a_shell() -> None:
    lines = [*as_commands("a:1,b:2", "staging.", ["shop.*"])]
    assert [line for line in lines if line.startswith("#")] == [f"# {part}" for part in Part]
    assert (
        "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal User:tracker "
        "--operation Alter --topic shop. --resource-pattern-type prefixed"
    ) in lines
    assert any(line.endswith("--operation Write --transactional-id staging-tracker") for line in lines)
