"""What `kpe doctor` finds: answers of a cluster, what they mean, and the cure. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.metadata.cluster import Node, TopicInfo

_REPLICAS = 3
_RETENTION_MS = 86_400_000
SOMEBODY = "User:..."
"""Who is given a right by a cure, as long as nobody says who has asked."""


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
        changes_topic: The topic that events are labelled by; None without one on this cluster.
        observed: A regular expression of the topics that it observes.
    """

    event_topics: Sequence[str] = ("kpe.events",)
    changes_topic: str | None = None
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
        config: Its configuration; None if it must not be seen.
    """

    name: str
    info: TopicInfo | None = None
    operations: frozenset[str] | None = None
    config: Mapping[str, str] | None = None


@frozen(kw_only=True)
class Answers:
    """All that was asked.

    Attributes:
        topics: How many topics are visible,
        observed: and how many of them [observer] names.
    """

    brokers: Sequence[BrokerAnswer]
    topics: int
    observed: int
    event_topics: Sequence[TopicAnswer] = ()
    changes_topic: TopicAnswer | None = None


def findings(answers: Answers) -> Iterator[Finding]:
    """Yield what the answers mean, check by check."""
    yield from map(_broker, answers.brokers)
    yield _visible(answers.topics, answers.observed)
    for topic in answers.event_topics:
        yield from _event_topic(topic, len(answers.brokers))
    if answers.changes_topic is not None:
        yield from _changes(answers.changes_topic)


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


def _visible(topics: int, observed: int) -> Finding:
    check = "DESCRIBE on topics"
    if topics == 0:
        return Finding(
            check,
            Status.WARNING,
            "no topic is visible",
            "without topics all is well; else allow it: "
            f"kafka-acls.sh --add --allow-principal {SOMEBODY} --operation Describe --topic '*'",
        )
    if observed == 0:
        return Finding(
            check,
            Status.WARNING,
            f"none of {counted(topics, 'visible topic')} is one of [observer] topics",
            "it is a regular expression of whole names: orders is one topic, orders.* a family",
        )
    return Finding(
        check, Status.OK, f"{counted(topics, 'topic')} visible; one without this right can't be missed"
    )


def _event_topic(topic: TopicAnswer, brokers: int) -> Iterator[Finding]:
    if topic.info is None:
        yield Finding(
            f"topic {topic.name}",
            Status.WARNING,
            "there is no such topic, or DESCRIBE on it is not held",
            f"kafka-topics.sh --create --topic {topic.name} --partitions 12 "
            f"--replication-factor {min(_REPLICAS, brokers)}",
        )
    else:
        flaws = list(_flaws(topic.info, topic.config or {}, brokers))
        for detail, cure in flaws:
            yield Finding(f"topic {topic.name}", Status.WARNING, detail, cure)
        if not flaws:
            yield Finding(f"topic {topic.name}", Status.OK, counted(len(topic.info.partitions), "partition"))
    if topic.info is not None and topic.config is None:
        yield Finding(
            f"config of {topic.name}", Status.NOT_CHECKED, "it takes DESCRIBE_CONFIGS on the topic to see it"
        )
    yield _right("WRITE", f"topic {topic.name}", topic.operations)


def _flaws(info: TopicInfo, config: Mapping[str, str], brokers: int) -> Iterator[tuple[str, str]]:
    alter = f"kafka-configs.sh --alter --entity-type topics --entity-name {info.name} --add-config"
    factor = min(len(p.replicas) for p in info.partitions)
    offline = sum(not p.online for p in info.partitions)
    if offline:
        yield f"{counted(offline, 'partition')} without a leader", "bring their brokers back"
    if factor < min(_REPLICAS, brokers):
        yield (
            f"replication factor {factor}: events are gone with {counted(factor, 'broker')}",
            "kafka-reassign-partitions.sh can add replicas",
        )
    if factor > 1 and int(config.get("min.insync.replicas", "1")) >= factor:
        yield (
            "min.insync.replicas is the replication factor: one broker lost, and nobody can tell of it here",
            f"{alter} min.insync.replicas={factor - 1}",
        )
    if "compact" in config.get("cleanup.policy", ""):
        yield (
            "cleanup.policy has compact: of each topic only the latest event is kept",
            f"{alter} cleanup.policy=delete",
        )
    if 0 <= int(config.get("retention.ms", "-1")) < _RETENTION_MS:
        yield "events are kept for less than a day", f"{alter} retention.ms={14 * _RETENTION_MS}"


def _changes(topic: TopicAnswer) -> Iterator[Finding]:
    check = f"topic {topic.name}"
    if topic.info is None:
        yield Finding(check, Status.WARNING, "there is none, so no event has a label", "kpe tracker init")
        return
    yield Finding(check, Status.OK, "it labels events as planned or not")
    yield _right("READ", check, topic.operations)


def _right(operation: str, resource: str, held: frozenset[str] | None) -> Finding:
    check = f"{operation} on {resource}"
    if held is None:
        return Finding(check, Status.NOT_CHECKED, "the brokers don't tell")
    if operation in held:
        return Finding(check, Status.OK, "held")
    kind, _, name = resource.partition(" ")
    return Finding(
        check,
        Status.FAILED,
        "not held",
        f"kafka-acls.sh --add --allow-principal {SOMEBODY} --operation {operation.title()} --{kind} {name}",
    )
