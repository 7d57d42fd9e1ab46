"""What the user wants to change, made into a specification: what is not said is taken from the cluster."""

from typing import Annotated

import typer
from attrs import frozen

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import parse_duration
from kafka_partition_events.control.changes.policy import fixed
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.metadata.cluster import Cluster


@frozen(kw_only=True)
class Wanted:
    """The topic, how many partitions, and how: a group of options."""

    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic to be changed.")]
    to: Annotated[int, typer.Option("--to", min=1, metavar="N", help="How many partitions it is to have.")]
    from_: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="N", help="How many it must have now, or it is refused."),
    ] = None
    gate: Annotated[
        bool,
        typer.Option("--gate", help="Let producers wait until groups have a position on new partitions."),
    ] = False
    deadline: Annotated[
        str, typer.Option(metavar="DURATION", help="After it has happened, all must follow within this time.")
    ] = "10m"
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Let the tracker create the partitions when producers are ready."),
    ] = False


def is_wanted(spec: Spec, wanted: Wanted) -> bool:
    """Return whether a specification is what is wanted, of whatever cluster; pure."""
    found = spec.topic, spec.to_count, spec.gate, spec.execute, spec.deadline_s
    asked = wanted.topic, wanted.to, wanted.gate, wanted.execute, parse_duration(wanted.deadline)
    return found == asked and wanted.from_ in {None, spec.from_count}


def spec_of(wanted: Wanted, cluster: Cluster, prefix: str) -> Spec:
    """Return what is wanted as a specification; pure.

    Args:
        wanted: What is to be changed.
        cluster: The cluster as it is: has the topic's id, and how many partitions it has.
        prefix: What the names of the control topics begin with.

    Raises:
        CliError: the cluster does not report its id; there is no such topic, nothing to do, or its number of
            partitions is a contract.
        ConfigurationError: the rest does not fit.
    """
    if (why := fixed(wanted.topic, prefix)) is not None:
        raise CliError(why)
    if cluster.cluster_id is None:
        raise CliError("the cluster does not report its id")
    if (info := cluster.by_topic.get(wanted.topic)) is None:
        raise CliError(f"there is no topic {wanted.topic}")
    has = len(info.partitions)
    if wanted.to <= has:
        shrinks = f"; Kafka can't shrink it to {wanted.to}" if wanted.to < has else " already"
        raise CliError(f"topic {info.name} has {has} partitions{shrinks}")
    return Spec(
        cluster_id=cluster.cluster_id,
        topic=info.name,
        topic_id=info.topic_id,
        from_count=has if wanted.from_ is None else wanted.from_,
        to_count=wanted.to,
        execute=wanted.execute,
        gate=wanted.gate,
        deadline_s=parse_duration(wanted.deadline),
    )
