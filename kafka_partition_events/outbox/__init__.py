"""Where events wait for the targets that operators watch, so that none is lost when a target is down.

An `Entry` is an event ready to be delivered. `SqliteOutbox` keeps entries in order in a file, with a cursor
for each reader, and keeps what has been read, too. A `Sink` takes entries to one target, and a `Deliverer`
brings them there. See docs/decisions/2026-11-21-ops-pipeline.md.
"""

from kafka_partition_events.outbox.delivery import Deliverer, DeliveryStats
from kafka_partition_events.outbox.entry import Entry
from kafka_partition_events.outbox.retry import RetryPolicy
from kafka_partition_events.outbox.sink import DeliveryError, Sink
from kafka_partition_events.outbox.sqlite_outbox import ReaderStats, SqliteOutbox

__all__ = [
    "Deliverer",
    "DeliveryError",
    "DeliveryStats",
    "Entry",
    "ReaderStats",
    "RetryPolicy",
    "Sink",
    "SqliteOutbox",
]
