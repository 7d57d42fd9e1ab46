"""Events as records, and tables from them, for the tests of the fleet pipeline's transforms."""

import json
import os
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from attrs import evolve
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import events, layout
from kafka_partition_events.spark.gold import blind, outages, partition_counts
from kafka_partition_events.spark.gold.availability import Lasting
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.gold.intervals import day_of, during
from kafka_partition_events.spark.ingest import batches
from kafka_partition_events.spark.progress import Progress
from kafka_partition_events.spark.refresh.gold import OF_EVENTS, OF_LASTING
from kafka_partition_events.spark.refresh.refresher import Refresher
from kafka_partition_events.spark.tables.days import Days, Period
from kafka_partition_events.spark.tables.state import INGEST, Reading, StateRow
from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.spark.tables.tables import Tables

DAY = date(2026, 11, 20)
WRITTEN = datetime(2026, 11, 22, 23, tzinfo=UTC)
"""When the records were that tests write to bronze themselves."""
BRIEF_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""An environment for processes with a JVM that are over before it has warmed up."""
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For sessions of fleet pipelines. A refresh has many plans for few rows: compiling them takes longer than
interpreting. The computations that they are held against compile, as everybody's sessions do."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's defaults."""
Gold = dict[str, list[tuple[Any, ...]]]
"""The rows of each gold table, in some order of their values."""

TABLES = (
    "partition_outages", "partition_count_history", "availability_hourly", "availability_daily", "slo_burn",
    "leader_churn", "skew", "cluster_outages",
)  # fmt: skip


def interpreting(directory: Path) -> dict[str, str]:
    """Return an environment for a process whose Spark is `INTERPRETED`, and brief; a file there says so."""
    directory.mkdir(exist_ok=True)
    told = "".join(f"{name} {value}\n" for name, value in INTERPRETED.items())
    (directory / "spark-defaults.conf").write_text(told)
    return {**os.environ, **BRIEF_JVM, "SPARK_CONF_DIR": str(directory)}


def moment(text: str, day: date = DAY) -> datetime:
    """Return a time of a day: ``"10:00"``, ``"10:00:30.5"``."""
    return datetime.fromisoformat(f"{day}T{text}+00:00")


def record(
    name: str,
    at: datetime,
    *,
    prev_at: datetime | None = None,
    cluster: str | None = "c-1",
    topic: str | None = None,
    id_: str | None = None,
    initial: bool = False,
    gap: bool = False,
    observer: str = "a",
    **data: Any,
) -> bytes:
    """Return one event as the value of its record; by default nobody else tells the same."""
    told = {
        "cluster_id": cluster,
        **({} if topic is None else {"topic": topic}),
        **data,
        "snapshot": {"seq": 1, "prev_at": _text(prev_at), "at": _text(at), "gap": gap},
        "initial": initial,
        "observer": observer,
    }
    identity = [cluster, topic, name, _text(at), observer, json.dumps(data, sort_keys=True)]
    return json.dumps(
        {
            "specversion": "1.0",
            "id": json.dumps(identity) if id_ is None else id_,
            "source": f"kafka://{cluster}",
            "type": f"io.github.kafka-partition-events.{name}.v1",
            "sequence": "1",
            "data": told,
        }
    ).encode()


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def created(topic: str, at: datetime, count: int, **how: Any) -> bytes:
    how = {"topic_id": f"{topic}-id", "initial": True, **how}
    return record("topic.created", at, topic=topic, after={"count": count}, **how)


def grown(topic: str, at: datetime, count: int, **how: Any) -> bytes:
    how = {"topic_id": f"{topic}-id", **how}
    return record("partitions.added", at, topic=topic, after={"count": count}, **how)


def offline(topic: str, partition: int, at: datetime, leader: int | None = 2, **how: Any) -> bytes:
    before = None if leader is None else {"leader": leader, "leader_epoch": 0}
    return record(
        "partition.offline", at, topic=topic, partitions=str(partition), before=before,
        after={"leader": None, "leader_epoch": 1}, **how,
    )  # fmt: skip


def online(topic: str, partition: int, at: datetime, leader: int | None = 2, **how: Any) -> bytes:
    return record(
        "partition.online", at, topic=topic, partitions=str(partition), before={"leader": None},
        after={"leader": leader, "leader_epoch": 2}, **how,
    )  # fmt: skip


def moved(topic: str, partition: int, at: datetime, from_: int | None, to: int | None, **how: Any) -> bytes:
    return record(
        "leadership.moved", at, topic=topic, partitions=str(partition), before={"leader": from_},
        after={"leader": to}, **how,
    )  # fmt: skip


def recovered(since: datetime, at: datetime, **how: Any) -> bytes:
    return record("metadata.recovered", at, prev_at=since, attempts=3, **how)


def unavailable(since: datetime, at: datetime, **how: Any) -> bytes:
    return record("metadata.unavailable", at, prev_at=since, error="no route", **how)


def beat(at: datetime, **how: Any) -> bytes:
    begin, end = (f"{at - timedelta(minutes=back):%Y-%m-%dT%H:%M:%SZ}" for back in (5, 0))
    return record("cluster.summary", at, period={"begin": begin, "end": end}, brokers=[], **how)


