"""Let Spark keep tables of the demo's events, and write the report from them."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.demo.ledger import Reconciliation
from kafka_partition_events.demo.records import figures, records_section, traffic_section, verdict
from kafka_partition_events.demo.scenario import EVENTS
from kafka_partition_events.demo.stored import Arrivals
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.spark.report.model import Change
from kafka_partition_events.spark.report.page import render
from kafka_partition_events.spark.session import BRIEF, opened_session
from kafka_partition_events.spark.tables.days import Days

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@frozen(kw_only=True)
class Played:
    """What is known of the demo beside its events' topic.

    Attributes:
        accounts: What became of each topic's records.
        arrivals: When each topic's records came to its partitions.
        seen: The events as the watcher saw them.
        note: What to say at the top.
    """

    accounts: Sequence[Reconciliation]
    arrivals: Mapping[str, Arrivals]
    seen: Sequence[ev.Event]
    note: str


_SETTINGS: Final = {
    **BRIEF,
    # Some hundred rows are read before their code is generated.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextlib.contextmanager
def starting_spark() -> Iterator["Future[SparkSession]"]:
    """Let Spark start, beside what else is to be done; it takes some seconds.

    Raises:
        CliError: Spark failed.
    """
    with _jvm_silenced(), contextlib.ExitStack() as opened, ThreadPoolExecutor(1) as starter:
        yield starter.submit(
            lambda: opened.enter_context(opened_session(name="kpe demo", settings=_SETTINGS))
        )


def write_report(spark: "SparkSession", bootstrap_servers: str, played: Played, out: Path) -> str:
    """Write the report of ``kpe spark fleet`` and ``kpe spark report``, with sections of the demo's own.

    Returns:
        What Spark has taken in, in words.
    """
    # Here, because PySpark is an extra of 400 MB.
    from kafka_partition_events.spark.ingest.sources import KafkaSource  # noqa: PLC0415
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415
    from kafka_partition_events.spark.report.collect import collect  # noqa: PLC0415
    from kafka_partition_events.spark.tables.tables import open_tables  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="kpe-demo-") as tables:
        fleet = Fleet(out=tables)
        events = KafkaSource(bootstrap=bootstrap_servers, topic=EVENTS)
        mark = Pipeline(spark, fleet).run_once(events)
        today = datetime.now(UTC).date()
        days = Days(min((event.wall_time.date() for event in played.seen), default=today), today)
        told = collect(open_tables(spark, tables, fleet.format), days, cluster=None, targets=fleet.targets)
    changes = sorted([*told.changes, *_changes(played.seen)], key=lambda change: change.by)
    told = evolve(told, changes=tuple(changes))
    page = render(
        told,
        heading=verdict(told, played.accounts),
        note=played.note,
        figures=figures(played.accounts),
        sections=(traffic_section(played.arrivals, told.outages), records_section(played.accounts)),
    )
    out.write_text(page, encoding="utf-8")
    return f"{EVENTS}: Spark took in {mark.totals}"


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
