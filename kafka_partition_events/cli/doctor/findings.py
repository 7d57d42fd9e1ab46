"""What a cluster's answers mean for `kpe observe`: what is wrong, and the cure. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from attrs import frozen

from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.metadata.cluster import Node, TopicInfo

_REPLICAS = 3
_RETENTION_MS = 86_400_000
_CLOCK_LIMIT_S = 1.0
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


# -- what was asked ----------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Needs:
    """What `kpe observe` would use.

    Attributes:
        event_topics: The topics that it writes events to.
        election: Topic and group of the election; None without one.
        shared_topic: The topic that the observers of an election share.
        changes_topic: The topic that events are labelled by; None without one on this cluster.
    """

    event_topics: Sequence[str] = ("kpe.events",)
    election: tuple[str, str] | None = None
    shared_topic: str | None = None
    changes_topic: str | None = None


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
class GroupAnswer:
    """What the brokers said of a consumer group: what this user may do with it, if they tell."""

    name: str
    operations: frozenset[str] | None = None


@frozen(kw_only=True)
class QuorumAnswer:
    """What the active controller's clock said, in seconds ahead of this host's, and how exact that is."""

    ahead: float
    uncertainty: float


@frozen(kw_only=True)
class Answers:
    """All that was asked.

    Attributes:
        topics: How many topics are visible.
        describes: Whether DescribeCluster and DescribeTopicPartitions work.
        topic_ids: Whether topics have ids; None without a topic to ask for.
        quorum: The controller's clock, or why it is not known.
    """

    brokers: Sequence[BrokerAnswer]
    topics: int
    describes: bool
    topic_ids: bool | None
    event_topics: Sequence[TopicAnswer] = ()
    election_topic: TopicAnswer | None = None
    election_group: GroupAnswer | None = None
    shared_topic: TopicAnswer | None = None
    changes_topic: TopicAnswer | None = None
    quorum: QuorumAnswer | str = "nobody has asked"


# -- what it means -----------------------------------------------------------------------------------------


def findings(answers: Answers) -> Iterator[Finding]:
    """Yield what the answers mean, check by check."""
    yield from map(_broker, answers.brokers)
    yield _api_versions(answers)
    yield _visible(answers.topics)
    for topic in answers.event_topics:
        yield from _event_topic(topic, len(answers.brokers))
    if answers.election_topic is not None:
        yield from _election(answers.election_topic, answers.election_group)
    if answers.shared_topic is not None:
        yield from _shared(answers.shared_topic)
    if answers.changes_topic is not None:
        yield from _changes(answers.changes_topic)
    yield _clock(answers.quorum)


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


def _api_versions(answers: Answers) -> Finding:
    check = "api versions"
    if not answers.describes:
        return Finding(
            check,
            Status.WARNING,
            "brokers can only be listed, not described: no topic ids, no racks",
            "Kafka 2.8 and newer tell them; without, a topic created anew is known only by a smaller size",
        )
    if answers.topic_ids is None:
        return Finding(check, Status.OK, "brokers can be described; there is no topic to see an id of")
    if not answers.topic_ids:
        return Finding(
            check,
            Status.WARNING,
            "topics have no ids",
            "Kafka 2.8 and newer give them; without, a topic created anew is known only by a smaller size",
        )
    return Finding(check, Status.OK, "brokers and topics can be described, topics have ids")


def _visible(topics: int) -> Finding:
    check = "DESCRIBE on topics"
    if topics == 0:
        return Finding(
            check,
            Status.WARNING,
            "no topic is visible",
            "without topics all is well; else allow it: "
            f"kafka-acls.sh --add --allow-principal {SOMEBODY} --operation Describe --topic '*'",
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


def _election(topic: TopicAnswer, group: GroupAnswer | None) -> Iterator[Finding]:
    yield from _of_one_partition(topic, "would elect as many observers", "READ")
    if group is not None:
        yield _right("READ", f"group {group.name}", group.operations)


def _shared(topic: TopicAnswer) -> Iterator[Finding]:
    yield from _of_one_partition(topic, "have no order, and one alone is read", "READ", "WRITE")
    if topic.info is None:
        return
    check = f"config of {topic.name}"
    policy = None if topic.config is None else topic.config.get("cleanup.policy", "delete")
    if policy is None:
        yield Finding(check, Status.NOT_CHECKED, "it takes DESCRIBE_CONFIGS on the topic to see it")
    elif policy != "compact":
        yield Finding(
            check,
            Status.FAILED,
            f"cleanup.policy is {policy}: silences, decisions and what is told as open are deleted by age",
            f"kafka-configs.sh --alter --entity-type topics --entity-name {topic.name} "
            "--add-config cleanup.policy=compact",
        )
    else:
        yield Finding(check, Status.OK, "compacted")


def _of_one_partition(topic: TopicAnswer, otherwise: str, *operations: str) -> Iterator[Finding]:
    check = f"topic {topic.name}"
    if topic.info is None:
        yield Finding(check, Status.OK, "there is none yet; kpe observe creates it")
        return
    if len(topic.info.partitions) != 1:
        yield Finding(
            check,
            Status.FAILED,
            f"{len(topic.info.partitions)} partitions {otherwise}",
            "delete it; kpe observe creates it with one",
        )
    elif not topic.info.partitions[0].online:
        yield Finding(check, Status.FAILED, "its partition has no leader", "bring its brokers back")
    else:
        yield Finding(check, Status.OK, "one partition")
    for operation in operations:
        yield _right(operation, check, topic.operations)


def _changes(topic: TopicAnswer) -> Iterator[Finding]:
    check = f"topic {topic.name}"
    if topic.info is None:
        yield Finding(check, Status.WARNING, "there is none, so no event has a label", "kpe topics init")
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


def _clock(quorum: QuorumAnswer | str) -> Finding:
    check = "clock"
    if isinstance(quorum, str):
        return Finding(check, Status.NOT_CHECKED, quorum)
    side = "ahead of" if quorum.ahead >= 0 else "behind"
    told = (
        f"the active controller's is {abs(quorum.ahead):.2f} s {side} this host's, "
        f"give or take {quorum.uncertainty:.2f} s"
    )
    if abs(quorum.ahead) > _CLOCK_LIMIT_S + quorum.uncertainty:
        cure = "synchronize both (NTP): the times of events are this host's, those of records the brokers'"
        return Finding(check, Status.WARNING, told, cure)
    return Finding(check, Status.OK, told)
