"""What `kpe doctor` finds: answers of a cluster, what they mean, and the cure. Pure."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from attrs import frozen

from kafka_partition_events.acls import Right, as_command
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.metadata.cluster import Node, TopicInfo

_REPLICAS = 3


class Status(StrEnum):
    """How a check has ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@frozen
class Finding:
    """What one check has found, and what to do about it."""

    check: str
    status: Status
    detail: str
    cure: str | None = None


@frozen(kw_only=True)
class Needs:
    """What `kpe observe` would use.

    Attributes:
        event_topics: The topics that it writes events to.
        observed: A regular expression of the topics that it observes.
    """

    event_topics: Sequence[str] = ("kpe.events",)
    observed: str = ".*"


@frozen(kw_only=True)
class BrokerAnswer:
    """What one broker said at the address that it advertises.

    Attributes:
        seconds: How long it took to connect, log in and answer.
        another: Whether another broker answers there.
        error: Why there was no answer.
    """

    node: Node
    seconds: float = 0.0
    another: bool = False
    error: str | None = None


@frozen(kw_only=True)
class TopicAnswer:
    """What the brokers said of a topic.

    Attributes:
        info: Its partitions; None if there is no such topic, or it must not be seen.
        operations: What this user may do with it; None if they don't tell.
    """

    name: str
    info: TopicInfo | None = None
    operations: frozenset[str] | None = None


@frozen(kw_only=True)
class Answers:
    """All that was asked.

    Attributes:
        where: The brokers that commands connect to, as they were named.
        who: By which name brokers know who has asked.
        topics: How many topics are visible,
        observed: and how many of them [observer] names.
    """

    where: str
    who: str
    brokers: Sequence[BrokerAnswer]
    topics: int
    observed: int
    event_topics: Sequence[TopicAnswer] = ()


def findings(answers: Answers) -> Iterator[Finding]:
    """Yield what the answers mean, check by check."""
    yield from map(_broker, answers.brokers)
    yield _visible(answers)
    for topic in answers.event_topics:
        yield from _event_topic(topic, answers)


def _broker(answer: BrokerAnswer) -> Finding:
    check, address = f"broker {answer.node.id}", f"{answer.node.host}:{answer.node.port}"
    if answer.error is not None:
        return Finding(
            check,
            Status.FAILED,
            f"{address}: {answer.error}",
            "clients connect to what a broker advertises: see its advertised.listeners, and name resolution "
            "and firewalls between it and here",
        )
    if answer.another:
        return Finding(
            check,
            Status.FAILED,
            f"{address}: another broker answers there",
            "let each broker advertise an address of its own (advertised.listeners)",
        )
    return Finding(check, Status.OK, f"{address} answers in {answer.seconds * 1000:.0f} ms")


def _visible(answers: Answers) -> Finding:
    check, topics = "DESCRIBE on topics", answers.topics
    if topics == 0:
        return Finding(
            check,
            Status.WARNING,
            "no topic is visible",
            "without topics all is well; else allow it: "
            + as_command(Right(("Describe",), "topic", "*"), answers.who, answers.where),
        )
    if answers.observed == 0:
        return Finding(
            check,
            Status.WARNING,
            f"none of {counted(topics, 'visible topic')} is one of [observer] topics",
            "it is a regular expression of whole names: orders is one topic, orders.* a family",
        )
    return Finding(
        check, Status.OK, f"{counted(topics, 'topic')} visible; one without this right can't be missed"
    )


def _event_topic(topic: TopicAnswer, answers: Answers) -> Iterator[Finding]:
    brokers = len(answers.brokers)
    if topic.info is None:
        yield Finding(
            f"topic {topic.name}",
            Status.WARNING,
            "there is no such topic, or DESCRIBE on it is not held",
            f"kafka-topics.sh --bootstrap-server {answers.where} --create --topic {topic.name} "
            f"--partitions 12 --replication-factor {min(_REPLICAS, brokers)} "
            "--config message.timestamp.type=LogAppendTime",
        )
    else:
        flaws = list(_flaws(topic.info, brokers))
        for detail, cure in flaws:
            yield Finding(f"topic {topic.name}", Status.WARNING, detail, cure)
        if not flaws:
            yield Finding(f"topic {topic.name}", Status.OK, counted(len(topic.info.partitions), "partition"))
    yield _may_write(topic, answers)


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


def _may_write(topic: TopicAnswer, answers: Answers) -> Finding:
    check = f"WRITE on topic {topic.name}"
    if topic.operations is None:
        return Finding(check, Status.NOT_CHECKED, "the brokers don't tell")
    if "WRITE" in topic.operations:
        return Finding(check, Status.OK, "held")
    cure = as_command(Right(("Write",), "topic", topic.name), answers.who, answers.where)
    return Finding(check, Status.FAILED, "not held", cure)