def left(broker: int, at: datetime, prev_at: datetime | None = None, **how: Any) -> bytes:
    return record("broker.left", at, prev_at=prev_at, broker=broker, **how)


# -- with Spark ------------------------------------


def parsed(spark: SparkSession, records: Iterable[bytes]) -> DataFrame:
    """Return the rows of records of no time."""
    import pyarrow as pa  # type: ignore[import-untyped] # noqa: PLC0415

    table = spark.createDataFrame(pa.table({"value": pa.array(records, pa.binary())}))
    return events.parsed(
        table.selectExpr("value", "TIMESTAMP(NULL) AS timestamp", "INT(NULL) AS timestampType")
    )


def sightings(spark: SparkSession, records: Iterable[bytes]) -> DataFrame:
    """Return what records say, doubles included."""
    return events.observations(parsed(spark, records))


def as_taken_in(spark: SparkSession, values: Iterable[bytes], at: datetime) -> DataFrame:
    """Return records as a source gives them, without a broker's offsets, written at one time."""
    rows = [(None, value, "kpe.events", None, None, at, None) for value in values]
    return spark.createDataFrame(
        rows,
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
        "timestampType INT",
    )


def computed(frame: DataFrame) -> DataFrame:
    """Return a small table as plain values, which are not computed again by each who reads it."""
    return frame.sparkSession.createDataFrame(frame.toArrow())


class Inputs(NamedTuple):
    """What gold tables are made from: each event once, and what lasts."""

    events: DataFrame
    lasting: Lasting


def inputs(spark: SparkSession, records: Iterable[bytes], until: datetime | None = None) -> Inputs:
    """Return inputs, computed already, from all records at once.

    Args:
        spark: The session.
        records: Their values.
        until: The last news of all clusters; None: what they tell last.
    """
    told = computed(sightings(spark, records))
    last = told.groupBy("cluster_id").agg({"at": "max"}).toArrow().to_pylist()
    untils = {row["cluster_id"]: until or row["max(at)"] for row in last}
    unseen = blind.spans_of(blind.intervals(told, Clusters(until=untils)))
    out = blind.spans_of(blind.outages(told, Clusters(until=untils)))
    clusters = Clusters(until=untils, blind=unseen, out=out)
    narrow = computed(outages.states(told))
    down = computed(outages.partition_outages(outages.all_outages(narrow), narrow, clusters))
    counts = computed(partition_counts.spells(narrow))
    lasting = Lasting(outages=down, counts=counts, clusters=clusters)
    return Inputs(events=computed(events.distinct(told)), lasting=lasting)


def gold_table(name: str, told: Inputs, period: Period) -> DataFrame:
    """Return the rows of a gold table in a period."""
    if name in OF_LASTING:
        return OF_LASTING[name](told.lasting, period)
    if name in OF_EVENTS:
        return OF_EVENTS[name][1](told.events, period)
    if name == "cluster_outages":
        found = blind.rows_of(told.events.sparkSession, told.lasting.clusters.out)
        return found.where(during(F.col("began"), period))
    if name == "partition_outages":
        return told.lasting.outages.where(during(F.col("began_by"), period))
    rows = told.lasting.counts.withColumn("day", day_of(F.unix_micros("valid_from")))
    return rows.where(during(F.col("valid_from"), period))


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows in the order of their values. By Arrow, for times that know their zone."""
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row.values()])


def tables_of(spark: SparkSession, out: Path) -> Tables:
    """Return the tables in a directory."""
    return Tables(spark, str(out))


class Begun(NamedTuple):
    """Tables that a run has taken over, and what it does there."""

    tables: Tables
    kept: StateTable
    state: StateRow

    def take_in(self, values: Iterable[bytes], number: int) -> None:
        """Write records to bronze, as a query does with its batch of this number."""
        taken = batches.rows(as_taken_in(self.tables.spark, values, WRITTEN))
        self.tables.append("bronze/records", taken, number)

    def refresh(self, tables: Any = None, at_once: int = 4) -> "Begun":
        """Make the tables anew, by ``tables`` if they are given; return what is so then."""
        tables = tables or self.tables
        refresher = Refresher(tables, StateTable(tables), Progress(), at_once=at_once)
        return self._replace(state=refresher.refresh(self.state))


def begun(spark: SparkSession, out: Path) -> Begun:
    """Take over the tables in a directory, which are made if they are not there."""
    tables = tables_of(spark, out)
    kept = StateTable(tables)
    state = kept.take_over(layout.TABLES)
    layout.ensure(tables, kept, batches.rows(as_taken_in(spark, [], WRITTEN)), None)
    return Begun(tables, kept, evolve(state, readings={INGEST: Reading(source="a test")}))


def gold_of(tables: Tables) -> Gold:
    """Return the gold tables."""
    return {name: _sorted(tables.read(f"gold/{name}")) for name in TABLES}


def gold_at_once(
    spark: SparkSession, records: Iterable[bytes], days: Days, tables: Iterable[str] = TABLES
) -> Gold:
    """Return what gold must be, by the batch computation over all records."""
    told = inputs(spark, records)
    return {name: _sorted(gold_table(name, told, days)) for name in tables}


def _sorted(frame: DataFrame) -> list[tuple[Any, ...]]:
    found = [tuple(sorted(row.items())) for row in frame.toArrow().to_pylist()]
    return sorted(found, key=str)
