"""Who needs which rights, by Kafka's ACLs: a name in a record is only what somebody types. Pure.

Each role's rights are the least with which it works (a test on a cluster with an authorizer tries them all).
Rights of applications that they need anyway, to write and read their own topics, are not among them.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from kafka_partition_events.acls import Right, as_command
from kafka_partition_events.control.protocol.topics import PREFIX, tracker_name


class Part(StrEnum):
    """What somebody has to do with change control."""

    REQUESTER = "requester"
    TRACKER = "tracker"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    READER = "reader"


def rights(part: Part, prefix: str = PREFIX, grows: Sequence[str] = ()) -> tuple[Right, ...]:
    """Return the rights that somebody needs.

    Args:
        part: Who.
        prefix: What the names of the control topics begin with.
        grows: Topics whose partitions the tracker is to create; ``*`` behind a name for all that begin so.
    """

    def of(*topics: str, to: str) -> tuple[Right, ...]:
        return tuple(Right((to,), "topic", f"{prefix}{topic}") for topic in topics)

    told, reported = of("changes", to="Read"), of("leases", "acks", to="Read")
    described = (Right(("Describe",), "topic", "*"), Right(("Describe",), "group", "*"))
    match part:
        case Part.REQUESTER:
            return (*told, *reported, *of("commands", to="Write"), *described)
        case Part.PRODUCER | Part.CONSUMER:
            return (*told, *of("leases", "acks", to="Write"))
        case Part.READER:
            return (*told, *reported, *of("commands", to="Read"))
        case Part.TRACKER:
            own = tracker_name(prefix)
            ways = ("Read", "Write", "DescribeConfigs")
            return (
                *(Right(ways, "topic", f"{prefix}{topic}") for topic in ("changes", "leases", "acks")),
                Right(("Read", "DescribeConfigs"), "topic", f"{prefix}commands"),
                Right(("Read",), "group", own),
                Right(("Write",), "transactional-id", own),
                *described,
                *(Right(("Alter",), "topic", topic) for topic in grows),
            )


def as_commands(bootstrap: str, prefix: str = PREFIX, grows: Sequence[str] = ()) -> Iterator[str]:
    """Yield lines for a shell that give a user of each part's name its rights, by Kafka's own tool.

    Args:
        bootstrap: Where the brokers are.
        prefix: As in `rights`.
        grows: As in `rights`.
    """
    for part in Part:
        yield f"# {part}"
        for right in rights(part, prefix, grows):
            yield as_command(right, f"User:{part}", bootstrap)
