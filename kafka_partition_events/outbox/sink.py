"""What takes entries to a target."""

from collections.abc import Sequence
from typing import Final, Protocol

from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.outbox.entry import Entry

DECLINES: Final = frozenset({"http_400", "http_413", "http_415", "http_422"})
"""The reasons by which a target speaks of what it was sent: the third time in a row it is refused. Whatever
else is between 400 and 500 is of the sink: its URL, its credentials, a proxy; all would be declined alike."""


class DeliveryError(KafkaPartitionEventsError):
    """The target did not take all entries.

    Attributes:
        delivered: How many of them, from the first one on, it took all the same.
        reason: A short word for counting, such as ``timeout`` or ``http_503``; never text of the target's.
        retry_after: Seconds to wait at least, if the target said so.
        refused: Whether the target will never take the next entry: it goes to the dead letters.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        delivered: int = 0,
        retry_after: float | None = None,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.delivered = delivered
        self.retry_after = retry_after
        self.refused = refused


class Sink(Protocol):
    """A target. Its methods are called by one thread at a time.

    Attributes:
        name: How configuration, metrics and logs call it; unique in a process.
        batch: How many entries it takes at a time at most.
    """

    name: str
    batch: int

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Deliver entries in order; return when the target has all of them. May block for some seconds.

        Raises:
            DeliveryError: it has not.
        """

    def close(self) -> None:
        """Release what the sink holds."""
