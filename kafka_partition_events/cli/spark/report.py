"""``kpe spark report``: the gold tables as one HTML file."""

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import Verbose, check_out
from kafka_partition_events.cli.common.output import write_line
from kafka_partition_events.cli.spark.options import CORES, Target, parse_target
from kafka_partition_events.spark.session import opened_session
from kafka_partition_events.spark.tables.days import EVER, Days, last_days

_DAYS: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:\.\.(\d{4}-\d\d-\d\d))?")
_DAYS_BY_DEFAULT: Final = 7


def report_command(
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
    verbose: Verbose = False,
) -> None:
    """Write what happened to a fleet as one HTML file, from the tables that `kpe spark fleet` keeps.

    Availability by topic and hour, outages with their bounds and causes, topics that grew.
    The file loads nothing from elsewhere: mail it, or keep it.

    \b
    kpe spark report --tables /data/kpe
    kpe spark report --tables /data/kpe --days 2026-11-01..2026-11-07 --out week.html --target 99.95%

    Exit codes: 0 written; 2 no such tables, nothing in these days, several clusters and none named,
    the file can't be written.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
    configure_logs(verbose=verbose)
    check_out(out)
    chosen = last_days(datetime.now(UTC), _DAYS_BY_DEFAULT) if days is None else parse_days(days)
    promised = parse_target(target)
    with opened_session(cores=CORES, name="kpe spark report") as spark:
        from kafka_partition_events.spark.report.collect import collect
        from kafka_partition_events.spark.report.page import render, verdict
        from kafka_partition_events.spark.tables.tables import Tables

        kept = Tables(spark, tables, in_catalog=in_catalog)
        collected = collect(kept, chosen, cluster=cluster, target=promised)
    out.write_text(render(collected), encoding="utf-8")
    write_line(f"{out}: {verdict(collected)}")


def parse_days(text: str) -> Days:
    """Return the days that ``2026-11-01..2026-11-07`` or ``2026-11-01`` means.

    Raises:
        CliError: it means none.
    """
    found = _DAYS.fullmatch(text)
    try:
        days = Days(*map(date.fromisoformat, (found[1], found[2] or found[1]))) if found else None
    except ValueError:  # the 32nd, or the end before the begin
        days = None
    if days is None or days.last > EVER:
        raise CliError(f"{text!r} is no range of days; write 2026-11-01..2026-11-07")
    return days
