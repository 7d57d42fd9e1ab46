"""Which rights `kpe observe` needs, and whoever says something to observers, by Kafka's ACLs. Pure.

Each role's rights are the least with which it works, as of change control's (`control.protocol.acls`).
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from kafka_partition_events.acls import Right, as_command
from kafka_partition_events.cli.doctor.findings import Needs


class Role(StrEnum):
    """What somebody has to do with observers."""

    OBSERVER = "observer"
    ON_CALL = "on-call"


def rights(role: Role, needs: Needs) -> Iterator[Right]:
    """Yield the rights that somebody needs where observers need so much."""
    if role is Role.ON_CALL:  # without a topic to share, who is on call needs the outbox, not Kafka
        if needs.shared_topic is not None:
            yield Right(("Write",), "topic", needs.shared_topic)
        return
    yield Right(("Describe",), "topic", "*")
    for topic in needs.event_topics:
        yield Right(("Write",), "topic", topic)
    if needs.election is not None:
        topic, group = needs.election
        yield Right(("Read", "Create"), "topic", topic)
        yield Right(("Read",), "group", group)
    if needs.shared_topic is not None:
        # To describe configs, so that `kpe doctor` can tell whether it is compacted.
        yield Right(("Read", "Write", "Create", "DescribeConfigs"), "topic", needs.shared_topic)
    if needs.changes_topic is not None:
        yield Right(("Read",), "topic", needs.changes_topic)


def as_commands(needs: Needs, who: Sequence[tuple[Role, str]], bootstrap: str) -> Iterator[str]:
    """Yield lines for a shell that give people and services their rights, by Kafka's own tool."""
    for role, principal in who:
        yield f"# {role}"
        for right in rights(role, needs):
            yield as_command(right, principal, bootstrap)
