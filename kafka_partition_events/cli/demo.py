"""``kpe demo``: makes trouble on a cluster of its own; `kafka_partition_events.demo` does it."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, needing
from kafka_partition_events.cli.common.options import Verbose, check_out, parse_duration

_SHORTEST_S, _LONGEST_S = 20.0, 600.0


def demo_command(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the page goes.")] = Path(
        "demo-report.html"
    ),
    rate: Annotated[int, typer.Option(min=50, max=1000, help="Records per second of each producer.")] = 250,
    seconds: Annotated[
        str, typer.Option(metavar="DURATION", help="How long all faults take together: 20s to 10m.")
    ] = "40s",
    asyncio: Annotated[
        bool, typer.Option("--asyncio", help="Producers for asyncio instead; needs the extra aiokafka, too.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """See what a stalled and a killed broker do to producers, side by side.

    \b
    kpe demo
    kpe demo --asyncio
    kpe demo --seconds 2m --rate 500 --out /tmp/report.html

    `kpe demo` starts six real brokers, and a process each for confluent-kafka, kafka-python, and this
    library's producer as it is and with rescue="hedge", keys="move"; with --asyncio for aiokafka, plain and
    with ours attached, and for AsyncPartitioningProducer. All get the same load and the same faults:
    a broker stalls while Kafka's metadata says that all is well, one is killed and comes back, one is killed
    while records have keys. In the end every record is accounted for: what callbacks said beside what the
    topics hold; and an OrderedConsumer reads the keys that moved. It takes about 75 s on two cores, Java 17
    and 3.5 GiB of memory. Ctrl-C stops everything that was started.

    Exit codes: 0 every record is accounted for, and read in its key's order; 1 it was otherwise; 2 a part of
    the demo failed.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
    from rich.console import Console

    from kafka_partition_events.cli.common.logs import configure_logs
    from kafka_partition_events.jvm import JAVA_MISSING
    from kafka_partition_events.jvm import java as java_found

    configure_logs(verbose=verbose)
    length = parse_duration(seconds)
    if not _SHORTEST_S <= length <= _LONGEST_S:
        raise CliError(f"--seconds must be {_SHORTEST_S:.0f}s to {_LONGEST_S:.0f}s, not {seconds}")
    check_out(out)
    if asyncio:
        with needing("demo,aiokafka"):
            import_module("aiokafka")  # which the processes need
    if java_found() is None:
        raise CliError(f"{JAVA_MISSING}, and the demo runs real brokers: install it, or set JAVA_HOME")
    console = Console(highlight=False, markup=False, emoji=False)
    with needing("demo"):
        from kafka_partition_events.demo.run import Demo, run_demo

        good = run_demo(Demo(out=out, rate=rate, seconds=length, asyncio=asyncio), console)
    if not good:
        raise typer.Exit(EXIT_DIFFERENT)
