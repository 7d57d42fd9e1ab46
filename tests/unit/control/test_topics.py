"""How the control topics must be, and what is said where they are not."""

import pytest
from attrs import evolve

from kafka_partition_events.control.protocol.topics import control_topics, missing
from kafka_partition_events.errors import ConfigurationError, ControlTopicError

WANTED = control_topics()
FOUND = {topic.name: evolve(topic, config={**topic.config, "flush.ms": "7"}) for topic in WANTED}


def test_all_moments_are_the_brokers_and_one_partition_keeps_the_order_of_commands_and_changes() -> None:
    counts = {topic.name: topic.partitions for topic in WANTED}
    assert counts == {"kpe.commands": 1, "kpe.changes": 1, "kpe.leases": 12}
    assert {topic.config["message.timestamp.type"] for topic in WANTED} == {"LogAppendTime"}
    policies = [topic.config["cleanup.policy"] for topic in WANTED]
    assert policies == ["delete", "compact", "compact,delete"]


@pytest.mark.parametrize("prefix", ["a b.", "kpe/", "k" * 201])
def test_kafka_would_refuse_such_names(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="can't begin the names of topics"):
        control_topics(prefix)


def test_what_is_missing_is_named_and_other_settings_do_not_matter() -> None:
    assert missing(WANTED, FOUND) == ()
    assert [topic.name for topic in missing(WANTED, {})] == [*FOUND]


@pytest.mark.parametrize(
    ("policy", "wrong"), [("delete,compact", False), ("compact, delete", False), ("delete", True)]
)
def test_policies_have_no_order_and_another_one_is_refused_with_its_cure(policy: str, wrong: bool) -> None:
    leases = FOUND["kpe.leases"]
    found = {**FOUND, leases.name: evolve(leases, config={**leases.config, "cleanup.policy": policy})}
    if not wrong:
        assert missing(WANTED, found) == ()
        return
    with pytest.raises(ControlTopicError, match=r"is delete and must be compact,delete; kafka-configs\.sh"):
        missing(WANTED, found)


def test_more_partitions_are_wrong_only_where_there_must_be_one() -> None:
    more = {**FOUND, "kpe.leases": evolve(FOUND["kpe.leases"], partitions=50)}
    assert missing(WANTED, more) == ()
    more["kpe.commands"] = evolve(FOUND["kpe.commands"], partitions=3)
    with pytest.raises(ControlTopicError, match=r"kpe\.commands: has 3 partitions and must have 1"):
        missing(WANTED, more)
