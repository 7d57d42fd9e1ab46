"""The tables of the pipeline, each one of Delta: in a directory, or in a schema of a catalog.

A table's log knows the last run that wrote it. What an earlier run writes after that is passed over, whenever
it was begun: see `Fence`.
"""

import functools
import itertools
import operator
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from attrs import define, field, frozen
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.tables.days import Days, Hours, Period

RECORDS: Final = "bronze/records"
STATES: Final = "silver/states"
STANDING: Final = "silver/standing"
"""What stands for all states before the beginning of a day."""
CHANGES: Final = "silver/changes"
"""Records of change control."""
OUTAGES: Final = "gold/partition_outages"
CLUSTER_OUTAGES: Final = "gold/cluster_outages"
COUNTS: Final = "gold/partition_count_history"

_FORMAT: Final = "delta"
_DAY, _HOUR = "day", "hour_of_day"
_RUN: Final = 2**40
_FEED_COLUMNS: Final = ("_change_type", "_commit_version", "_commit_timestamp")


@frozen(kw_only=True)
class Fence:
    """By what a table's log distinguishes the writes of runs.

    Attributes:
        owner: The pipeline's.
        run: The number of its run; each has a greater one than those before it.
    """

    owner: str
    run: int
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)

    def next(self) -> Mapping[str, str]:
        """Return the options of the next write. Of those of one table none may overtake another."""
        return {"txnAppId": self.owner, "txnVersion": str(self.run * _RUN + next(self._numbers))}


