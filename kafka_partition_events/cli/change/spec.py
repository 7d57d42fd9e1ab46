"""What the user wants to change, made into a specification: what is not said is taken from the cluster."""

import contextlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from attrs import evolve, frozen

from kafka_partition_events.cli.change.session import Session
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import parse_partitions
from kafka_partition_events.cli.services.services import first_look
from kafka_partition_events.control.changes.commands import inverse
from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.bounds import MOST_IDS
from kafka_partition_events.control.protocol.orders import last_change
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.topics import control_topics
from kafka_partition_events.control.protocol.vocabulary import GateRule, Kind
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from kafka_partition_events.metadata.ranges import ranges


class GateChoice(StrEnum):
    """`GateRule` as it is typed."""

    NONE = "none"
    CONSUMERS_FIRST = "consumers-first"

    @property
    def rule(self) -> GateRule:
        """What it means."""
        return GateRule.CONSUMERS_FIRST if self is GateChoice.CONSUMERS_FIRST else GateRule.NONE


@frozen(kw_only=True)
class Wanted:
    """The subject of a change, how many partitions, and who is waited for: a group of options.

    One way of saying what is to be changed is used.
    """

    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="The topic to be changed.")] = (
        None
    )
    to: Annotated[
        int | None,
        typer.Option(
            "--to",
            min=1,
            metavar="N",
            help="How many partitions producers are to use: more than now, or fewer (Kafka keeps them all).",
        ),
    ] = None
    from_: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=1,
            metavar="N",
            help="How many they must use now, or it is refused. Default: that number.",
        ),
    ] = None
    offline: Annotated[
        str | None,
        typer.Option("--offline", metavar="IDS", help="Leave these partitions of the topic: 3,5-7."),
    ] = None
    online: Annotated[
        str | None, typer.Option("--online", metavar="IDS", help="Use these partitions of the topic again.")
    ] = None
    broker_offline: Annotated[
        int | None,
        typer.Option("--broker-offline", metavar="ID", help="Leave the partitions that this broker leads."),
    ] = None
    broker_online: Annotated[
        int | None, typer.Option("--broker-online", metavar="ID", help="Use this broker's partitions again.")
    ] = None
    inverse_of: Annotated[
        str | None, typer.Option("--inverse-of", metavar="CHANGE", help="Undo a change that is finished.")
    ] = None
    gate: Annotated[
        GateChoice,
        typer.Option("--gate", help="Whether producers wait until groups have a position on new partitions."),
    ] = GateChoice.NONE
    required_group: Annotated[
        list[str] | None,
        typer.Option(
            "--required-group",
            metavar="GROUP",
            help="A group to wait for; repeat it for more. Default: all that read the topic.",
        ),
    ] = None

    @property
    def terms(self) -> dict[str, Any]:
        """The fields of a `Spec` about who is waited for.

        Raises:
            CliError: a group has no name, as that of a variable that is not set.
        """
        required = self.required_group
        if required is not None and "" in required:
            raise CliError("--required-group has no name; leave it out to wait for all that read the topic")
        groups = None if required is None else tuple(required)
        return {"gate": self.gate.rule, "required_groups": groups}

    def check(self) -> None:
        """Check that one thing is wanted.

        Raises:
            CliError: it is nothing, several, or a part of it is missing.
        """
        of_topic = {"--to": self.to, "--offline": self.offline, "--online": self.online}
        alone = {
            "--broker-offline": self.broker_offline,
            "--broker-online": self.broker_online,
            "--inverse-of": self.inverse_of,
        }
        given = [name for name, value in {**of_topic, **alone}.items() if value is not None]
        if len(given) != 1:
            raise CliError(f"say one thing of {', '.join({**of_topic, **alone})}, not {len(given)}")
        if (self.topic is None) == (given[0] in of_topic):
            raise CliError(f"{given[0]} {'needs a' if given[0] in of_topic else 'is without'} --topic")
        if self.from_ is not None and self.to is None:
            raise CliError("--from belongs to --to")


def check_topic(topic: str | None, prefix: str) -> None:
    """Check that it is not a topic that change control itself stands on.

    Raises:
        CliError: it is one.
    """
    if topic in {own.name for own in control_topics(prefix)}:
        raise CliError(f"{topic} is a control topic, which no change can be about; see `kpe topics init`")


