"""``kpe check``: reads the cluster once, and reports as a Nagios plugin does.

One line on standard output, then ``|`` and performance data; exit code 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
(https://www.monitoring-plugins.org/doc/guidelines.html).
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated

import typer
from attrs import frozen

from kafka_partition_events.cli.common.errors import CliError, plainly
from kafka_partition_events.cli.common.event_text import counted, totals
from kafka_partition_events.cli.common.options import Topics, with_options
from kafka_partition_events.cli.common.output import write_line
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import no_topic, read_cluster
from kafka_partition_events.metadata.cluster import Cluster

_NAMED = 5  # partitions that the line names; it may end up in a text message


class NagiosState(IntEnum):
    """Nagios' states; the values are its exit codes."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@frozen
class Measure:
    """One thing that is measured, and what it means.

    Attributes:
        name: In performance data.
        value: How many.
        words: What is wrong, if that is too many, or too few.
        bound: The last good value; None: any is good.
        beyond: What it means beyond the bound.
        at_least: Whether less is beyond it; else more is.
    """

    name: str
    value: int
    words: str
    bound: int | None
    beyond: NagiosState = NagiosState.CRITICAL
    at_least: bool = False

    @property
    def state(self) -> NagiosState:
        """What it means."""
        if self.bound is None:
            return NagiosState.OK
        bad = self.value < self.bound if self.at_least else self.value > self.bound
        return self.beyond if bad else NagiosState.OK

    @property
    def data(self) -> str:
        """Performance data: value, warning, critical, the least that there can be."""
        bound = "" if self.bound is None else f"{self.bound}{':' if self.at_least else ''}"
        levels = f"{bound};" if self.beyond is NagiosState.WARNING else f";{bound}"
        return f"{self.name}={self.value};{levels};0"


@with_options
def check_command(
    context: typer.Context,
    *,
    topics: Topics = None,
    max_offline: Annotated[
        int, typer.Option(min=0, metavar="N", help="Partitions without a leader; more are critical.")
    ] = 0,
    max_under_replicated: Annotated[
        int, typer.Option(min=0, metavar="N", help="Partitions out of sync; more are a warning.")
    ] = 0,
    min_brokers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Brokers; fewer are critical.")
    ] = None,
    where: ClusterOptions,
) -> None:
    """Check the cluster once, as a Nagios plugin, with performance data.

    \b
    kpe check -b localhost:9092
    kpe check -b localhost:9092 --max-under-replicated 100 --min-brokers 3
    kpe check -b localhost:9092 --topics 'orders|payments' --max-offline 0

    A partition without a leader is critical, and one with replicas out of sync a warning. It answers within
    15 seconds, whatever the cluster does: more than NRPE waits by default (-t).

    Exit codes: 0 OK; 1 WARNING; 2 CRITICAL; 3 UNKNOWN: no answer, refused login, no such topic, none
    that may be seen, wrong option.
    """  # noqa: D301
    try:
        config = where.config()
        cluster = read_cluster(context.obj, config, topics)
    except CliError as error:
        raise _unknown(plainly(str(error))) from None
    except typer.Exit:  # its configuration is wrong, as stderr says; that exit code is CRITICAL here
        raise _unknown("the configuration is wrong") from None
    if not cluster.by_topic:  # without a right to see topics all would seem to be well
        raise _unknown(no_topic(config))
    measures = measure(cluster, max_offline, max_under_replicated, min_brokers)
    state = max(each.state for each in measures)
    write_line(plugin_line(state, cluster, measures))
    raise typer.Exit(state)


def _unknown(why: str) -> typer.Exit:
    write_line(f"KPE UNKNOWN - {why.replace('|', '/')}")  # after | Nagios reads performance data
    return typer.Exit(NagiosState.UNKNOWN)


def measure(
    cluster: Cluster, max_offline: int, max_under_replicated: int, min_brokers: int | None
) -> tuple[Measure, ...]:
    """Measure a snapshot."""
    partitions = [p for info in cluster.by_topic.values() for p in info.partitions]
    offline = [f"{p.topic}-{p.partition}" for p in partitions if not p.online]
    behind = [f"{p.topic}-{p.partition}" for p in partitions if len(p.isr) < len(p.replicas)]
    brokers = len(cluster.nodes)
    return (
        Measure("offline", len(offline), f"{_named(offline)} offline", max_offline),
        Measure(
            "under_replicated",
            len(behind),
            f"{_named(behind)} under-replicated",
            max_under_replicated,
            beyond=NagiosState.WARNING,
        ),
        Measure("brokers", brokers, f"only {counted(brokers, 'broker')}", min_brokers, at_least=True),
    )


def plugin_line(state: NagiosState, cluster: Cluster, measures: Sequence[Measure]) -> str:
    """Return the line: state, what is wrong (the worst first), totals, performance data."""
    wrong = sorted((m for m in measures if m.state), key=lambda m: m.state, reverse=True)
    text = "; ".join([*(m.words for m in wrong), totals(cluster)])
    data = " ".join(m.data for m in measures)
    return f"KPE {state.name} - {text} | {data}"


def _named(partitions: Sequence[str]) -> str:
    names = ", ".join(partitions[:_NAMED])
    more = f", and {len(partitions) - _NAMED:,} more" if len(partitions) > _NAMED else ""
    return f"{counted(len(partitions), 'partition')} ({names}{more})"
