"""Logs of the control topics as Kafka's connector gives them, for the tests of the tables of changes."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Ack, Change, Lease

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "kpe."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOPICS = {Change: "changes", Lease: "leases", Ack: "acks"}


def time_of(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


@frozen
class Entry:
    """A record where it stands; no value: a tombstone. ``told`` is what the value was made of."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes
    value: bytes | None
    told: Change | Lease | Ack | None = None


@define
class ControlTopics:
    """The topics, in memory; those of leases and acks have two partitions."""

    entries: list[Entry] = field(factory=list)
    partitions: int = 2

    def append(self, record: Change | Lease | Ack, at_ms: int) -> None:
        """Write a record, as the library writes it."""
        self.write(_TOPICS[type(record)], key_of(record), encode(record), at_ms, record)

    def write(
        self,
        topic: str,
        key: str,
        value: bytes | None,
        at_ms: int,
        told: Change | Lease | Ack | None = None,
    ) -> None:
        """Write anything."""
        partition = 0 if topic == "changes" else sum(key.encode()) % self.partitions
        end = self.ends(topic)[partition]
        self.entries.append(Entry(topic, partition, end, at_ms, key.encode(), value, told))

    def ends(self, topic: str) -> tuple[int, ...]:
        """Return the offset after the last record, by partition."""
        places = [(entry.partition, entry.offset) for entry in self.entries if entry.topic == topic]
        return tuple(
            1 + max((offset for of, offset in places if of == partition), default=-1)
            for partition in range(self.partitions)
        )


def read(
    entries: Iterable[Entry], leases: Sequence[int] | None = None, acks: Sequence[int] | None = None
) -> Ledger:
    """Return what a tracker makes of records below these offsets; None: of all."""
    ledger, below = Ledger(), {"leases": leases, "acks": acks}
    for entry in entries:
        offsets = below.get(entry.topic)
        if offsets is not None and entry.offset >= offsets[entry.partition]:
            continue
        match entry.told:
            case Change():
                ledger.take_change(entry.told)
            case Lease():
                ledger.take_lease(entry.told, entry.at_ms)
            case Ack():
                ledger.take_ack(entry.told, entry.at_ms)
            case None if entry.topic == "changes" and entry.value is None:
                ledger.take_tombstone(entry.key.decode().rpartition("|")[2])
    return ledger


# -- with Spark --------------------------------------------------------------------------------------------


def records_of(spark: "SparkSession", entries: Iterable[Entry]) -> "DataFrame":
    """Return records as Kafka's connector gives them."""
    import pyarrow as pa  # type: ignore[import-untyped] # noqa: PLC0415

    rows: dict[str, list[Any]] = {
        name: [] for name in ("key", "value", "topic", "partition", "offset", "timestamp")
    }
    for entry in entries:
        rows["key"].append(entry.key)
        rows["value"].append(entry.value)
        rows["topic"].append(PREFIX + entry.topic)
        rows["partition"].append(entry.partition)
        rows["offset"].append(entry.offset)
        rows["timestamp"].append(time_of(entry.at_ms))
    schema = pa.schema(
        {
            "key": pa.binary(),
            "value": pa.binary(),
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", tz="UTC"),
        }
    )
    return spark.createDataFrame(pa.table(rows, schema=schema))


def silver_of(spark: "SparkSession", entries: Iterable[Entry]) -> "dict[str, DataFrame]":
    """Return the rows of the silver tables, computed once."""
    from kafka_partition_events.spark.control.records import TOPICS, parse, told  # noqa: PLC0415
    from tests.fleet_kit import computed  # noqa: PLC0415

    parsed = parse(records_of(spark, entries))
    return {topic: computed(told(parsed, topic)) for topic in TOPICS}
