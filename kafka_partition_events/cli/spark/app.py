"""``kpe spark``: what the events tell of a fleet, computed by Spark."""

from datetime import timedelta
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import (
    Bootstrap,
    Verbose,
    parse_address,
    parse_duration,
    parse_pairs,
)
from kafka_partition_events.cli.common.output import OutputChoice, choose_output, write_line
from kafka_partition_events.cli.spark.fleet import FleetJob, parse_target, run_fleet
from kafka_partition_events.cli.spark.maintain import maintain_command
from kafka_partition_events.cli.spark.options import Cores, Out, Target, Work
from kafka_partition_events.cli.spark.report import report_command
from kafka_partition_events.cli.spark.submit import PrintSubmit, submit_line
from kafka_partition_events.cli.spark.whatif import whatif_command

spark_app = typer.Typer(rich_markup_mode=None)


@spark_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, told in one line on stderr. "
    "`kpe spark COMMAND --help` has examples."
)
def spark() -> None:
    """Compute from the events what happened to a fleet: outages, availability, churn, skew.

    Needs Java 17 and the extra: pip install "kafka-partition-events[cli,events,spark]". Here it runs on this
    machine. On a cluster, spark-submit runs the same command; --print-submit prints the whole line.

    \b
    kpe spark fleet -b localhost:9092 --out /data/kpe --once
    kpe spark fleet -b kafka:9092 --out hdfs:///lake/kpe --every 60s --print-submit
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@spark_app.command("fleet", short_help="Keep tables of outages, availability, churn, skew from the events.")
def fleet_command(
    context: typer.Context,
    out: Out,
    bootstrap: Bootstrap = None,
    events_topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="Where observers write their events.")
    ] = "kpe.events",
    client_options: Annotated[
        list[str] | None,
        typer.Option(
            "-X",
            metavar="KEY=VALUE",
            help="An option of Kafka's Java client (security.protocol=SSL); repeat it for more. Values are "
            "never shown or logged.",
        ),
    ] = None,
    control_prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            help="Keep a table of changes, too, from the topic PREFIXchanges at -b; the prefix is kpe. if "
            "nobody chose another.",
        ),
    ] = None,
    work: Work = None,
    once: Annotated[bool, typer.Option("--once", help="Take in what there is, then end.")] = False,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Without --once: the time between two batches. By default 60s."
        ),
    ] = None,
    target: Target = "99.9%",
    max_per_batch: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="So many records in a batch at most."),
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where Prometheus finds metrics of this pipeline: lag, quarantine, age of the tables.",
        ),
    ] = None,
    cores: Cores = 2,
    output: OutputChoice = None,
    print_submit: PrintSubmit = False,
    verbose: Verbose = False,
) -> None:
    """Keep tables of what happened to a fleet, from the events that observers write to a topic.

    bronze/records is what came, beside what it tells; whatever is no event has a defect instead: it is in
    quarantine. gold has partition_outages (begin and end each with a lower and an upper bound),
    availability_hourly and _daily (as a range: what nobody watched is neither up nor down), slo_burn,
    leader_churn, skew, partition_count_history; by day and hour. With
    --control-prefix also change_convergence.

    Killed at any moment, it goes on where it was: nothing is lost or doubled. Ctrl-C or SIGTERM ends it at
    the next end of a batch. Counts are told as it goes: records read, good, unparsed, unknown (a type or
    version that is not known yet), future and past (of an observer whose clock is ahead or behind), doubles
    (told by two observers, or twice), missing (gone from the topic before they were read). To stdout goes a
    line in the end; with another --output, or in a pipe, a JSON object for each time that tables are made
    anew.

    \b
    kpe spark fleet -b localhost:9092 --out /data/kpe --once
    kpe spark fleet -b localhost:9092 --out /data/kpe --every 60s --metrics-listen 127.0.0.1:9406
    kpe spark fleet -b localhost:9092 --control-prefix kpe. --out /data/kpe --every 60s
    kpe spark fleet -b kafka:9092 --out hdfs:///lake/kpe --print-submit
    kpe spark fleet -b kafka:9092 --out lake.kpe --work s3a://lake/kpe-work --print-submit

    Exit codes: 0 done, or told to stop; 2 no such topic, wrong address, another source, a
    directory that holds something else, Spark failed; 130 --once was interrupted.
    """  # noqa: D301
    configure_logs(verbose=verbose)
    if once and every:
        raise CliError("--once and --every exclude each other")
    if metrics_listen and once:
        raise CliError("--metrics-listen is for a pipeline that goes on: leave out --once")
    job = FleetJob(
        out=out,
        work=work,
        target=parse_target(target),
        bootstrap=bootstrap,
        events_topic=events_topic,
        options=parse_pairs(client_options or ()),
        control=control_prefix,
        max_per_batch=max_per_batch,
        every=None if once else timedelta(seconds=parse_duration(every or "60s")),
        metrics=parse_address(metrics_listen, "--metrics-listen") if metrics_listen else None,
        cores=cores,
        output=choose_output(output),
    )
    if print_submit:
        write_line(submit_line(context, kafka=True))
    else:
        run_fleet(job)


spark_app.command("maintain", short_help="Make few files of many in the tables, and drop old records.")(
    maintain_command
)
spark_app.command("report", short_help="Write the tables as one HTML file.")(report_command)
spark_app.command("whatif", short_help="Tell what more partitions would do to a topic's keys.")(
    whatif_command
)
