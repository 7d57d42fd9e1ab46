"""Where events wait for the targets that operators watch, so that none is lost when a target is down.

An `Entry` is an event ready to be delivered. An `Outbox` keeps entries in order, with a cursor for each
reader. A `Sink` takes entries to one target. See docs/decisions/2026-11-21-ops-pipeline.md.
"""

from kafka_partition_events.outbox.entry import Entry, Stream
from kafka_partition_events.outbox.sink import DeliveryError, Sink
from kafka_partition_events.outbox.store import Outbox, Write

__all__ = ["DeliveryError", "Entry", "Outbox", "Sink", "Stream", "Write"]
