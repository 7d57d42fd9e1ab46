"""The first report: reads events and data topics through Spark, and writes one HTML file.

``python -m kafka_partition_events.spark.job --help``
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.spark.model import ReportData, accounts_of
from kafka_partition_events.spark.report import render
from kafka_partition_events.spark.session import opened_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Counters = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Client -> topic -> ``sent, acknowledged, failed, rerouted, capped``."""


def run_report(
    bootstrap: str,
    *,
    events_topic: str = "kpe.events",
    data_topics: Sequence[str] = (),
    counters: Counters | None = None,
    options: Mapping[str, str] | None = None,
    out: Path = Path("demo-report.html"),
    note: str | None = None,
    cluster: str | None = None,
    spark: "SparkSession | None" = None,
) -> ReportData:
    """Compute the report and write it to a file.

    Takes some seconds to start Spark, then time in proportion to the records, which are read twice. All
    partitions of the topics must be online. Not meant to run in two threads of one process at once.

    Args:
        bootstrap: The brokers, ``host:port,host:port``.
        events_topic: Where `KafkaEventListener` writes.
        data_topics: The topics whose records are counted.
        counters: What the producers counted.
        options: More options of Kafka's Java clients by its own names, for instance ``security.protocol``.
        out: The HTML file, which is replaced.
        note: A line for the top of the report.
        cluster: Which cluster's events to report on, by its id; needed where the topic has those of several.
        spark: A session with the Kafka connector; by default the one of spark-submit, the running one, or a
            local one that is made, and stopped.

    Raises:
        SparkJobError: Spark could not be started, the topics could not be read, or the events are of
            several clusters and none is named.
        JvmError: the connector's jars could not be fetched.
        ValueError: ``counters`` has names that are not known.
    """
    accounts = accounts_of(counters or {})
    with opened_session() if spark is None else contextlib.nullcontext(spark) as session:
        data = _read(session, bootstrap, events_topic, data_topics, options, cluster)
    data = evolve(data, accounts=accounts, note=note)
    out.write_text(render(data), encoding="utf-8")
    return data


def _read(
    spark: "SparkSession",
    bootstrap: str,
    events_topic: str,
    data_topics: Sequence[str],
    options: Mapping[str, str] | None,
    cluster: str | None,
) -> ReportData:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415 - `--help` works without PySpark

    from kafka_partition_events.spark.collect import collect  # noqa: PLC0415
    from kafka_partition_events.spark.kafka import explained, read_topics  # noqa: PLC0415

    try:
        events = read_topics(spark, bootstrap, [events_topic], options)
        data = read_topics(spark, bootstrap, data_topics, options) if data_topics else None
        return collect(events, data, cluster)
    except (PySparkException, Py4JJavaError) as error:
        raise explained(error, [events_topic, *data_topics], bootstrap) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the report from the command line; return the exit code."""
    args = _parser().parse_args(arguments)
    try:
        counters: Any = json.loads(args.counters.read_text(encoding="utf-8")) if args.counters else None
        run_report(
            args.bootstrap,
            events_topic=args.events_topic,
            data_topics=args.topic,
            counters=counters,
            options=dict(args.option),
            out=args.out,
            cluster=args.cluster,
        )
    except (KafkaPartitionEventsError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    print(args.out)  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kafka_partition_events.spark.job",
        description="Report outages, growth and what became of records, from the events topic.",
    )
    parser.add_argument("-b", "--bootstrap", required=True, help="brokers, host:port,host:port")
    parser.add_argument("--events-topic", default="kpe.events", help="default: %(default)s")
    parser.add_argument("-t", "--topic", action="append", default=[], help="a data topic; may be repeated")
    parser.add_argument("--cluster", help="a cluster's id, where the events are of several clusters")
    parser.add_argument(
        "--counters", type=Path, help='what producers counted: JSON, {"client": {"topic": {"sent": 1, ...}}}'
    )
    parser.add_argument(
        "-X",
        "--option",
        action="append",
        default=[],
        type=_pair,
        metavar="KEY=VALUE",
        help="an option of Kafka's Java clients, for instance security.protocol=SSL; may be repeated",
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("demo-report.html"), help="default: %(default)s"
    )
    return parser


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError("must be of the form KEY=VALUE")  # not repeated: may be a password
    return key, value


if __name__ == "__main__":
    sys.exit(main())
