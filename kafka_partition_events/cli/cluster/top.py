"""``kpe top``: the first minute of an incident, in a full screen."""

import contextlib
import sys
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import CliError, needing
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.settings import ClusterOptions, connecting_by
from kafka_partition_events.cli.services.services import Services


@with_options
def top_command(
    context: typer.Context,
    *,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two polls.")] = "2s",
    where: ClusterOptions,
) -> None:
    """See what is wrong now, on which brokers and topics, and what happened, in a full screen.

    \b
    kpe top -b localhost:9092
    kpe top --config /etc/kpe/kpe.toml

    What is wrong is what `kpe observe` posts to Alertmanager, before any hold-down. It reads the cluster
    itself, from when it is started.

    Keys: tab, arrows; / shows rows with a text only; q ends it.

    Exit codes: 0 it was ended; 2 wrong option, no terminal. A cluster that does not answer is shown as that.
    """  # noqa: D301
    from kafka_partition_events.cli.cluster.watched import Watched

    services: Services = context.obj
    seconds, settings = parse_duration(interval), where.load().settings
    with needing("top"):
        from kafka_partition_events.cli.cluster.top_screen import Top
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("this needs a terminal; `kpe watch` and `kpe check` write to pipes")
    source = services.open_source(connecting_by(settings))
    name = settings.kafka.name or str(settings.kafka.bootstrap_servers)
    with contextlib.closing(Watched(source, name=name, interval=seconds, clock=services.clock)) as watched:
        Top(watched.look).run()
