"""Where events come from: the topic, or an archive of it. All give the same columns."""

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from attrs import field, frozen
from attrs.validators import min_len
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType

from kafka_partition_events.events.event_json import decode_event
from kafka_partition_events.events.snapshot_json import FORMAT as SNAPSHOT
from kafka_partition_events.json_text import json_in
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.kafka import cause_of, explained, read_topics, topic_ids

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
"""What every source gives: a record as Kafka's connector does. An archive has nulls for some."""


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

    def ids(self, spark: SparkSession) -> tuple[str | None, Mapping[str, str]]:
        """Return the ids of the cluster and, by name, of the topics; none, if it has none.

        Raises:
            Exception: what `explain` explains.
        """

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure of what Spark raised while it read."""


@frozen(kw_only=True)
class KafkaTopics:
    """Topics from their beginnings; see `KafkaSource` and `control.source.ChangesTopic`.

    Attributes:
        bootstrap: The brokers, ``host:port,host:port``.
        options: More options of Kafka's Java consumer by its own names; never shown.
        max_per_batch: How many records a batch holds at the most.
    """

    bootstrap: str = field(validator=min_len(1))
    options: Mapping[str, str] = field(factory=dict, repr=False)
    max_per_batch: int | None = None

    @property
    def topics(self) -> Sequence[str]:
        """Their names."""
        raise NotImplementedError

    @property
    def settings(self) -> Mapping[str, str]:
        """The options of the consumer."""
        return self.options

    @property
    def name(self) -> str:
        """The topics; where their brokers are may change."""
        return f"the Kafka topic{'s' if len(self.topics) > 1 else ''} {', '.join(self.topics)}"

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the topics' records."""
        limit, where = self.max_per_batch, (self.bootstrap, self.topics, self.settings)
        return read_topics(spark.readStream, *where, max_per_batch=limit).select(*COLUMNS)

    def ids(self, spark: SparkSession) -> tuple[str | None, Mapping[str, str]]:
        """Return the ids of the cluster and of the topics."""
        return topic_ids(spark, self.bootstrap, self.topics, self.options)

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure."""
        return explained(error, self.topics, self.bootstrap)


@frozen(kw_only=True)
class KafkaSource(KafkaTopics):
    """The topic that observers write to."""

    topic: str = field(default="kpe.events", validator=min_len(1))

    @property
    def topics(self) -> Sequence[str]:
        """The topic."""
        return [self.topic]


@frozen(kw_only=True)
class JsonlArchive:
    """Files with one event a line, that are read once each, when they are first seen.

    A line is a CloudEvent, as ``kpe events ls --output jsonl`` writes it, or an event as
    ``kpe watch --output jsonl`` does; snapshots are passed over. A line has no offset: ``topic`` is the file
    and ``timestamp`` when that was last written. Files must not grow any more.

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

    def ids(self, _spark: SparkSession) -> tuple[str | None, Mapping[str, str]]:
        """Return none: files have no ids."""
        return None, {}

    def explain(self, error: Exception) -> SparkJobError:
        """Return the cause and the cure."""
        return SparkJobError(f"Spark could not read {self.name}; are they all there? {cause_of(error)}")

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return a record for each line."""
        if importlib.util.find_spec("cloudevents") is None:
            raise SparkJobError(
                "reading JSONL needs cloudevents, here and where Spark's Python workers run: "
                "pip install 'kafka-partition-events[events]'"
            )
        try:  # Spark would wait for files that are not there, or tell of them in a stack trace
            spark.read.format("text").option("recursiveFileLookup", "true").load(self.path)
        except AnalysisException as error:
            raise SparkJobError(f"there is no such archive: {self.path}") from error
        # Directories such as day=.../batch=... are the archive's own matter. And Spark would pass over files
        # that are a week older than the newest.
        reader = spark.readStream.format("text").options(recursiveFileLookup=True, maxFileAge="100000d")
        if self.max_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", str(self.max_per_batch))
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
            .selectExpr(
                "CAST(NULL AS BINARY) AS key",
                *("value", "topic", "CAST(NULL AS INT) AS partition", "CAST(NULL AS BIGINT) AS offset"),
                *("timestamp", "CAST(NULL AS INT) AS timestampType"),
            )
        )


def event_of_line(line: bytes | None) -> bytes | None:
    """Return the CloudEvent of a line; None for a snapshot; what is neither stays as it is.

    An event of ``kpe watch`` does not say who saw it, nor whether looks failed before it.
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
