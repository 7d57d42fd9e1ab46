"""The tables of the pipeline, whatever their format: batches that replace themselves, days that are replaced.

Parquet's files are in directories ``NAME/day=.../batch=.../``, written by dynamic partition
overwrite: a reader may for milliseconds miss a partition that is being replaced. Table formats (Delta,
Iceberg) are tables ``NAMESPACE.layer_name`` of a catalog, and replace atomically.
"""

import contextlib
import functools
import json
import operator
import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from importlib import resources
from types import MappingProxyType
from typing import Final, Protocol

import yaml
from attrs import field, frozen
from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructType

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.tables.days import Days, Hours, Period
from kafka_partition_events.spark.tables.storage import Storage

RECORDS: Final = "bronze/records"
STATES: Final = "silver/states"
STANDING: Final = "silver/standing"
"""What stands for all states before the beginning of a day."""
BLIND: Final = "silver/blind"
"""When nobody looked; a refresh is the batch."""
UNTIL: Final = "silver/until"
"""The last news of each cluster; a refresh is the batch."""
OUTAGES: Final = "gold/partition_outages"
COUNTS: Final = "gold/partition_count_history"

PARQUET: Final = "parquet"
TABLE_FORMATS: Final = ("delta", "iceberg")

_SCHEMA: Final = "_schema.json"
_DAY, _HOUR, _BATCH = "day", "hour_of_day", "batch"


class Tables(Protocol):
    """Reads and writes tables by name, such as ``bronze/records``."""

    def ensure(self, name: str, schema: StructType) -> None:
        """Make the table if it isn't there, so that it can be read before it has a row."""
        if not self.exists(name):
            self._make(name, schema)

    def put(self, name: str, rows: DataFrame, batch: int) -> None:
        """Write a batch's rows in the place of what the same batch has written before.

        Takes exactly one action on ``rows``, so they may come from a query with state.
        """

    def replace(self, name: str, rows: DataFrame, period: Period) -> None:
        """Write rows in the place of all rows of these days, or of these hours.

        Every row must be of one of them. Of hours, rows have ``hour_of_day``.
        """

    def rewrite(self, name: str, rows: DataFrame) -> None:
        """Write rows in the place of all of the same days and batches, which they may be made from."""

    def days(self, name: str) -> Sequence[date]:
        """Return the days of which there are rows, ascending."""

    def read(self, name: str, *days: Days, batches: Collection[int] | None = None) -> DataFrame:
        """Return a table, or its rows of these days, or those of these batches.

        Empty, with the table's schema, if nothing has been written.

        Raises:
            SparkJobError: there is no such table.
        """

    def drop(self, name: str, batch: int) -> None:
        """Delete a batch's rows from a table that has no ``day``."""

    def exists(self, name: str) -> bool:
        """Tell whether there is such a table."""

    def _make(self, name: str, schema: StructType) -> None: ...


def open_tables(
    spark: SparkSession, out: str, format_: str, properties: Mapping[str, str] = MappingProxyType({})
) -> Tables:
    """Return the tables of a format.

    Args:
        spark: The session that reads them.
        out: The directory of Parquet files, or the namespace (``catalog.schema``) of a table format.
        format_: ``parquet``, or a table format that the session has.
        properties: What tables of a catalog shall have when they are made.

    Raises:
        SparkJobError: the session has no such format.
    """
    if format_ == PARQUET:
        return _FileTables(spark, Storage(spark, out))
    _require_format(spark, format_)
    return _CatalogTables(spark, out, format_, properties)


# -- files -------------------------------------------------------------------------------------------------


