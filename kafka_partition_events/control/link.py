"""How agents and hooks reach the control topics; each client has a link of its own."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

Report = Literal["leases", "acks"]


class ControlLink(Protocol):
    """Reads ``kpe.changes``, appends to ``kpe.leases`` and ``kpe.acks``. Connects anew in a forked child."""

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        """Return the keys and values appended since the last call; the first one begins at the beginning.

        Only what is committed, up to the end that the topic has now. One thread at a time.

        Args:
            timeout: Seconds after which to give up. A link must keep to it.

        Raises:
            ControlTopicError: it can't be read; the next call goes on where this one was.
        """

    def publish(self, topic: Report, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
        """Hand a record over, without waiting and without raising.

        Args:
            topic: Which of the control topics.
            key: The record's key.
            value: The record.
            on_done: Called once, on any thread: with the broker's append time in milliseconds, or with None
                if the record was lost.
        """

    def close(self) -> None:
        """Release what the link opened. Records that were handed over are given a second or so."""
