"""``kpe demo``: makes trouble on a cluster of its own; `kafka_partition_events.demo` does it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, needing
from kafka_partition_events.cli.common.logs import SHOWN_AS_EVENTS, configure_logs
from kafka_partition_events.cli.common.options import Verbose, check_out, parse_duration
from kafka_partition_events.jvm import JAVA_MISSING
from kafka_partition_events.jvm import java as java_found

demo_app = typer.Typer(rich_markup_mode=None, invoke_without_command=True)
_SHORTEST_S, _LONGEST_S = 20.0, 600.0


@demo_app.callback()
def demo_command(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the page goes.")] = Path(
        "demo-report.html"
    ),
    rate: Annotated[int, typer.Option(min=50, max=1000, help="Records per second of each producer.")] = 250,
    seconds: Annotated[
        str, typer.Option(metavar="DURATION", help="How long all scenes take together: 20s to 10m.")
    ] = "40s",
    java: Annotated[
        bool, typer.Option("--java", help="Let Kafka's own Java client take part; needs a JDK.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """See what a stalled and a killed broker do to four producers, side by side.

    Starts six real brokers, and a process each for confluent-kafka, kafka-python, and this library's producer
    without and with rescue="hedge". All get the same load and the same faults: a broker stalls while Kafka's
    metadata says that all is well, one is killed and comes back, one is killed while records have keys. In
    the end every record is accounted for: what callbacks said beside what the topics hold. Numbers and
    pictures go to a page. It takes about 75 s on two cores, Java 17 and 3.5 GiB of memory; with less there
    are three brokers without replication. Ctrl-C stops everything that was started.

    \b
    kpe demo
    kpe demo --seconds 2m --rate 500 --out /tmp/report.html
    kpe demo --java
    kpe demo growth       a topic grows: plainly, and by `kpe change`
    kpe demo events       the events while a topic grows, a broker dies, a topic is re-created
    kpe demo fleet        the tables and the report that Spark makes of these events

    Exit codes: 0 every record is accounted for; 1 one is not; 2 a part of the demo failed.
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        return
    _begin(verbose)
    length = parse_duration(seconds)
    if not _SHORTEST_S <= length <= _LONGEST_S:
        raise CliError(f"--seconds must be {_SHORTEST_S:.0f}s to {_LONGEST_S:.0f}s, not {seconds}")
    check_out(out)
    _check_java()
    with needing("demo"):
        from kafka_partition_events.demo.run import Demo, run_demo  # noqa: PLC0415

        _end(run_demo(Demo(out=out, rate=rate, seconds=length, java=java), _console()))


@demo_app.command("growth", short_help="Grow two topics, one with a gate: which records are never read?")
def growth_command(verbose: Verbose = False) -> None:
    """Grow a topic with kafka-topics, and another with `kpe change`: count the records that are never read.

    Three brokers, and for each topic a producer and a consumer group with auto.offset.reset=latest. It takes
    a minute, and Java 17.

    \b
    kpe demo growth

    Exit codes: 0 plain growth skipped records, growth with a gate none; 1 it was otherwise; 2 a part of the
    demo failed.
    """  # noqa: D301
    _begin(verbose)
    _check_java()
    with needing("demo"):
        from kafka_partition_events.demo.growth import run_growth  # noqa: PLC0415

        _end(run_growth(_console()))


@demo_app.command(
    "events", short_help="See the events when a topic grows, a broker dies, a topic is re-created."
)
def events_command(verbose: Verbose = False) -> None:
    """See the events when a topic grows, a broker dies and returns, a topic is deleted and created again.

    Three brokers, a producer, and three that receive the events: this screen, the Kafka topic kpe.events, a
    webhook. In the end they are compared, event by event, and with what a dashboard that polls every 15 s
    would have shown. It takes half a minute, and Java 17.

    \b
    kpe demo events

    Exit codes: 0 topic and webhook received every event; 1 they did not; 2 a part of the demo failed.
    """  # noqa: D301
    _begin(verbose)
    _check_java()
    with needing("demo,events,webhook"):
        from kafka_partition_events.demo.tour.run import run_events  # noqa: PLC0415

        _end(run_events(_console()))


@demo_app.command("fleet", short_help="Let Spark make tables and a report of the same events.")
def fleet_command(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")] = Path(
        "fleet-report.html"
    ),
    verbose: Verbose = False,
) -> None:
    """Let Spark make tables and a report of what `kpe demo events` shows.

    The same three brokers and faults; from the events in kpe.events Spark makes the tables of `kpe spark
    fleet` and the page of `kpe spark report`. It takes a minute, and Java 17.

    \b
    kpe demo fleet --out /tmp/fleet.html

    Exit codes: 0 the report has every event and every outage; 1 it has not; 2 a part of the demo failed.
    """  # noqa: D301
    _begin(verbose)
    check_out(out)
    _check_java()
    with needing("all"):
        from kafka_partition_events.demo.tour.run import run_fleet  # noqa: PLC0415

        _end(run_fleet(out, _console()))


def _begin(verbose: bool) -> None:
    configure_logs(verbose=verbose, told_elsewhere=SHOWN_AS_EVENTS)


def _check_java() -> None:
    if java_found() is None:
        raise CliError(f"{JAVA_MISSING}, and the demo runs real brokers: install it, or set JAVA_HOME")


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _end(good: bool) -> None:
    if not good:
        raise typer.Exit(EXIT_DIFFERENT)