@frozen(eq=False)
class _FileTables(Tables):
    """Tables in directories. Thread safe, as long as no two write one table at once."""

    _spark: SparkSession
    _storage: Storage
    _schemas: dict[str, StructType] = field(factory=dict, init=False)

    def put(self, name: str, rows: DataFrame, batch: int) -> None:
        # As text, which Spark keeps beside the code that it generates: a number would be in it, and each
        # batch compile the same code once more. It is read as the number that the table is declared with.
        stamped = rows.withColumn(_BATCH, F.lit(str(batch)))
        if _DAY in rows.columns:
            # A repeated batch has the same records, so it has rows of the same days.
            self._write(name, stamped, [_DAY, _BATCH], [])
        else:
            self._write(name, stamped, [_BATCH], [f"{_BATCH}={batch}"])

    def rewrite(self, name: str, rows: DataFrame) -> None:
        self._write(name, rows, [_DAY, _BATCH], [])

    def replace(self, name: str, rows: DataFrame, period: Period) -> None:
        if isinstance(period, Hours):
            by, parts = [_DAY, _HOUR], self._hours(name, period)
        else:
            by, parts = [_DAY], self._parts(name, period)
        # One file for each: to open one costs more than to fill it.
        self._write(name, rows.repartition(*by), by, parts)

    def read(self, name: str, *days: Days, batches: Collection[int] | None = None) -> DataFrame:
        reader = self._spark.read.schema(self._schema(name)).format(PARQUET)
        root = self._storage.path(name)
        if not days and batches is None:
            return reader.load(root)
        parts = self._parts(name, *days)
        if batches is not None:
            wanted = {f"{_BATCH}={batch}" for batch in batches}
            parts = [
                f"{part}/{found}".lstrip("/")
                for part in parts or [""]
                for found in self._storage.children(f"{name}/{part}".rstrip("/")) & wanted
            ]
        if not parts:
            return reader.load(root).where(F.lit(False))
        return reader.option("basePath", root).load([f"{root}/{part}" for part in sorted(parts)])

    def drop(self, name: str, batch: int) -> None:
        self._storage.delete(f"{name}/{_BATCH}={batch}")

    def exists(self, name: str) -> bool:
        return self._known(name) is not None

    def _write(self, name: str, rows: DataFrame, by: Sequence[str], parts: Sequence[str]) -> None:
        """Write rows in the place of what is in the partitions that they are in, and empty these others."""
        known = self._known(name) or StructType()
        schema = _joined(known, _as_declared(rows.schema))
        if schema != known:
            self._make(name, schema)
        before = {part: self._storage.children(f"{name}/{part}") for part in parts}
        (
            rows.write.format(PARQUET)
            .mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(*by)
            .save(self._storage.path(name))
        )
        for part, files in before.items():
            # A partition that has rows has new files now, under new names. Spark leaves the others alone.
            if files and self._storage.children(f"{name}/{part}") == files:
                self._storage.delete(f"{name}/{part}")

    def _make(self, name: str, schema: StructType) -> None:
        self._storage.make(name)
        self._storage.write(f"{name}/{_SCHEMA}", schema.json())
        self._schemas[name] = schema

    def _known(self, name: str) -> StructType | None:
        if name not in self._schemas and self._storage.exists(f"{name}/{_SCHEMA}"):
            # Torn by a crash: whoever writes next writes it anew.
            with contextlib.suppress(SparkJobError, ValueError):
                text = self._storage.read(f"{name}/{_SCHEMA}")
                self._schemas[name] = StructType.fromJson(json.loads(text))
        return self._schemas.get(name)

    def _schema(self, name: str) -> StructType:
        if (known := self._known(name)) is None:
            raise _missing(f"{name} in {self._storage.root}", begun=self._known(RECORDS) is not None)
        return known

    def _hours(self, name: str, hours: Hours) -> list[str]:
        """Return the directories of the hours that there are."""
        found = []
        for day in self._parts(name, hours.days):
            midnight = Days(*[date.fromisoformat(day.removeprefix(f"{_DAY}="))] * 2).hours.first
            for part in self._storage.children(f"{name}/{day}"):
                hour = midnight + int(part.removeprefix(f"{_HOUR}=")) if part.startswith(f"{_HOUR}=") else -1
                if hours.first <= hour <= hours.last:
                    found.append(f"{day}/{part}")
        return found

    def _parts(self, name: str, *days: Days) -> list[str]:
        """Return the directories of the days that there are."""
        stem = f"{_DAY}="
        parts = sorted(part for part in self._storage.children(name) if part.startswith(stem))
        if not days:
            return parts
        found = ((part, date.fromisoformat(part.removeprefix(stem))) for part in parts)
        return [part for part, day in found if any(one.first <= day <= one.last for one in days)]

    def days(self, name: str) -> Sequence[date]:
        return [date.fromisoformat(part.removeprefix(f"{_DAY}=")) for part in self._parts(name)]


# -- tables of a catalog -----------------------------------------------------------------------------------


