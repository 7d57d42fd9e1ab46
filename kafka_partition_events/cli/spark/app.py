"""``kpe spark``: what happened to a fleet, computed from its events by Spark."""

from typing import ClassVar

import typer

from kafka_partition_events.cli.common.lazy_group import LazyGroup


class _SparkGroup(LazyGroup):
    table: ClassVar = {
        "fleet": (
            "spark.fleet:fleet_command",
            "Keep tables of outages, availability, churn, skew from the events.",
        ),
        "maintain": (
            "spark.maintain:maintain_command",
            "Make few files of many in the tables, and drop old records.",
        ),
        "report": ("spark.report:report_command", "Write the tables as one HTML file."),
        "whatif": ("spark.whatif:whatif_command", "Show what more partitions would do to a topic's keys."),
    }


spark_app = typer.Typer(cls=_SparkGroup, rich_markup_mode=None)


@spark_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe spark COMMAND --help` has examples."
)
def spark() -> None:
    """Compute from the events what happened to a fleet: outages, availability, churn, skew.

    Needs Java 17 and the extra: pip install "kafka-partition-events[cli,spark]". Here it runs on this
    machine. On a cluster, spark-submit runs the same command: see docs/fleet.md.

    \b
    kpe spark fleet -b localhost:9092 --out /data/kpe --once
    kpe spark report --tables /data/kpe
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
