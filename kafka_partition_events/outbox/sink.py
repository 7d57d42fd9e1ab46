"""What takes entries to a target."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.outbox.entry import Entry, Stream

if TYPE_CHECKING:
    from kafka_partition_events.outbox.store import Journal


class DeliveryError(KafkaPartitionEventsError):
    """The target did not take all entries.

    Attributes:
        delivered: How many of them, from the first one on, it took all the same.
        reason: A short word for counting, such as ``timeout`` or ``http_503``; never text of the target's.
        retry_after: Seconds to wait at least, if the target said so.
        refused: Whether the target will never take the next entry: it goes to the dead letters.
        gone: Whether the target wants nothing any more (HTTP 410): the sink is switched off.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        delivered: int = 0,
        retry_after: float | None = None,
        refused: bool = False,
        gone: bool = False,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.delivered = delivered
        self.retry_after = retry_after
        self.refused = refused
        self.gone = gone


class Sink(Protocol):
    """A target. Its methods are called by one thread at a time.

    Attributes:
        name: How configuration, metrics and logs call it; unique in a process.
        stream: The lane it is fed from.
        batch: How many entries it takes at a time at most.
    """

    name: str
    stream: Stream
    batch: int

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Deliver entries in order; return when the target has all of them. May block for some seconds.

        Raises:
            DeliveryError: it has not.
        """

    def close(self) -> None:
        """Release what the sink holds."""


@runtime_checkable
class RepeatingSink(Sink, Protocol):
    """A target that forgets what it is not told again."""

    def repeat(self, journal: "Journal", /) -> bool:
        """Say again what still holds, if that is due; tell whether anything was said.

        It is called about once a second while nothing waits for the sink, on the thread that delivers, so it
        comes after all that was delivered and never before what is to be.

        Args:
            journal: The one that the sink is fed from.

        Raises:
            DeliveryError: the target did not take it; it is tried again as a delivery is.
        """
