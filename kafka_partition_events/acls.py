"""What a right is by Kafka's ACLs, and the line that gives it. Pure."""

import shlex

from attrs import frozen


@frozen
class Right:
    """What is allowed on which resource.

    Attributes:
        operations: Kafka's operations; to read or to write implies to describe.
        kind: ``topic``, ``group``, ``transactional-id`` or ``cluster``.
        name: The resource's name; ``*`` for all, and behind a name for all that begin with it. There is one
            cluster, and its name is not given.
    """

    operations: tuple[str, ...]
    kind: str
    name: str = ""


def as_command(right: Right, principal: str, bootstrap: str) -> str:
    """Return the line for a shell that gives a principal a right, by Kafka's own tool."""
    prefixed = right.name.endswith("*") and right.name != "*"
    operations = [word for operation in right.operations for word in ("--operation", operation)]
    words = [
        "kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", principal,
        *operations,
        f"--{right.kind}", *([right.name.rstrip("*") if prefixed else right.name] if right.name else ()),
        *(("--resource-pattern-type", "prefixed") if prefixed else ()),
    ]  # fmt: skip
    return shlex.join(words)
