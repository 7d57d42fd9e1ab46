"""What the user wants to change, made into a specification: what is not said is taken from the cluster."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer
from attrs import frozen

from kafka_partition_events.cli.change.context import CommandContext
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import parse_duration
from kafka_partition_events.cli.services.services import look_once
from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.policy import fixed
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.records import group_name
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Execute, GateRule, OnDeadline
from kafka_partition_events.metadata.cluster import Cluster


class GateChoice(StrEnum):
    """`GateRule` as it is typed."""

    NONE = "none"
    CONSUMERS_FIRST = "consumers-first"


@frozen(kw_only=True)
class Wanted:
    """The topic, how many partitions, and which groups to wait for: a group of options."""

    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic to be changed.")]
    to: Annotated[
        int,
        typer.Option("--to", min=1, metavar="N", help="How many partitions it is to have."),
    ]
    from_: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="N", help="How many it must have now, or it is refused."),
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


@frozen(kw_only=True)
class Terms:
    """Who creates the partitions, and how long is waited: a group of options."""

    deadline: Annotated[
        str,
        typer.Option(metavar="DURATION", help="After it has happened, all must follow within this time."),
    ] = "10m"
    on_deadline: Annotated[
        OnDeadline, typer.Option(help="What becomes of a gate that is held when the deadline passes.")
    ] = OnDeadline.OPEN
    expires: Annotated[
        str, typer.Option(metavar="DURATION", help="It must happen within this time of the request.")
    ] = "1h"
    settle: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="When its assignment has stood so long, a group without commits has a position; 0: never.",
        ),
    ] = "30s"
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Let the tracker create the partitions when producers are ready."),
    ] = False


def read_cluster(at: CommandContext) -> Cluster:
    """Return the cluster as it is.

    Raises:
        CliError: it does not answer, or does not report its id.
    """
    cluster = look_once(at.services, at.where.config)
    if cluster.cluster_id is None:
        raise CliError("the cluster does not report its id")
    return cluster


def spec_of(wanted: Wanted, cluster: Cluster, prefix: str, terms: Terms | None = None) -> Spec:
    """Return what is wanted as a specification; pure.

    Args:
        wanted: What is to be changed.
        cluster: The cluster as it is: has the topic's id, and how many partitions it has.
        prefix: What the names of the control topics begin with.
        terms: How; None: as by default.

    Raises:
        CliError: there is no such topic, nothing to do, its number of partitions is a contract, or a group
            has no name, as that of a variable that is not set.
        ConfigurationError: the terms do not fit.
    """
    if (why := fixed(wanted.topic, prefix)) is not None:
        raise CliError(why)
    required, terms = wanted.required_group, terms or Terms()
    if required is not None and "" in required:
        raise CliError("--required-group has no name; leave it out to wait for all that read the topic")
    info = cluster.by_topic.get(wanted.topic)
    if info is None:
        raise CliError(f"there is no topic {wanted.topic}")
    before = len(info.partitions) if wanted.from_ is None else wanted.from_
    if wanted.to <= before:
        raise CliError(f"topic {info.name} has {before} partitions; Kafka can't shrink it to {wanted.to}")
    return Spec(
        cluster_id=cluster.cluster_id or "",
        topic=info.name,
        topic_id=info.topic_id,
        from_count=before,
        to_count=wanted.to,
        execute=Execute.TRACKER if terms.execute else Execute.EXTERNAL,
        gate=GateRule(wanted.gate.replace("-", "_")),
        gate_on_deadline=terms.on_deadline,
        deadline_s=parse_duration(terms.deadline),
        expires_s=parse_duration(terms.expires),
        settle_s=0.0 if terms.settle == "0" else parse_duration(terms.settle),
        required_groups=None if required is None else tuple(required),
    )


def view_of(
    spec: Spec, cluster: Cluster, groups: Mapping[str, Group | None] | None, writers: int | None
) -> ClusterView:
    """Return what is seen of the topic that a change is about."""
    info, found = cluster.by_topic.get(spec.topic), groups or {}
    unseen = frozenset(group_name(name) for name, group in found.items() if group is None)
    members = frozenset(group_name(name) for name, group in found.items() if group and group.members)
    return ClusterView(
        count=None if info is None else len(info.partitions),
        topic_id=None if info is None else info.topic_id,
        readers=None if groups is None or unseen else members,
        unseen_groups=unseen,
        writers=writers,
    )
