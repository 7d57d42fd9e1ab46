"""What `kpe doctor` finds: what a cluster's answers mean, and the cure. Pure."""

from collections.abc import Iterator
from enum import StrEnum

from attrs import frozen

from kafka_partition_events.acls import Right, as_command
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.metadata.cluster import Node, TopicInfo

_REPLICAS = 3


class CheckStatus(StrEnum):
    """How a check has ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@frozen
class Finding:
    """What one check has found, and what to do about it."""

    check: str
    status: CheckStatus
    detail: str
    cure: str | None = None


@frozen(kw_only=True)
class Asker:
    """Who has asked: the brokers as they were named, and the name by which they know who asks."""

    where: str
    who: str

    def allow(self, operation: str, topic: str) -> str:
        """Return the command that gives a right on a topic."""
        return as_command(Right((operation,), "topic", topic), self.who, self.where)


def of_broker(
    node: Node, *, seconds: float = 0.0, another: bool = False, error: str | None = None
) -> Finding:
    """Judge what a broker said at the address that it advertises.

    Args:
        node: Which.
        seconds: How long it took to connect, log in and answer.
        another: Whether another broker answers there.
        error: Why there was no answer.
    """
    check, address = f"broker {node.id}", f"{node.host}:{node.port}"
    if error is not None:
        return Finding(
            check,
            CheckStatus.FAILED,
            f"{address}: {error}",
            "clients connect to what a broker advertises: see its advertised.listeners, and name resolution "
            "and firewalls between it and here",
        )
    if another:
        return Finding(
            check,
            CheckStatus.FAILED,
            f"{address}: another broker answers there",
            "let each broker advertise an address of its own (advertised.listeners)",
        )
    return Finding(check, CheckStatus.OK, f"{address} answers in {seconds * 1000:.0f} ms")


def of_visible(topics: int, observed: int, asker: Asker) -> Finding:
    """Judge how many topics are visible, and how many of them [observer] names."""
    check = "DESCRIBE on topics"
    if topics == 0:
        cure = f"without topics all is well; else allow it: {asker.allow('Describe', '*')}"
        return Finding(check, CheckStatus.WARNING, "no topic is visible", cure)
    if observed == 0:
        return Finding(
            check,
            CheckStatus.WARNING,
            f"none of {counted(topics, 'visible topic')} is one of [observer] topics",
            "it is a regular expression of whole names: orders is one topic, orders.* a family",
        )
    detail = f"{counted(topics, 'topic')} visible; one without this right can't be missed"
    return Finding(check, CheckStatus.OK, detail)


def of_event_topic(
    name: str, info: TopicInfo | None, operations: frozenset[str] | None, brokers: int, asker: Asker
) -> Iterator[Finding]:
    """Judge a topic that events are to be written to.

    Args:
        name: Which.
        info: Its partitions; None if there is no such topic, or it must not be seen.
        operations: What this user may do with it; None if the brokers don't report it.
        brokers: How many there are.
        asker: Who has asked.
    """
    check = f"topic {name}"
    if info is None:
        yield Finding(
            check,
            CheckStatus.WARNING,
            "there is no such topic, or DESCRIBE on it is not held",
            f"kafka-topics.sh --bootstrap-server {asker.where} --create --topic {name} "
            f"--partitions 12 --replication-factor {min(_REPLICAS, brokers)} "
            "--config message.timestamp.type=LogAppendTime",
        )
    else:
        flaws = list(_flaws(info, brokers))
        for detail, cure in flaws:
            yield Finding(check, CheckStatus.WARNING, detail, cure)
        if not flaws:
            yield Finding(check, CheckStatus.OK, counted(len(info.partitions), "partition"))
    check = f"WRITE on topic {name}"
    if operations is None:
        yield Finding(check, CheckStatus.NOT_CHECKED, "the brokers don't report it")
    elif "WRITE" in operations:
        yield Finding(check, CheckStatus.OK, "held")
    else:
        yield Finding(check, CheckStatus.FAILED, "not held", asker.allow("Write", name))


def _flaws(info: TopicInfo, brokers: int) -> Iterator[tuple[str, str]]:
    factor = min(len(p.replicas) for p in info.partitions)
    offline = sum(not p.online for p in info.partitions)
    if offline:
        yield f"{counted(offline, 'partition')} without a leader", "bring their brokers back"
    if factor < min(_REPLICAS, brokers):
        yield (
            f"replication factor {factor}: events are gone with {counted(factor, 'broker')}",
            "kafka-reassign-partitions.sh can add replicas",
        )
