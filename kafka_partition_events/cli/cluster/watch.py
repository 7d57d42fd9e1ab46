"""``kpe watch``: events as they happen."""

import contextlib
import math
from typing import Annotated

import typer

from kafka_partition_events.cli.common.options import StopAfter, Topics, parse_duration, with_options
from kafka_partition_events.cli.common.output import OutputChoice, choose_output, report
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import Services, first_poll


@with_options
def watch_command(
    context: typer.Context,
    *,
    topics: Topics = None,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two polls.")] = "5s",
    output: OutputChoice = None,
    for_: StopAfter = None,
    where: ClusterOptions,
) -> None:
    """Show what happens to topics, partitions and brokers, as it happens.

    \b
    kpe watch -b localhost:9092
    kpe watch -b localhost:9092 --topics 'orders|payments' --interval 1s
    kpe watch -b localhost:9092 --for 10m > events.jsonl
    kpe watch -b localhost:9092 | jq -c 'select(.kind == "partition_offline")'
    kpe watch -b broker:9093 -X security.protocol=SASL_SSL -X ssl.ca.location=ca.pem \\
        -X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=noc -X sasl.password_file=/run/secrets/kafka

    Begins with the current state: in a table with a summary and what is offline, in JSON with one event
    ("initial": true) for each broker, topic and offline partition. While something is offline it polls more
    often than --interval. What happens and is undone between two polls is not seen. Times are UTC. Durations
    are 500ms, 5s, 10m, 1h.

    Exit codes: 0 the time of --for is over, or Ctrl-C; 2 wrong address, refused login, unknown option.
    """  # noqa: D301
    from kafka_partition_events.cli.cluster.live import live
    from kafka_partition_events.cli.cluster.printer import Printer
    from kafka_partition_events.cli.common.event_text import counted, lasted
    from kafka_partition_events.cli.common.topic_filter import TopicFilter

    services: Services = context.obj
    wanted, config, seconds = TopicFilter(topics), where.config(), parse_duration(interval)
    limit = math.inf if for_ is None else parse_duration(for_)
    printer = Printer(choose_output(output))
    began, shown = services.clock.monotonic(), 0
    poller, initial = first_poll(services, config, seconds)
    # Nothing polls yet, so no event comes between this state and the first live event.
    with contextlib.closing(poller), contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
        assert poller.cluster is not None  # noqa: S101 - the first poll has it
        now = wanted.narrowed(poller.cluster)
        if poller.cluster.by_topic and not now.by_topic:
            report(f"note: no topic is called {wanted}; --topics is a regular expression")
        printer.state(now, [event for event in initial if wanted.wants(event)])
        for event in live(poller, services.clock, began + limit):
            if (selected := wanted.shown(event)) is not None:
                printer.event(selected)
                shown += 1
    report(f"{counted(shown, 'event')} in {lasted(services.clock.monotonic() - began)}")
