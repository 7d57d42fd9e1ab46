"""The tables of the pipeline, whatever their format: batches that replace themselves, days that are replaced.

File formats (Parquet, ORC, Avro) are directories ``NAME/day=.../batch=.../``, written by dynamic partition
overwrite: a reader may for milliseconds miss a partition that is being replaced. Table formats (Delta,
Iceberg) are tables ``NAMESPACE.layer_name`` of a catalog, and replace atomically.
"""

import contextlib
import json
from collections.abc import Collection, Sequence
from datetime import date
from typing import Final, Protocol

from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.fleet.storage import Storage

RECORDS: Final = "bronze/records"
QUARANTINE: Final = "bronze/quarantine"
SIGHTINGS: Final = "silver/sightings"
EVENTS: Final = "silver/events"
OUTAGE_LOG: Final = "silver/outage_log"
SNAPSHOT: Final = "silver/outages"
"""What the log says of all outages; a refresh is the batch."""
OUTAGES: Final = "gold/partition_outages"

FILE_FORMATS: Final = ("parquet", "orc", "avro")
TABLE_FORMATS: Final = ("delta", "iceberg")

_SCHEMA: Final = "_schema.json"
_DAY, _BATCH = "day", "batch"


class Tables(Protocol):
    """Reads and writes tables by name, such as ``silver/events``."""

    def ensure(self, name: str, schema: StructType) -> None:
        """Make the table if it isn't there, so that it can be read before it has a row."""

    def put(self, name: str, rows: DataFrame, batch: int) -> None:
        """Write a batch's rows in the place of what the same batch has written before.

        Takes exactly one action on ``rows``, so they may come from a query with state.
        """

    def replace(self, name: str, rows: DataFrame, days: Days) -> None:
        """Write rows in the place of all rows of these days. Every row's ``day`` must be one of them."""

    def read(
        self, name: str, days: Days | None = None, *, batches: Collection[int] | None = None
    ) -> DataFrame:
        """Return a table, or its rows of these days, or those of these batches.

        Empty, with the table's schema, if nothing has been written.

        Raises:
            SparkJobError: there is no such table.
        """

    def drop(self, name: str, batch: int) -> None:
        """Delete a batch's rows from a table that has no ``day``."""

    def exists(self, name: str) -> bool:
        """Tell whether there is such a table."""


def open_tables(spark: SparkSession, out: str, format_: str) -> Tables:
    """Return the tables of a format.

    Args:
        spark: The session that reads them.
        out: The directory of a file format, or the namespace (``catalog.schema``) of a table format.
        format_: One of ``FILE_FORMATS``, or a table format that the session has.

    Raises:
        SparkJobError: the session has no such format.
    """
    if format_ not in FILE_FORMATS:
        _require_format(spark, format_)
        return CatalogTables(spark, out, format_)
    tables = FileTables(spark, Storage(spark, out), format_)
    if format_ != "parquet":
        _require_format(spark, format_)
    return tables


# -- files -------------------------------------------------------------------------------------------------


class FileTables:
    """Tables in directories. Thread safe, as long as no two write one table at once."""

    def __init__(self, spark: SparkSession, storage: Storage, format_: str = "parquet") -> None:
        self._spark = spark
        self._storage = storage
        self._format = format_
        self._schemas: dict[str, StructType] = {}

    def ensure(self, name: str, schema: StructType) -> None:
        """Make the table if it isn't there."""
        if not self.exists(name):
            self._declare(name, schema)

    def put(self, name: str, rows: DataFrame, batch: int) -> None:
        """Write a batch's rows in the place of what the same batch has written before."""
        stamped = rows.withColumn(_BATCH, F.lit(batch).cast("bigint"))
        if _DAY in rows.columns:
            # A repeated batch has the same records, so it has rows of the same days.
            self._write(name, stamped, [_DAY, _BATCH], [])
        else:
            self._write(name, stamped, [_BATCH], [f"{_BATCH}={batch}"])

    def replace(self, name: str, rows: DataFrame, days: Days) -> None:
        """Write rows in the place of all rows of these days."""
        self._write(name, rows, [_DAY], self._parts(name, days))

    def read(
        self, name: str, days: Days | None = None, *, batches: Collection[int] | None = None
    ) -> DataFrame:
        """Return a table, or its rows of these days, or those of these batches."""
        reader = self._spark.read.schema(self._schema(name)).format(self._format)
        root = self._storage.path(name)
        if days is None and batches is None:
            return reader.load(root)
        parts = self._parts(name, days)
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
        """Delete a batch's rows from a table that has no ``day``."""
        self._storage.delete(f"{name}/{_BATCH}={batch}")

    def exists(self, name: str) -> bool:
        """Tell whether there is such a table."""
        return self._known(name) is not None

    def _write(self, name: str, rows: DataFrame, by: Sequence[str], parts: Sequence[str]) -> None:
        """Write rows in the place of what is in the partitions that they are in, and empty these others."""
        known = self._known(name) or StructType()
        schema = _joined(known, rows.schema)
        if schema != known:
            self._declare(name, schema)
        before = {part: self._storage.children(f"{name}/{part}") for part in parts}
        (
            rows.write.format(self._format)
            .mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(*by)
            .save(self._storage.path(name))
        )
        for part, files in before.items():
            # A partition that has rows has new files now, under new names. Spark leaves the others alone.
            if files and self._storage.children(f"{name}/{part}") == files:
                self._storage.delete(f"{name}/{part}")

    def _declare(self, name: str, schema: StructType) -> None:
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
            raise _missing(f"{name} in {self._storage.root}", begun=self._known(EVENTS) is not None)
        return known

    def _parts(self, name: str, days: Days | None) -> list[str]:
        """Return the directories of the days that there are."""
        stem = f"{_DAY}="
        parts = [part for part in self._storage.children(name) if part.startswith(stem)]
        if days is None:
            return parts
        found = ((part, date.fromisoformat(part.removeprefix(stem))) for part in parts)
        return [part for part, day in found if days.first <= day <= days.last]


