"""What goes into an outbox, and what it says of its readers."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import field, frozen

from kafka_partition_events.outbox.entry import Entry

MAX_DEAD_LETTERS = 10_000
"""How many dead letters an outbox keeps, the newest ones."""


@frozen(kw_only=True)
class Write:
    """What becomes durable together, or not at all.

    Attributes:
        entries: To be appended; their ``seq`` is assigned. An id that is there already is ignored.
        cursors: Up to which entry each reader is done. A cursor never goes back.
        values: Small states by name, such as ``topic/orders``; None removes one.
    """

    entries: Sequence[Entry] = ()
    cursors: Mapping[str, int] = field(factory=dict)
    values: Mapping[str, bytes | None] = field(factory=dict)


@frozen(kw_only=True)
class ReaderStats:
    """How a reader is doing.

    Attributes:
        cursor: The place of the last entry that it is done with.
        waiting: Entries after its cursor.
        oldest: When the oldest of them was recorded, aware, UTC; None if none waits.
        dropped: Entries that had to go before it had read them, ever.
        dead: Entries that went to the dead letters, ever.
    """

    cursor: int = 0
    waiting: int = 0
    oldest: datetime | None = None
    dropped: int = 0
    dead: int = 0


@frozen(kw_only=True)
class DeadLetter:
    """An entry that a reader gave up.

    Attributes:
        entry: The entry.
        reader: Who gave it up.
        reason: A short word for why, such as ``http_400``.
        at: When, aware, UTC.
    """

    entry: Entry
    reader: str
    reason: str
    at: datetime
