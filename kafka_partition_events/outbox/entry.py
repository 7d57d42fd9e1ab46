"""An event as it waits to be delivered."""

from datetime import datetime
from enum import StrEnum

from attrs import frozen


class Stream(StrEnum):
    """Which of the two lanes an entry belongs to."""

    EVENTS = "events"
    """Every event, as it was seen: the journal."""
    INCIDENTS = "incidents"
    """What is worth somebody's attention: held down, grouped by cause, free of flapping."""


@frozen(kw_only=True)
class Entry:
    """One CloudEvent in structured JSON, with what deciders need to know without parsing it.

    Attributes:
        id: The CloudEvent's id. The same entry is delivered under the same id, however often.
        stream: The lane.
        name: The event's name without prefix and version, such as ``partition.offline``.
        key: What is kept in order: the CloudEvent's ``partitionkey``, also the Kafka record's key.
        subject: The CloudEvent's subject; None for the whole cluster.
        severity: OpenTelemetry's severity number.
        churn: Whether it goes first when there is no room: leaders and replica sets that moved.
        at: The upper bound of when it happened, aware, UTC.
        recorded_at: When it was recorded, aware, UTC.
        body: The CloudEvent, UTF-8.
        seq: Its place in the outbox; 0 as long as it has none.
    """

    id: str
    stream: Stream = Stream.EVENTS
    name: str
    key: str
    subject: str | None = None
    severity: int
    churn: bool = False
    at: datetime
    recorded_at: datetime
    body: bytes
    seq: int = 0

    def placed(self, seq: int) -> "Entry":
        """Return the entry with a place; in a fraction of `attrs.evolve`'s time, for each event is placed."""
        return Entry(
            id=self.id,
            stream=self.stream,
            name=self.name,
            key=self.key,
            subject=self.subject,
            severity=self.severity,
            churn=self.churn,
            at=self.at,
            recorded_at=self.recorded_at,
            body=self.body,
            seq=seq,
        )