# -- tables of a catalog -----------------------------------------------------------------------------------


class CatalogTables:
    """Tables of a catalog, in a format that can replace rows by a condition."""

    def __init__(self, spark: SparkSession, namespace: str, format_: str) -> None:
        self._spark = spark
        self._namespace = namespace
        self._format = format_

    def ensure(self, name: str, schema: StructType) -> None:
        """Make the table if it isn't there."""
        if not self.exists(name):
            self._make(name, self._spark.createDataFrame([], schema))

    def put(self, name: str, rows: DataFrame, batch: int) -> None:
        """Write a batch's rows in the place of what the same batch has written before."""
        stamped = rows.withColumn(_BATCH, F.lit(batch).cast("bigint"))
        self._writer(name, stamped).overwrite(F.col(_BATCH) == batch)

    def replace(self, name: str, rows: DataFrame, days: Days) -> None:
        """Write rows in the place of all rows of these days."""
        self._writer(name, rows).overwrite(_within(days))

    def read(
        self, name: str, days: Days | None = None, *, batches: Collection[int] | None = None
    ) -> DataFrame:
        """Return a table, or its rows of these days, or those of these batches."""
        if not self.exists(name):
            raise _missing(self._address(name), begun=self.exists(EVENTS))
        # Batches write in sessions of their own. Iceberg keeps for each session what it knows of a table, and
        # would read what was there half a minute ago.
        self._spark.sql(f"REFRESH TABLE {self._address(name)}")
        found = self._spark.table(self._address(name))
        if days is not None:
            found = found.where(_within(days))
        return found if batches is None else found.where(F.col(_BATCH).isin(*batches))

    def drop(self, name: str, batch: int) -> None:
        """Delete a batch's rows."""
        self._spark.sql(f"DELETE FROM {self._address(name)} WHERE {_BATCH} = {batch:d}")  # noqa: S608

    def exists(self, name: str) -> bool:
        """Tell whether there is such a table."""
        return self._spark.catalog.tableExists(self._address(name))

    def _address(self, name: str) -> str:
        return f"{self._namespace}.{name.replace('/', '_')}"

    def _writer(self, name: str, rows: DataFrame) -> DataFrameWriterV2:
        if not self.exists(name):
            self._make(name, rows.sparkSession.createDataFrame([], rows.schema))
        return rows.writeTo(self._address(name))

    def _make(self, name: str, empty: DataFrame) -> None:
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._namespace}")
        writer = empty.writeTo(self._address(name)).using(self._format)
        by = _DAY if _DAY in empty.columns else _BATCH
        (writer.partitionedBy(F.col(by)) if by in empty.columns else writer).create()


# -- both --------------------------------------------------------------------------------------------------


def _missing(table: str, *, begun: bool) -> SparkJobError:
    """Return what to raise where there is no such table; `EVENTS` is made before anything is taken in."""
    if begun:
        return SparkJobError(
            f"there is no table {table} yet: kpe spark fleet has been run, but there was nothing for it; are "
            "there events where it takes them from?"
        )
    return SparkJobError(f"there is no table {table}: has kpe spark fleet been run on it?")


def _within(days: Days) -> Column:
    return F.col(_DAY).between(F.lit(days.first), F.lit(days.last))


def _joined(known: StructType, new: StructType) -> StructType:
    """Return the known columns, then the new ones: files from before have nulls in these."""
    types = {field.name: field.dataType for field in known}
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
        known = ", ".join((*FILE_FORMATS, *TABLE_FORMATS))
        raise SparkJobError(
            f"this Spark has no format {format_!r}: give one of {known}, and for those that Spark does not "
            "ship (avro, delta, iceberg) bring their jars by spark-submit --packages"
        ) from error
