"""``kpe check``: one look at the cluster, told as a Nagios plugin tells it.

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
from kafka_partition_events.cli.services.services import look_once, no_topic
from kafka_partition_events.metadata.cluster import Cluster

_NAMED = 5  # partitions that the line names; it may end up in a text message


class State(IntEnum):
    """Nagios' states; the values are its exit codes."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@frozen(kw_only=True)
class Thresholds:
    """Two bounds of one measure; None for one that is not set.

    Attributes:
        at_least: Whether less is worse; else more is.
    """

    warning: float | None = None
    critical: float | None = None
    at_least: bool = False

    def judge(self, value: int) -> State:
        """Return what a value means."""
        for bound, state in ((self.critical, State.CRITICAL), (self.warning, State.WARNING)):
            if bound is not None and (value < bound if self.at_least else value > bound):
                return state
        return State.OK

    def ranges(self) -> str:
        """Return both bounds as performance data has them."""
        colon = ":" if self.at_least else ""
        return ";".join("" if b is None else f"{b:g}{colon}" for b in (self.warning, self.critical))


def parse_thresholds(text: str, *, at_least: bool = False) -> Thresholds:
    """Return what ``CRITICAL``, ``WARNING,CRITICAL`` or ``WARNING,`` means.

    Raises:
        CliError: it means nothing.
    """
    warning, _, critical = text.rpartition(",")
    try:
        bounds = [float(part) if part.strip() else None for part in (warning, critical)]
    except ValueError:
        bounds = [None, None]
    if bounds == [None, None]:
        raise CliError(f"{text!r} is no threshold; write CRITICAL, WARNING,CRITICAL or WARNING, (a comma)")
    return Thresholds(warning=bounds[0], critical=bounds[1], at_least=at_least)


@frozen(kw_only=True)
class Measure:
    """One thing that is measured, and what it means."""

    name: str
    value: int
    words: str
    thresholds: Thresholds

    @property
    def state(self) -> State:
        """What it means."""
        return self.thresholds.judge(self.value)


@with_options
def check_command(
    context: typer.Context,
    *,
    topics: Topics = None,
    max_offline: Annotated[str, typer.Option(metavar="[W,]C", help="Partitions without a leader.")] = "0",
    max_under_replicated: Annotated[
        str, typer.Option(metavar="[W,]C", help="Partitions with replicas out of sync.")
    ] = "0,",
    min_brokers: Annotated[str | None, typer.Option(metavar="[W,]C", help="Brokers; fewer are bad.")] = None,
    where: ClusterOptions,
) -> None:
    """Check the cluster once, as a Nagios plugin, with performance data.

    \b
    kpe check -b localhost:9092
    kpe check -b localhost:9092 --max-under-replicated 0,100 --min-brokers 3,2
    kpe check -b localhost:9092 --topics 'orders|payments' --max-offline 0

    A threshold is C (critical), W,C (warning and critical) or W, (a warning only: mind the comma). Beyond it
    is bad, the threshold itself is good. By default a partition without a leader is critical, and one with
    replicas out of sync a warning. It answers within ten seconds, whatever the cluster does.

    Exit codes: 0 OK; 1 WARNING; 2 CRITICAL; 3 UNKNOWN: no answer, refused login, no such topic, none
    that may be seen, wrong option.
    """  # noqa: D301
    try:
        thresholds = {
            "offline": parse_thresholds(max_offline),
            "under_replicated": parse_thresholds(max_under_replicated),
            "brokers": parse_thresholds(min_brokers, at_least=True) if min_brokers else Thresholds(),
        }
        config = where.config()
        cluster = look_once(context.obj, config, topics)
    except CliError as error:
        raise _unknown(plainly(str(error))) from None
    except typer.Exit:  # its configuration is wrong, as stderr says; that exit code is CRITICAL here
        raise _unknown("the configuration is wrong") from None
    if not cluster.by_topic:  # without a right to see topics all would seem to be well
        raise _unknown(no_topic(config))
    measures = measure(cluster, thresholds)
    state = max(each.state for each in measures)
    write_line(plugin_line(state, cluster, measures))
    raise typer.Exit(state)


def _unknown(why: str) -> typer.Exit:
    write_line(f"KPE UNKNOWN - {why}")
    return typer.Exit(State.UNKNOWN)


def measure(cluster: Cluster, thresholds: dict[str, Thresholds]) -> tuple[Measure, ...]:
    """Measure a snapshot."""
    partitions = [p for info in cluster.by_topic.values() for p in info.partitions]
    offline = [f"{p.topic}-{p.partition}" for p in partitions if not p.online]
    behind = [f"{p.topic}-{p.partition}" for p in partitions if len(p.isr) < len(p.replicas)]
    brokers = len(cluster.nodes)
    described = {
        "offline": (len(offline), f"{_named(offline)} offline"),
        "under_replicated": (len(behind), f"{_named(behind)} under-replicated"),
        "brokers": (brokers, f"only {counted(brokers, 'broker')}"),
    }
    return tuple(
        Measure(name=name, value=value, words=words, thresholds=thresholds[name])
        for name, (value, words) in described.items()
    )


def plugin_line(state: State, cluster: Cluster, measures: Sequence[Measure]) -> str:
    """Return the line: state, what is wrong (the worst first), totals, performance data."""
    wrong = sorted((m for m in measures if m.state), key=lambda m: m.state, reverse=True)
    told = "; ".join([*(m.words for m in wrong), totals(cluster)])
    data = " ".join(f"{m.name}={m.value};{m.thresholds.ranges()};0" for m in measures)
    return f"KPE {state.name} - {told} | {data}"


def _named(partitions: Sequence[str]) -> str:
    names = ", ".join(partitions[:_NAMED])
    more = f", and {len(partitions) - _NAMED:,} more" if len(partitions) > _NAMED else ""
    return f"{counted(len(partitions), 'partition')} ({names}{more})"