@define(eq=False)
class Tables:
    """Reads and writes tables by name, such as ``bronze/records``. Thread safe.

    Attributes:
        out: The directory; or with ``in_catalog`` the schema (``catalog.schema``).
        fence: Who writes; None: no run does.
        as_of: By name the version that is read; of others the last one is.
    """

    spark: SparkSession
    out: str
    in_catalog: bool = False
    fence: Fence | None = None
    as_of: dict[str, int] = field(factory=dict, init=False)
    _writing: dict[str, threading.Lock] = field(factory=dict, init=False)
    _locations: dict[str, str] = field(factory=dict, init=False)

    # -- what is there -------------------------------------------------------------------------------

    def address(self, name: str) -> str:
        """Return how the table is called in SQL."""
        if self.in_catalog:
            return f"{self.out}.{name.replace('/', '_')}"
        return f"{_FORMAT}.`{self._path(name)}`"

    def exists(self, name: str) -> bool:
        """Return whether there is such a table."""
        try:
            return self.spark.catalog.tableExists(self.address(name))
        except AnalysisException:  # Delta's answer for a path that is none of its tables
            return False

    def ensure(self, name: str, schema: StructType, properties: Mapping[str, str]) -> None:
        """Make the table if it isn't there, so that it can be read before it has a row.

        Raises:
            SparkJobError: there is something else in its place.
        """
        if self.exists(name):
            return
        if self.in_catalog:
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.out}")
        empty = self.spark.createDataFrame([], schema)
        writer = empty.writeTo(self.address(name)).using(_FORMAT)
        for key, value in properties.items():
            writer = writer.tableProperty(key, value)
        by = [F.col(each) for each in (_DAY, _HOUR) if each in schema.names]
        try:
            (writer.partitionedBy(*by) if by else writer).create()
        except AnalysisException as error:
            if not any(words in str(error) for words in ("ALREADY_EXISTS", "NON_EMPTY")):
                raise
            raise SparkJobError(
                f"{self.address(name)} holds something else (an earlier kpe wrote Parquet, which is not "
                "taken over): choose another --out, and take in the same records again"
            ) from error

    def properties(self, name: str) -> Mapping[str, str]:
        """Return a table's properties."""
        found = self.spark.sql(f"SHOW TBLPROPERTIES {self.address(name)}").collect()
        return {row["key"]: row["value"] for row in found}

    def version(self, name: str) -> int:
        """Return the number of the last write."""
        (row,) = self.spark.sql(f"DESCRIBE HISTORY {self.address(name)} LIMIT 1").collect()
        return int(row["version"])

    def days(self, name: str) -> Sequence[date]:
        """Return the days of which there are rows, ascending."""
        found = self.read(name).select(_DAY).distinct().toArrow().column(_DAY).to_pylist()
        return sorted(found)

    # -- reading -------------------------------------------------------------------------------------

    def read(self, name: str, *days: Days) -> DataFrame:
        """Return a table, or its rows of these days.

        Raises:
            SparkJobError: there is no such table.
        """
        version = self.as_of.get(name)
        options = {} if version is None else {"versionAsOf": str(version)}
        found = self._load(name, options)
        return found.where(functools.reduce(operator.or_, map(_within, days))) if days else found

    def added(self, name: str, after: int, last: int) -> DataFrame:
        """Return what the writes after one of them, and up to another, have added.

        The table must have the property ``delta.enableChangeDataFeed``.
        """
        bounds = {"startingVersion": str(after + 1), "endingVersion": str(last)}
        found = self._load(name, {"readChangeFeed": "true", **bounds})
        return found.where("_change_type = 'insert'").drop(*_FEED_COLUMNS)

    def _load(self, name: str, options: Mapping[str, str]) -> DataFrame:
        try:
            return self.spark.read.format(_FORMAT).options(**options).load(self._path(name))
        except AnalysisException as error:
            if self.exists(name):
                raise
            raise self._missing(name) from error

    def _missing(self, name: str) -> SparkJobError:
        table = f"{name} in {self.out}"
        if name != RECORDS and self.exists(RECORDS):
            return SparkJobError(f"there is no table {table} yet: run kpe spark fleet on it again")
        return SparkJobError(f"there is no table {table}: has kpe spark fleet been run on it?")

    # -- writing -------------------------------------------------------------------------------------

    def append(self, name: str, rows: DataFrame, number: int) -> None:
        """Add rows; the same ones are added once, however often it is tried under one number."""
        once = {"txnAppId": f"{self._fenced.owner}/{name}", "txnVersion": str(number)}
        with self._turn(name):
            self._save(name, rows.write.mode("append").options(**once))

    def replace(self, name: str, rows: DataFrame, period: Period) -> None:
        """Write rows in the place of all rows of these days, or of these hours, in one step.

        Every row must be of one of them. Of hours, rows have ``hour_of_day``.
        """
        # One file for each: to open one costs more than to fill it.
        by = [_DAY, _HOUR] if isinstance(period, Hours) else [_DAY]
        self._overwrite(name, rows.repartition(*by), {"replaceWhere": _condition(period)})

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """Write rows in the place of all rows."""
        self._overwrite(name, rows, {})

    def touch(self, name: str) -> None:
        """Write nothing, as this run: from now on no earlier one writes there."""
        with self._turn(name):
            self._save(name, self.read(name).limit(0).write.mode("append").options(**self._fenced.next()))

    def stream(self, name: str, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query that appends to a table: each of its batches once, by the query's id in the log."""
        return writer.format(_FORMAT).outputMode("append").partitionBy(_DAY).start(self._path(name))

    def _overwrite(self, name: str, rows: DataFrame, options: Mapping[str, str]) -> None:
        with self._turn(name):
            self._save(name, rows.write.mode("overwrite").options(**options, **self._fenced.next()))

    def _save(self, name: str, writer: DataFrameWriter) -> None:
        writer.format(_FORMAT).save(self._path(name))

    def _turn(self, name: str) -> threading.Lock:
        """Return what lets one thread at a time write a table: of two, Delta would refuse one."""
        return self._writing.setdefault(name, threading.Lock())

    @property
    def _fenced(self) -> Fence:
        if self.fence is None:
            raise SparkJobError(f"no run has taken over {self.out}")
        return self.fence

    def _path(self, name: str) -> str:
        """Return where the table's files are: tables of a catalog are read and written there, too."""
        if not self.in_catalog:
            # In SQL a path must be absolute.
            root = self.out if ":" in self.out else str(Path(self.out).absolute())
            return f"{root.rstrip('/')}/{name}"
        if name not in self._locations:
            (row,) = self.spark.sql(f"DESCRIBE DETAIL {self.address(name)}").collect()
            self._locations[name] = row["location"]
        return self._locations[name]


def _within(days: Days) -> Column:
    return F.col(_DAY).between(F.lit(days.first), F.lit(days.last))


def _condition(period: Period) -> str:
    days = period.days if isinstance(period, Hours) else period
    within = f"{_DAY} >= DATE'{days.first}' AND {_DAY} <= DATE'{days.last}'"
    if isinstance(period, Days):
        return within
    first, last = period.first % 24, period.last % 24
    return (
        f"{within} AND ({_DAY} > DATE'{days.first}' OR {_HOUR} >= {first}) "
        f"AND ({_DAY} < DATE'{days.last}' OR {_HOUR} <= {last})"
    )