@frozen(eq=False)
class _CatalogTables(Tables):
    """Tables of a catalog, in a format that can replace rows by a condition."""

    _spark: SparkSession
    _namespace: str
    _format: str
    _properties: Mapping[str, str]
    _writing: dict[str, threading.Lock] = field(factory=dict, init=False)

    def put(self, name: str, rows: DataFrame, batch: int) -> None:
        stamped = rows.withColumn(_BATCH, F.lit(batch).cast("bigint"))
        self._writer(name, stamped).overwrite(F.col(_BATCH) == batch)

    def rewrite(self, name: str, rows: DataFrame) -> None:
        self._writer(name, rows).overwritePartitions()

    def replace(self, name: str, rows: DataFrame, period: Period) -> None:
        # Of two that write one table at once, Delta would refuse one, whatever hours they write.
        with self._writing.setdefault(name, threading.Lock()):
            self._writer(name, rows).overwrite(_within(period))

    def read(self, name: str, *days: Days, batches: Collection[int] | None = None) -> DataFrame:
        if not self.exists(name):
            raise _missing(self._address(name), begun=self.exists(RECORDS))
        # Batches write in sessions of their own. Iceberg keeps for each session what it knows of a table, and
        # would read what was there half a minute ago.
        self._spark.sql(f"REFRESH TABLE {self._address(name)}")
        found = self._spark.table(self._address(name))
        if days:
            found = found.where(functools.reduce(operator.or_, map(_within, days)))
        return found if batches is None else found.where(F.col(_BATCH).isin(*batches))

    def days(self, name: str) -> Sequence[date]:
        found = self.read(name).select(_DAY).distinct().toArrow().column(_DAY).to_pylist()
        return sorted(found)

    def drop(self, name: str, batch: int) -> None:
        self._spark.sql(f"DELETE FROM {self._address(name)} WHERE {_BATCH} = {batch:d}")  # noqa: S608

    def exists(self, name: str) -> bool:
        return self._spark.catalog.tableExists(self._address(name))

    def _address(self, name: str) -> str:
        return address_of(self._namespace, name)

    def _writer(self, name: str, rows: DataFrame) -> DataFrameWriterV2:
        if not self.exists(name):
            self._make(name, rows.schema)
        return rows.writeTo(self._address(name))

    def _make(self, name: str, schema: StructType) -> None:
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")
        empty = self._spark.createDataFrame([], described(name, schema))
        writer = empty.writeTo(self._address(name)).using(self._format)
        for key, value in self._properties.items():
            writer = writer.tableProperty(key, value)
        # Iceberg replaces whole files only, so what is replaced by the hour has files of its own for each.
        by = [each for each in (_DAY, _HOUR) if each in empty.columns] or [_BATCH]
        (writer.partitionedBy(*map(F.col, by)) if by[0] in empty.columns else writer).create()


# -- both --------------------------------------------------------------------------------------------------


def address_of(namespace: str, name: str) -> str:
    """Return how a catalog's table is called in SQL."""
    return f"{namespace}.{name.replace('/', '_')}"


def _missing(table: str, *, begun: bool) -> SparkJobError:
    """Return what to raise where there is no such table; `RECORDS` is made before anything is taken in."""
    if begun:
        return SparkJobError(
            f"there is no table {table} yet: kpe spark fleet has been run, but there was nothing for it; are "
            "there events where it takes them from?"
        )
    return SparkJobError(f"there is no table {table}: has kpe spark fleet been run on it?")


def _within(period: Period) -> Column:
    days = period.days if isinstance(period, Hours) else period
    within = F.col(_DAY).between(F.lit(days.first), F.lit(days.last))
    if isinstance(period, Days):
        return within
    first, last = period.first % 24, period.last % 24
    return (
        within
        & ((F.col(_DAY) > F.lit(days.first)) | (F.col(_HOUR) >= first))
        & ((F.col(_DAY) < F.lit(days.last)) | (F.col(_HOUR) <= last))
    )


def _as_declared(schema: StructType) -> StructType:
    """Return the columns as they are read: a batch is written as text, and is a number."""
    declared = StructType()
    for one in schema:
        declared = declared.add(one.name, LongType() if one.name == _BATCH else one.dataType, one.nullable)
    return declared


def _joined(known: StructType, new: StructType) -> StructType:
    """Return the known columns, then the new ones: files from before have nulls in these."""
    types = {one.name: one.dataType for one in known}
    joined = StructType()
    for name in [*types, *(name for name in new.names if name not in types)]:
        joined = joined.add(name, new[name].dataType if name in new.names else types[name], nullable=True)
    return joined


def _require_format(spark: SparkSession, format_: str) -> None:
    """Let Spark look for the format. What else it says, of a path that isn't there, does not matter."""
    try:
        spark.read.format(format_).load("/nowhere/kpe")
    except Exception as error:
        if not any(said in str(error) for said in ("DATA_SOURCE_NOT_FOUND", "Failed to find")):
            return
        known = ", ".join((PARQUET, *TABLE_FORMATS))
        raise SparkJobError(
            f"this Spark has no format {format_!r}: give one of {known}, and bring the jars of "
            "delta and iceberg by spark-submit --packages"
        ) from error


def described(name: str, schema: StructType) -> StructType:
    """Return the columns of a table, such as ``gold/skew``, with the comments that are known of them."""
    known = _descriptions().get(name.removeprefix("gold/"), {})
    columns = StructType()
    for one in schema:
        comment = {"comment": known[one.name]} if one.name in known else {}
        columns = columns.add(one.name, one.dataType, one.nullable, {**one.metadata, **comment})
    return columns


@functools.cache
def _descriptions() -> Mapping[str, Mapping[str, str]]:
    """Return the descriptions in the dbt project of ``kpe assets``: table -> column -> text."""
    path = resources.files("kafka_partition_events") / "assets" / "dbt" / "models" / "kpe" / "gold.yml"
    models = yaml.safe_load(path.read_text(encoding="utf-8"))["models"]
    return {model["name"]: {one["name"]: one["description"] for one in model["columns"]} for model in models}
