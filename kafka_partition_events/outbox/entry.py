"""An event as it waits to be delivered."""

from datetime import datetime

from attrs import field, frozen


@frozen(kw_only=True)
class Entry:
    """One CloudEvent in structured JSON, with what deciders need to know without parsing it.

    Attributes:
        id: The CloudEvent's id. The same entry is delivered under the same id, however often.
        name: The event's name without prefix and version, such as ``partition.offline``.
        key: What is kept in order: the CloudEvent's ``partitionkey``, also the Kafka record's key.
        subject: The CloudEvent's subject; None for the whole cluster.
        at: The upper bound of when it happened, aware, UTC.
        recorded_at: When it was recorded, aware, UTC.
        body: The CloudEvent, UTF-8.
        seq: Its place in the outbox; 0 as long as it has none.
        again: The same under an id of its own, which is written in its place if its id was written earlier
            for another moment; None: then it is ignored.
    """

    id: str
    name: str
    key: str
    subject: str | None = None
    at: datetime
    recorded_at: datetime
    body: bytes
    seq: int = 0
    again: "Entry | None" = field(default=None, eq=False, repr=False)
