"""Let Spark keep tables of the demo's events, and write the report from them."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.demo.tour.scenario import EVENTS
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.spark.report.model import Change
from kafka_partition_events.spark.report.page import render
from kafka_partition_events.spark.session import BRIEF, opened_session
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.days import Days

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SETTINGS: Final = {
    **BRIEF,
    # Some hundred rows are read before their code is generated.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextlib.contextmanager
def starting_spark() -> Iterator["Future[SparkSession]"]:
    """Let Spark start while the brokers do; it takes some seconds.

    Raises:
        CliError: Spark failed.
    """
    with _jvm_silenced(), contextlib.ExitStack() as opened, ThreadPoolExecutor(1) as starter:
        yield starter.submit(
            lambda: opened.enter_context(opened_session(name="kpe demo", settings=_SETTINGS))
        )


def write_report(
    spark: "SparkSession", bootstrap_servers: str, seen: Sequence[ev.Event], out: Path
) -> tuple[Counts, int]:
    """Write the report of ``kpe spark fleet`` and ``kpe spark report``.

    Args:
        spark: Who makes it.
        bootstrap_servers: Where the topic of events is.
        seen: The events as the watcher saw them; some of what a producer found out is in no table.
        out: Where it goes.

    Returns:
        What Spark has taken in, and how many outages of partitions it found.
    """
    # Here, because PySpark is an extra of 400 MB.
    from kafka_partition_events.spark.ingest.sources import KafkaSource  # noqa: PLC0415
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415
    from kafka_partition_events.spark.report.collect import collect  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="kpe-demo-") as tables:
        fleet = Fleet(out=tables)
        mark = Pipeline(spark, fleet).run_once(KafkaSource(bootstrap=bootstrap_servers, topic=EVENTS))
        today = datetime.now(UTC).date()
        days = Days(min((event.wall_time.date() for event in seen), default=today), today)
        told = collect(fleet.tables(spark), days, cluster=None, targets=fleet.targets)
    changes = sorted([*told.changes, *_changes(seen)], key=lambda change: change.by)
    out.write_text(render(evolve(told, changes=tuple(changes)), note="Made by `kpe demo fleet`."), "utf-8")
    return mark.totals, told.outage_count


def _changes(seen: Sequence[ev.Event]) -> Iterator[Change]:
    """Return what no table tells: brokers that came and went, and what a producer was kept off."""
    for event in seen:
        change = partial(Change, after=event.previous_at, by=event.wall_time)
        match event:
            case ev.BrokerRemoved(old=node):
                yield change(name="broker.left", broker=node.id)
            case ev.BrokerAdded(new=node):
                yield change(name="broker.joined", broker=node.id)
            case ev.CapReached(topic=topic, admitted=admitted, partitions=partitions):
                yield change(name="cap.reached", topic=topic, detail=f"{len(admitted)} of {partitions} used")
            case ev.CapLifted(topic=topic):
                yield change(name="cap.lifted", topic=topic)


@contextlib.contextmanager
def _jvm_silenced() -> Iterator[None]:
    """Keep what Spark's JVM writes to standard error for the case that it fails.

    Some of it is written before any setting of Spark's has a say, and would end up in the live display.
    """
    with tempfile.TemporaryFile() as kept:
        stderr = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except CliError:
            raise
        except Exception as error:
            kept.seek(0)
            last = kept.read().decode(errors="replace").strip().splitlines()[-1:]
            raise CliError(f"Spark made no report: {one_line(error)} {' '.join(last)}".rstrip()) from error
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
