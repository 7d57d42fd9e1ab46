"""What an outbox can do, whether it keeps entries in a file or in memory."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from kafka_partition_events.outbox.entry import Entry, Stream


@frozen(kw_only=True)
class Write:
    """What becomes durable together, or not at all.

    Attributes:
        entries: To be appended; their ``seq`` is assigned.
        cursors: Up to which entry each reader is done.
        values: Small states by name, such as ``topic/orders``; None removes one.
    """

    entries: Sequence[Entry] = ()
    cursors: Mapping[str, int] = field(factory=dict)
    values: Mapping[str, bytes | None] = field(factory=dict)


class Outbox(Protocol):
    """Entries in order, a cursor for each reader, and small states, bounded by size and age. Thread-safe.

    When there is no room, churn goes first, oldest first, structural entries last. Entries that a reader
    has not seen yet and that go are counted as dropped, by reader.
    """

    def write(self, write: Write, /) -> None:
        """Do all of it, or nothing.

        Raises:
            OutboxError: it can't be written; the message names the file, the cause and the cure.
        """

    def subscribe(self, reader: str, stream: Stream, *, from_start: bool = True) -> None:
        """Make a reader known; one that is known already keeps its cursor.

        Args:
            reader: Its name.
            stream: The lane it reads.
            from_start: Whether a new reader begins with the oldest entry; else with the next one.
        """

    def read(self, reader: str, limit: int) -> Sequence[Entry]:
        """Return the next entries after a reader's cursor, in order."""

    def wait(self, reader: str, timeout: float) -> bool:
        """Wait until there is something to be read, at most ``timeout`` seconds; tell whether there is.

        Writes of other processes are noticed by the next `read` only.
        """

    def values(self, prefix: str) -> Mapping[str, bytes]:
        """Return the small states whose names begin so."""

    def close(self) -> None:
        """Release everything; every `wait` returns False. Idempotent."""
