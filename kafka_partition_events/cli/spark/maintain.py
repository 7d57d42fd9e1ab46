"""``kpe spark maintain``: few files instead of many, and no more records than are wanted."""

from datetime import timedelta
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import needing
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import Verbose
from kafka_partition_events.cli.common.output import report
from kafka_partition_events.cli.spark.options import CORES, EXTRAS, Out, Work
from kafka_partition_events.spark.progress import Lines


def maintain_command(
    out: Out,
    work: Work = None,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=36_500,
            metavar="DAYS",
            help="Drop records (bronze) that were appended so many days before the last news: 9 at the "
            "least. Without it all are kept.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Make few files of many in the tables of `kpe spark fleet`, and drop old records.

    It runs OPTIMIZE and VACUUM on all tables. Only records go when they are old: silver and gold, small
    beside them, keep the history.

    Run it once a day while no `kpe spark fleet` runs: one that does stops at its next refresh.

    \b
    kpe spark maintain --out /data/kpe
    kpe spark maintain --out /data/kpe --keep 90
    kpe spark maintain --out lake.kpe --work hdfs:///kpe/work --keep 90

    Exit codes: 0 done; 2 no such tables, a pipeline has begun meanwhile, Spark failed.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
    configure_logs(verbose=verbose)
    with needing(EXTRAS):
        from kafka_partition_events.spark.pipeline import Fleet, Pipeline
        from kafka_partition_events.spark.session import opened_session
    progress = Lines(report)
    progress.report("starting Spark")
    with opened_session(cores=CORES, name="kpe spark maintain") as spark:
        fleet = Fleet(out=out, work=work)
        Pipeline(spark, fleet, progress).maintain(None if keep is None else timedelta(days=keep))
