"""``kpe demo``: makes trouble on a cluster of its own; `kafka_partition_events.demo` does it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, one_line
from kafka_partition_events.cli.common.logs import SHOWN_AS_EVENTS, configure_logs
from kafka_partition_events.cli.common.options import Verbose, check_out, parse_duration


def demo_command(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")] = Path(
        "demo-report.html"
    ),
    rate: Annotated[
        int, typer.Option(min=10, max=2000, help="Records per second of each of the two producers.")
    ] = 250,
    stretch: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to watch after each step.")
    ] = "6s",
    mock: Annotated[
        bool, typer.Option("--mock", help="Use librdkafka's mock cluster, without Java and Spark.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Make trouble on a Kafka cluster of its own, watch it, and account for every record.

    Starts three brokers; two producers, one on each client, write keyed and unkeyed records all the time. A
    topic grows beyond its producer's buffer budget, a broker dies by SIGKILL and comes back, a topic is
    deleted and created anew. The events go to the Kafka topic kpe.events as CloudEvents; of these Spark
    makes the tables of `kpe spark fleet` and the page of `kpe spark report`. In the end stands what was sent,
    acknowledged, failed, rerouted and capped, as the producers counted and as the topics show, losses
    included: there, and on the page. Under three minutes on two cores.

    Without Java 17 it runs on librdkafka's mock cluster, without growth, Spark and report. Ctrl-C stops
    everything that was started.

    \b
    kpe demo
    kpe demo --stretch 20s --rate 500 --out /tmp/report.html
    kpe demo --mock

    Exit codes: 0 every acknowledged record is accounted for; 1 one is not; 2 a part of the demo failed.
    """  # noqa: D301
    configure_logs(verbose=verbose, told_elsewhere=SHOWN_AS_EVENTS)
    seconds = parse_duration(stretch)
    check_out(out)
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        from kafka_partition_events.demo.run import Demo, run_demo  # noqa: PLC0415

        balanced = run_demo(Demo(out=out, rate=rate, stretch=seconds, mock=mock), console)
    except ImportError as error:  # some parts are imported when their turn comes
        raise CliError(
            f'the demo needs more: pip install "kafka-partition-events[all]" ({one_line(error)})'
        ) from error
    if not balanced:
        raise typer.Exit(EXIT_DIFFERENT)
