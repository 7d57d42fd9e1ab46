"""The words of change control, as they stand in records."""

from enum import StrEnum


class Kind(StrEnum):
    """What a change is about."""

    INCREASE = "partitions.increase"
    """The topic gets more partitions."""
    DECREASE = "partitions.decrease"
    """Producers leave the last partitions. Kafka can't shrink a topic, so this is a limit of routes."""
    OFFLINE = "partitions.offline"
    """Producers leave some partitions, or those that a broker leads, before work on them."""
    ONLINE = "partitions.online"
    """Producers come back."""
    OBSERVE = "observe"
    """The topic has grown and nobody asked for it; only who follows is of interest."""

    @property
    def grows(self) -> bool:
        """Whether the topic has more partitions then."""
        return self in {Kind.INCREASE, Kind.OBSERVE}


class State(StrEnum):
    """Where a change is."""

    REQUESTED = "requested"
    APPROVED = "approved"
    OBSERVED = "observed"
    """It has happened (the topic has grown, or producers were told), and the cohort is frozen."""
    GATED = "gated"
    """Producers keep to the old partitions until the required groups have a position on the new ones."""
    CONVERGING = "converging"
    OVERDUE = "overdue"
    """The deadline has passed and somebody has not followed. Not final."""
    ROLLING_BACK = "rolling_back"
    CONVERGED = "converged"
    PARTIALLY_CONVERGED = "partially_converged"
    REJECTED = "rejected"
    ROLLED_BACK = "rolled_back"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """It did not happen in time."""

    @property
    def final(self) -> bool:
        """Whether nothing comes after it."""
        return self in _FINAL

    @property
    def happened(self) -> bool:
        """Whether the change is in effect, or was."""
        return self in _HAPPENED


_FINAL = frozenset({
    State.CONVERGED, State.PARTIALLY_CONVERGED, State.REJECTED, State.ROLLED_BACK, State.CANCELLED,
    State.EXPIRED,
})  # fmt: skip
_HAPPENED = frozenset({
    State.OBSERVED, State.GATED, State.CONVERGING, State.OVERDUE, State.ROLLING_BACK, State.CONVERGED,
    State.PARTIALLY_CONVERGED, State.ROLLED_BACK,
})  # fmt: skip


class Gate(StrEnum):
    """Whether producers wait for consumers."""

    NONE = "none"
    """They were never asked to."""
    HELD = "held"
    OPEN = "open"


class GateRule(StrEnum):
    """What was asked for."""

    NONE = "none"
    CONSUMERS_FIRST = "consumers_first"


class OnDeadline(StrEnum):
    """What becomes of a gate when the deadline passes."""

    OPEN = "open"
    HOLD = "hold"


class OnReject(StrEnum):
    """What becomes of a change when an instance rejects it."""

    CONTINUE = "continue"
    ABORT = "abort"


class Execute(StrEnum):
    """Who makes the change."""

    EXTERNAL = "external"
    TRACKER = "tracker"


class Verb(StrEnum):
    """What a command asks for."""

    REQUEST = "request"
    CANCEL = "cancel"
    ROLLBACK = "rollback"
    OPEN_GATE = "open_gate"
    """Let producers use the partitions without the evidence."""
    FINISH = "finish"
    """Wait for nobody any more."""


class Role(StrEnum):
    """What a process with the library is."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    PROBER = "prober"
    """It answers for a consumer group that does not run the library."""


class LeaseState(StrEnum):
    """Whether an instance is there."""

    UP = "up"
    DOWN = "down"
    """It has stopped, in good order."""


class Status(StrEnum):
    """What an instance says of a change."""

    OBSERVED = "observed"
    """Seen, not applied."""
    HELD = "held"
    """Ready, and waiting for the gate."""
    APPLIED = "applied"
    CAPPED = "capped"
    """Applied, but its budget affords fewer partitions than there are: KIP-34's case."""
    REJECTED = "rejected"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


class Reason(StrEnum):
    """Why a change was rejected, or a command refused."""

    CONFLICT = "conflict"
    """The topic has another number of partitions than the change began with or leads to."""
    TOPIC_ID_CHANGED = "topic_id_changed"
    TOPIC_UNKNOWN = "topic_unknown"
    CLUSTER_UNKNOWN = "cluster_unknown"
    """Nobody observes that cluster now, so nothing can be compared."""
    ANOTHER_CHANGE_OPEN = "another_change_open"
    ANOTHER_SPEC = "another_spec"
    """The change exists, and is another one."""
    NO_SUCH_CHANGE = "no_such_change"
    COMMAND_EXPIRED = "command_expired"
    WRONG_STATE = "wrong_state"
    INSTANCE_REJECTED = "instance_rejected"
    NOT_ALLOWED = "not_allowed"
    """The tracker's policy forbids it, or the topic is Kafka's own or change control's."""
    ID_USED = "id_used"
    """A change of that id is over and forgotten; ids are never used again."""
    FAULT = "fault"
    """The tracker can't carry it out, by a fault of its own; its log tells more."""
