"""Who needs which rights: the lines for Kafka's own tool. That they are enough, and no more: integration."""

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.control.protocol.acls import Part, as_commands, rights
from kafka_partition_events.control.protocol.topics import control_topics

Captured = pytest.CaptureFixture[str]


def written(part: Part) -> set[str]:
    return {right.name for right in rights(part) if right.kind == "topic" and "Write" in right.operations}


def test_who_writes_where_is_what_makes_the_roles() -> None:
    assert written(Part.REQUESTER) == {"kpe.commands"}
    assert written(Part.APPROVER) == {"kpe.approvals"}
    assert written(Part.TRACKER) == {"kpe.changes", "kpe.leases", "kpe.acks"}
    assert written(Part.PRODUCER) == written(Part.CONSUMER) == {"kpe.leases", "kpe.acks"}
    assert written(Part.READER) == set()


def test_the_tracker_reads_all_and_alters_what_it_may_grow_alone() -> None:
    named = [right for right in rights(Part.TRACKER, grows=["shop.*"]) if right.kind == "topic"]
    read = {right.name for right in named if "Read" in right.operations}
    assert {topic.name for topic in control_topics()} < read
    assert {right.name for right in named if "Alter" in right.operations} == {"shop.*"}


def test_each_line_is_one_for_a_shell() -> None:
    lines = [*as_commands([(Part.TRACKER, "User:the tracker")], "a:1,b:2", "staging.", ["shop.*"])]
    assert lines[0] == "# tracker"
    assert lines[-1] == (
        "kafka-acls.sh --bootstrap-server a:1,b:2 --add --allow-principal 'User:the tracker' "
        "--operation Alter --operation Read --topic shop. --resource-pattern-type prefixed"
    )
    assert any(line.endswith("--operation Write --transactional-id staging-tracker") for line in lines)


def test_kpe_prints_them_for_whom_it_is_told(capsys: Captured) -> None:
    asked = ["topics", "init", "-b", "x:1", "--print-acls"]
    assert run([*asked, "--acl", "approver=User:carol", "--acl", "reader=User:noc"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# approver", "# reader"]
    assert any("User:carol --operation Write --topic kpe.approvals" in line for line in lines)


@pytest.mark.parametrize("odd", ["approver", "boss=User:carol", "approver=carol"])
def test_a_role_that_is_none_is_refused(odd: str, capsys: Captured) -> None:
    assert run(["topics", "init", "-b", "x:1", "--print-acls", "--acl", odd]) == 2
    assert "write PART=PRINCIPAL, as in requester=User:carol" in capsys.readouterr().err
