"""Where events come from: the topic, or an archive of it. All give the same columns."""

import importlib.util
from collections.abc import Mapping
from typing import Final, Protocol

from attrs import field, frozen
from attrs.validators import min_len
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import BinaryType

from kafka_partition_events.metadata.codec import FORMAT as SNAPSHOT
from kafka_partition_events.metadata.codec import decode_event
from kafka_partition_events.metadata.json_text import json_in
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.kafka import cause_of, explained, stream_topics
from kafka_partition_events.spark.tables.storage import Storage

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""What every source gives: a record as Kafka's connector does. An archive of text has nulls for some."""

_KAFKA_SCHEMA: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)


class Source(Protocol):
    """Records with events in their values."""

    @property
    def name(self) -> str:
        """What tells this source from others, for as long as its checkpoint lives."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return all records there are and will be, as a stream of ``COLUMNS``.

        Raises:
            SparkJobError: there is no such source, or the session can't read it.
        """

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure of what Spark raised while it read."""


@frozen(kw_only=True)
class KafkaSource:
    """The topic that observers write to, from its beginning.

    Attributes:
        bootstrap: The brokers, ``host:port,host:port``.
        topic: The topic.
        options: More options of Kafka's Java consumer by its own names; never shown.
        max_per_batch: How many records a batch holds at the most.
    """

    bootstrap: str = field(validator=min_len(1))
    topic: str = field(default="kpe.events", validator=min_len(1))
    options: Mapping[str, str] = field(factory=dict, repr=False)
    max_per_batch: int | None = None

    @property
    def name(self) -> str:
        """The topic; brokers may move."""
        return f"the Kafka topic {self.topic}"

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the topic's records."""
        found = stream_topics(
            spark, self.bootstrap, [self.topic], self.options, max_per_batch=self.max_per_batch
        )
        return found.select(*COLUMNS)

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure."""
        return explained(error, [self.topic], self.bootstrap)


@frozen(kw_only=True)
class JsonlArchive:
    """Files with one event a line.

    A line is a CloudEvent, as ``kpe events ls --output jsonl`` writes it, or what `RecorderListener` writes;
    the snapshots that begin its files are passed over. A line has no offset: ``topic`` is the file and
    ``timestamp`` when that was last written. Each file is read once, when it is first seen, so files must not
    grow any more: of a recorder, take those that it has set aside (``events.jsonl.1``).

    Attributes:
        path: A directory, or a pattern of files (``/data/events.jsonl.*``).
        max_per_batch: How many files a batch holds at the most.
    """

    path: str = field(validator=min_len(1))
    max_per_batch: int | None = None

    @property
    def name(self) -> str:
        """The path."""
        return f"the JSONL files {self.path}"

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return a record for each line."""
        if importlib.util.find_spec("cloudevents") is None:
            raise SparkJobError(
                "reading JSONL needs cloudevents, here and where Spark's Python workers run: "
                "pip install 'kafka-partition-events[events]'"
            )
        _require_files(spark, self.path)
        reader = _file_reader(spark.readStream.format("text"), self.max_per_batch)
        # A function without type hints, for Spark would take them for those of pandas. Not deterministic, or
        # Spark would call it for the filter and once more for the value.
        to_event = F.udf(lambda line: event_of_line(line), BinaryType()).asNondeterministic()  # noqa: PLW0108
        return (
            reader.load(self.path)
            .select(
                # As bytes, for a line of garbage may be no text to Python.
                to_event(F.col("value").cast("binary")).alias("value"),
                F.col("_metadata.file_path").alias("topic"),
                F.col("_metadata.file_modification_time").alias("timestamp"),
            )
            .where(F.col("value").isNotNull())
            .select(
                F.lit(None).cast("binary").alias("key"),
                "value",
                "topic",
                F.lit(None).cast("int").alias("partition"),
                F.lit(None).cast("bigint").alias("offset"),
                "timestamp",
                F.lit(None).cast("int").alias("timestampType"),
            )
        )

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure."""
        return SparkJobError(f"Spark could not read {self.name}; are they all there? {cause_of(error)}")


@frozen(kw_only=True)
class ParquetArchive:
    """Parquet files with the columns that Kafka's connector gives; ``bronze/records`` is one such.

    Columns that are missing are null; only ``value`` is needed. Each file is read once, when first seen.

    Attributes:
        path: A directory, or a pattern of files.
        max_per_batch: How many files a batch holds at the most.
    """

    path: str = field(validator=min_len(1))
    max_per_batch: int | None = None

    @property
    def name(self) -> str:
        """The path."""
        return f"the Parquet files {self.path}"

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return a record for each row."""
        _require_files(spark, self.path)
        reader = spark.readStream.format("parquet").schema(_KAFKA_SCHEMA)
        reader = _file_reader(reader, self.max_per_batch)
        written = F.col("_metadata.file_modification_time")
        return reader.load(self.path).select(
            *COLUMNS[:-2], F.coalesce("timestamp", written).alias("timestamp"), "timestampType"
        )

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure."""
        return SparkJobError(
            f"Spark could not read {self.name}; are they all there, with a BINARY column value and Kafka's "
            f"other columns? {cause_of(error)}"
        )


def event_of_line(line: bytes | None) -> bytes | None:
    """Return the CloudEvent of a line; None for a snapshot; what is neither stays as it is.

    A recorder's event does not say who saw it, nor whether looks failed before it.
    """
    if line is None or b'"specversion"' in line:
        return line
    # Here, because only this needs the extra, and Spark's workers call it.
    from kafka_partition_events.listeners import to_cloudevent, to_record  # noqa: PLC0415

    try:
        document = json_in(line)
        if document.get("format") == SNAPSHOT:
            return None
        return to_record(to_cloudevent(decode_event(document))).value
    except (ValueError, AttributeError):  # no JSON, no object, no event, or text that no bytes can tell
        return line  # for quarantine


def _file_reader(reader: DataStreamReader, max_per_batch: int | None) -> DataStreamReader:
    # Directories such as day=.../batch=... are the archive's own matter. And Spark would pass over files that
    # are a week older than the newest.
    reader = reader.option("recursiveFileLookup", "true").option("maxFileAge", "100000d")
    return reader if max_per_batch is None else reader.option("maxFilesPerTrigger", str(max_per_batch))


def _require_files(spark: SparkSession, path: str) -> None:
    """Tell at once what Spark would wait for, or tell in a stack trace."""
    if not Storage(spark, path).matches():
        raise SparkJobError(f"there is no such archive: {path}")
