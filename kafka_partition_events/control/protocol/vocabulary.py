"""The words of change control, as they stand in records."""

from enum import StrEnum


class State(StrEnum):
    """Where a change is. `changes.transitions` has the table of what leads from one to another."""

    REQUESTED = "requested"
    GATED = "gated"
    """The topic has grown; producers keep to the old partitions until the groups have a position."""
    CONVERGING = "converging"
    """The topic has grown, and producers begin to use the new partitions."""
    OVERDUE = "overdue"
    """The deadline has passed, and a producer has not followed. Not final."""
    CONVERGED = "converged"
    PARTIALLY_CONVERGED = "partially_converged"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """It did not happen in time."""

    @property
    def final(self) -> bool:
        """Whether nothing comes after it."""
        return self in _FINAL

    @property
    def happened(self) -> bool:
        """Whether the topic has grown."""
        return self in _HAPPENED


_FINAL = frozenset({
    State.CONVERGED, State.PARTIALLY_CONVERGED, State.REJECTED, State.CANCELLED, State.EXPIRED,
})  # fmt: skip
_HAPPENED = frozenset({
    State.GATED, State.CONVERGING, State.OVERDUE, State.CONVERGED, State.PARTIALLY_CONVERGED,
})  # fmt: skip


class Verb(StrEnum):
    """What a command asks for."""

    REQUEST = "request"
    CANCEL = "cancel"
    """Take back what has not happened, or end the waiting for what is overdue. It opens no gate."""