def look_at_cluster(at: Session) -> Cluster:
    """Return the cluster as it is.

    Raises:
        CliError: it does not answer, or does not say which one it is.
    """
    poller, _ = first_look(at.services, at.where.config)
    with contextlib.closing(poller):
        cluster = poller.cluster
    if cluster is None or cluster.cluster_id is None:
        raise CliError("the cluster does not report its id")
    return cluster


def spec_of(
    wanted: Wanted, cluster: Cluster, changes: Mapping[str, Change], terms: Mapping[str, Any]
) -> Spec:
    """Return what is wanted as a specification; pure.

    Args:
        wanted: What is to be changed.
        cluster: The cluster as it is: tells the topic's id, and how many partitions it has.
        changes: All changes, by id: they tell how many of those are used.
        terms: The other fields of a `Spec`. The inverse of a change has those of that change.

    Raises:
        CliError: there is no such topic, broker or change, nothing to do, or it is Kafka's own topic.
        ConfigurationError: the terms do not fit.
    """
    wanted.check()
    if wanted.inverse_of is not None:
        change = changes.get(wanted.inverse_of)
        if change is None:
            raise CliError(f"there is no change {wanted.inverse_of}; see `kpe change ls --all`")
        return inverse(change)
    common = {"cluster_id": cluster.cluster_id, **terms}
    if wanted.topic is None:
        leaves = wanted.broker_offline is not None
        broker = wanted.broker_offline if leaves else wanted.broker_online
        if leaves and broker not in (brokers := _brokers(cluster)):
            raise CliError(f"there is no broker {broker}; there are {ranges(brokers)}")
        return Spec(kind=Kind.OFFLINE if leaves else Kind.ONLINE, broker=broker, **common)
    info = cluster.by_topic.get(wanted.topic)
    if info is None:
        raise CliError(f"there is no topic {wanted.topic}")
    if info.internal:
        raise CliError(f"{info.name} is Kafka's own topic: its partitions are never changed")
    common |= {"topic": info.name, "topic_id": info.topic_id}
    if wanted.to is None:
        kind = Kind.ONLINE if wanted.offline is None else Kind.OFFLINE
        return Spec(kind=kind, partitions=_partitions(wanted), **common)
    used = _used(info, f"{cluster.cluster_id}|topic/{info.name}", changes)
    before = used if wanted.from_ is None else wanted.from_
    if wanted.to == before:
        raise CliError(f"{before} partitions of topic {info.name} are used already")
    kind = Kind.INCREASE if wanted.to > before else Kind.DECREASE
    return Spec(kind=kind, from_count=before, to_count=wanted.to, **common)


def view_of(
    spec: Spec, cluster: Cluster, groups: Mapping[str, Group | None] | None, writers: int | None
) -> ClusterView:
    """Return what is seen of the topic that a change is about."""
    info = None if spec.topic is None else cluster.by_topic.get(spec.topic)
    found = groups or {}
    unseen = frozenset(name for name, group in found.items() if group is None)
    members = frozenset(name for name, group in found.items() if group is not None and group.members)
    view = ClusterView(readers=None if groups is None or unseen else members, unseen_groups=unseen)
    if info is None:
        return view
    return evolve(view, count=len(info.partitions), topic_id=info.topic_id, writers=writers)


def _used(info: TopicInfo, subject: str, changes: Mapping[str, Change]) -> int:
    last = last_change(changes.values(), subject, info.topic_id)
    limit = None if last is None else last.order.limit
    return min(len(info.partitions), limit or len(info.partitions))


def _brokers(cluster: Cluster) -> frozenset[int]:
    """Return all brokers, also those that are down: they are known by what they should have."""
    partitions = (partition for info in cluster.by_topic.values() for partition in info.partitions)
    return frozenset(cluster.nodes).union(*(partition.replicas for partition in partitions))


def _partitions(wanted: Wanted) -> frozenset[int]:
    if wanted.offline is not None:
        return parse_partitions("--offline", wanted.offline, MOST_IDS)
    return parse_partitions("--online", wanted.online or "", MOST_IDS)
