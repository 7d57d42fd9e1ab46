"""A sample of keys: of a Kafka topic, a table or a file. Its rows have ``key`` and ``bytes``, no more."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

from attrs import frozen
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, DataType, NumericType, StringType

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.kafka import SPARK_ERRORS, cause_of, read_topic

_FORMATS: Final = {
    **{f".{name}": name for name in ("parquet", "csv", "json", "orc")},
    **dict.fromkeys((".jsonl", ".ndjson"), "json"),
}
_LONGEST_REASON: Final = 600
_CALLING: Final = re.compile(r"An error occurred while calling \S+\s*:\s*(?:[\w.$]+: )?")


@frozen(kw_only=True)
class Sample:
    """A sample.

    Attributes:
        rows: ``key`` (STRING or BINARY, null for none) and ``bytes`` (BIGINT, null where nobody tells).
        name: Where it is from, in words.
        has_bytes: Whether ``bytes`` tells something.
    """

    rows: DataFrame
    name: str
    has_bytes: bool


def of_frame(rows: DataFrame, name: str, *, key: str = "key", size: str | None = None) -> Sample:
    """Return a sample of any rows.

    Args:
        rows: The rows.
        name: What to call it.
        key: The column with the keys, STRING or BINARY.
        size: The column with each record's bytes, or with the record itself (STRING or BINARY), whose length
            counts; None: nobody tells.

    Raises:
        ConfigurationError: there is no such column, or it is of another type.
    """
    kind = _kind(rows, key, name)
    if not isinstance(kind, BinaryType | StringType):
        raise ConfigurationError(
            f"the keys in {key} of {name} are {kind.simpleString().upper()}, but a partition follows from "
            "their bytes: make them the STRING or BINARY that producers send, by cast('string') say"
        )
    counted = F.lit(None).cast("bigint") if size is None else _size(rows, size, name)
    selected = rows.select(_column(key).alias("key"), counted.alias("bytes"))
    return Sample(rows=selected, name=name, has_bytes=size is not None)


def of_topic(
    session: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str] | None = None
) -> Sample:
    """Return all records that a Kafka topic holds now; a record's bytes are those of its key and value.

    All of its partitions must be online. Options are those of Kafka's Java consumer, by its own names.

    Raises:
        SparkJobError: the session lacks the connector.
    """
    records = read_topic(session.read, bootstrap, topic, options)
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    rows = records.select("key", size.cast("bigint").alias("bytes"))
    return Sample(rows=rows, name=f"topic {topic}", has_bytes=True)


def of_table(session: SparkSession, table: str, *, key: str = "key", size: str | None = None) -> Sample:
    """Return the rows of a table of the session's catalog; see `of_frame`.

    Raises:
        SparkJobError: there is no such table.
        ConfigurationError: as `of_frame`.
    """
    with _told(f"no table {table} can be read:"):
        rows = session.table(table)
        rows.schema  # noqa: B018 - looks at the table
    return of_frame(rows, f"table {table}", key=key, size=size)


def of_file(session: SparkSession, path: str, *, key: str = "key", size: str | None = None) -> Sample:
    """Return the rows of a file, or of all files in a directory; see `of_frame`.

    Its name says what it is: ``.parquet``, ``.csv`` with a header, ``.json`` or ``.jsonl``, or ``.orc``.

    Raises:
        SparkJobError: they can't be read.
        ConfigurationError: the format is not known, or as `of_frame`.
    """
    known = _format_of(path)
    with _told(f"{path} can't be read as {known}; is it there and whole, and is that what it is?"):
        rows = session.read.format(known).option("header", known == "csv").load(path)
        rows.schema  # noqa: B018 - looks at the files
    if known == "csv" and size is not None and size in rows.columns:
        rows = rows.withColumn(size, _column(size).cast("bigint"))  # all that it knows is text
    return of_frame(rows, f"file {path}", key=key, size=size)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise SparkJobError(f"{what} {reason(error)}") from error


def _format_of(path: str) -> str:
    for suffix in reversed(PurePath(path).suffixes):  # keys.csv.gz
        if (known := _FORMATS.get(suffix.lower())) is not None:
            return known
    raise ConfigurationError(f"{path} does not end in a known format: {', '.join(_FORMATS)}")


def _kind(rows: DataFrame, name: str, source: str) -> DataType:
    kinds: dict[str, DataType] = {field.name: field.dataType for field in rows.schema.fields}
    if name not in kinds:
        raise ConfigurationError(f"{source} has no column {name}; there are {', '.join(kinds) or 'none'}")
    return kinds[name]


def _size(rows: DataFrame, name: str, source: str) -> Column:
    kind = _kind(rows, name, source)
    if isinstance(kind, BinaryType | StringType):
        return F.octet_length(_column(name)).cast("bigint")
    if isinstance(kind, NumericType):
        return _column(name).cast("bigint")
    raise ConfigurationError(
        f"the bytes in {name} of {source} are {kind.simpleString().upper()}; they must be numbers, or STRING "
        "or BINARY, whose length counts"
    )


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def reason(error: Exception) -> str:
    """Return what Spark says of an error, in one line and without the JVM's stack."""
    told = " ".join(cause_of(error).split())
    return _CALLING.sub("", told)[:_LONGEST_REASON]
