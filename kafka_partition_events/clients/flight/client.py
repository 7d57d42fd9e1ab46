"""What the engine asks of a client's adapter, and the exceptions between them."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol

from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord


class HandleClosedError(Exception):
    """A handle was closed after it had been picked."""


class PurgedError(Exception):
    """A record was purged while it waited here; the client gives the application its own error."""


class HeldTooLongError(Exception):
    """A record waited for longer than a record may take; the client gives the application its own error."""


class Client(Protocol):
    """What an adapter does for the engine: it hands bytes to a handle, and knows its library's errors."""

    no_room: ClassVar[tuple[type[BaseException], ...]]
    """What the library raises where a record has to wait until there is room for it."""

    most_held_s: float
    """For how long a keyed record may wait: what the application gave as the limit of a delivery."""

    @property
    def detours(self) -> Mapping[int, Detour[Any]]:
        """The further handles, by number."""

    def choose(self, record: Record, tried: Collection[int] = ()) -> int:
        """Return the partition of a record, `UNASSIGNED` if the library shall choose; may raise.

        A copy is for another partition than those that were ``tried``, where the client can have that.
        """

    def may_take(self, handle: Any, topic: str) -> bool:
        """Return whether a further handle, which is open, may take a topic's record.

        Raises:
            BaseException: of ``no_room``: all handles together hold as much as one may.
        """

    def hand_over(self, record: Record, attempt: Attempt) -> Any:
        """Give a record to the library on the attempt's handle; what it raises was not taken.

        Where the library chooses the partition and says which at once, `Flight.placed` is called. If the
        attempt is tracked by then, or of a record that may be rescued, `Flight.reported` is called later;
        else its ``outcome`` is all that the report is for.

        Raises:
            HandleClosedError: the handle is not open any more.
        """

    def knows_no_such_partition(self, error: BaseException) -> bool:
        """Return whether the library refused a record because it has not heard of its partition yet."""

    def is_too_large(self, error: BaseException) -> bool:
        """Return whether the library or a broker refused a record for its size."""

    def may_choose(self, record: Record) -> bool:
        """Return whether the library may choose a record's partition, as it has not heard of ours yet.

        The adapter sees to it that the handle learns of the topic's partitions.
        """

    def finish(self, record: RescuableRecord, arrived: Any) -> None:
        """Give the application a record's outcome: what arrived, or its error if that is None."""

    def hold(self, record: Record, waiting: int) -> tuple[Record, Any]:
        """Return a record that is to be kept for later, and what the application gets for it.

        Raises:
            BaseException: of ``no_room``, where so many wait that no more may; the producer is closed.
        """

    def reject(self, record: Record, home: int, error: BaseException) -> None:
        """Give the application the outcome of a record that was held, for its home, and can't be sent."""
