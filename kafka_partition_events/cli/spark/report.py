"""``kpe spark report``: the gold tables as one HTML file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import Verbose, check_out, write_out
from kafka_partition_events.cli.common.output import write_line
from kafka_partition_events.cli.spark.fleet import parse_days, parse_target
from kafka_partition_events.cli.spark.options import Cores, Target
from kafka_partition_events.cli.spark.submit import PrintSubmit, submit_line
from kafka_partition_events.spark.session import opened_session
from kafka_partition_events.spark.tables.days import last_days

_DAYS_BY_DEFAULT = 7


def report_command(
    context: typer.Context,
    tables: Annotated[
        str, typer.Option("--tables", metavar="DIR", help="What was --out for `kpe spark fleet`.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The file to write.")] = Path(
        "fleet-report.html"
    ),
    in_catalog: Annotated[
        bool, typer.Option("--in-catalog", help="--tables is a schema of a catalog: CATALOG.SCHEMA.")
    ] = False,
    days: Annotated[
        str | None,
        typer.Option(metavar="FROM..TO", help="Days in UTC; by default the last seven, with today."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ID", help="The cluster, if the tables hold several.")
    ] = None,
    target: Target = "99.9%",
    cores: Cores = 2,
    print_submit: PrintSubmit = False,
    verbose: Verbose = False,
) -> None:
    """Write what happened to a fleet as one HTML file, from the tables that `kpe spark fleet` keeps.

    Availability by topic and hour, outages with their bounds and causes, topics that grew.
    The file asks nobody for anything: mail it, or keep it.

    \b
    kpe spark report --tables /data/kpe
    kpe spark report --tables /data/kpe --days 2026-11-01..2026-11-07 --out week.html --target 99.95%

    On a cluster, spark-submit runs the same: --print-submit prints the whole line.

    Exit codes: 0 written; 2 no such tables, nothing in these days, several clusters and none named,
    the file can't be written.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
    configure_logs(verbose=verbose)
    check_out(out)
    chosen = last_days(datetime.now(UTC), _DAYS_BY_DEFAULT) if days is None else parse_days(days)
    promised = parse_target(target)
    if print_submit:
        write_line(submit_line(context, kafka=False))
        return
    with opened_session(cores=cores, name="kpe spark report") as spark:
        from kafka_partition_events.spark.report.collect import collect  # noqa: PLC0415 - needs PySpark
        from kafka_partition_events.spark.report.page import render, verdict  # noqa: PLC0415
        from kafka_partition_events.spark.tables.tables import Tables  # noqa: PLC0415

        kept = Tables(spark, tables, in_catalog=in_catalog)
        told = collect(kept, chosen, cluster=cluster, target=promised)
    write_out(out, render(told))
    write_line(f"{out}: {verdict(told)}")
