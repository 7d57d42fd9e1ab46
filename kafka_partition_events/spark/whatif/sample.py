"""A sample of keys: of a Kafka topic, a table or a file. Its rows have ``key``, no more."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

from attrs import frozen
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, DataType, StringType

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
        rows: ``key`` (STRING or BINARY, null for none).
        name: Where it is from, in words.
    """

    rows: DataFrame
    name: str


def of_frame(rows: DataFrame, name: str, *, key: str = "key") -> Sample:
    """Return a sample of any rows.

    Args:
        rows: The rows.
        name: What to call it.
        key: The column with the keys, STRING or BINARY.

    Raises:
        ConfigurationError: there is no such column, or it is of another type.
    """
    kinds: dict[str, DataType] = {field.name: field.dataType for field in rows.schema.fields}
    if (kind := kinds.get(key)) is None:
        raise ConfigurationError(f"{name} has no column {key}; there are {', '.join(kinds) or 'none'}")
    if not isinstance(kind, BinaryType | StringType):
        raise ConfigurationError(
            f"the keys in {key} of {name} are {kind.simpleString().upper()}, but a partition follows from "
            "their bytes: make them the STRING or BINARY that producers send, by cast('string') say"
        )
    return Sample(rows=rows.select(_column(key).alias("key")), name=name)


def of_topic(
    session: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str] | None = None
) -> Sample:
    """Return the keys of all records that a Kafka topic holds now.

    All of its partitions must be online. Options are those of Kafka's Java consumer, by its own names.

    Raises:
        SparkJobError: the session lacks the connector.
    """
    rows = read_topic(session.read, bootstrap, topic, options).select("key")
    return Sample(rows=rows, name=f"topic {topic}")


def of_table(session: SparkSession, table: str, *, key: str = "key") -> Sample:
    """Return the rows of a table of the session's catalog; see `of_frame`.

    Raises:
        SparkJobError: there is no such table.
        ConfigurationError: as `of_frame`.
    """
    with _explaining(f"no table {table} can be read:"):
        rows = session.table(table)
        rows.schema  # noqa: B018 - checks the table
    return of_frame(rows, f"table {table}", key=key)


def of_file(session: SparkSession, path: str, *, key: str = "key") -> Sample:
    """Return the rows of a file, or of all files in a directory; see `of_frame`.

    Its name says what it is: ``.parquet``, ``.csv`` with a header, ``.json`` or ``.jsonl``, or ``.orc``.

    Raises:
        SparkJobError: they can't be read.
        ConfigurationError: the format is not known, or as `of_frame`.
    """
    known = _format_of(path)
    with _explaining(f"{path} can't be read as {known}; is it there and whole, and is that what it is?"):
        rows = session.read.format(known).option("header", known == "csv").load(path)
        rows.schema  # noqa: B018 - checks the files
    return of_frame(rows, f"file {path}", key=key)


@contextlib.contextmanager
def _explaining(what: str) -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        raise SparkJobError(f"{what} {reason(error)}") from error


def _format_of(path: str) -> str:
    for suffix in reversed(PurePath(path).suffixes):  # keys.csv.gz
        if (known := _FORMATS.get(suffix.lower())) is not None:
            return known
    raise ConfigurationError(f"{path} does not end in a known format: {', '.join(_FORMATS)}")


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def reason(error: Exception) -> str:
    """Return what Spark says of an error, in one line and without the JVM's stack."""
    said = " ".join(cause_of(error).split())
    return _CALLING.sub("", said)[:_LONGEST_REASON]
