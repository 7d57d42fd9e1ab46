"""Where events wait for the targets that operators watch, so that none is lost when a target is down.

An `Entry` is an event ready to be delivered. An `Outbox` keeps entries in order, with a cursor for each
reader: `SqliteOutbox` in a file, `MemoryOutbox` in memory. A `Sink` takes entries to one target, and a
`Deliverer` brings them there. See docs/decisions/2026-11-21-ops-pipeline.md.
"""

from kafka_partition_events.outbox.delivery import Deliverer, DeliveryStats
from kafka_partition_events.outbox.entry import Entry, Stream
from kafka_partition_events.outbox.memory_outbox import MemoryOutbox
from kafka_partition_events.outbox.retry import RetryPolicy
from kafka_partition_events.outbox.sink import DeliveryError, RepeatingSink, Sink
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox
from kafka_partition_events.outbox.store import DeadLetter, Outbox, ReaderStats, Write

__all__ = [
    "DeadLetter",
    "Deliverer",
    "DeliveryError",
    "DeliveryStats",
    "Entry",
    "MemoryOutbox",
    "Outbox",
    "ReaderStats",
    "RepeatingSink",
    "RetryPolicy",
    "Sink",
    "SqliteOutbox",
    "Stream",
    "Write",
]
