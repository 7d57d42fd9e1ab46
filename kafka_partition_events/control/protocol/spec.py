"""What is asked for: the specification of a change."""

import math

from attrs import frozen

from kafka_partition_events.control.protocol.bounds import MOST_IDS, Count
from kafka_partition_events.control.protocol.vocabulary import Execute, GateRule, Kind, OnDeadline, OnReject
from kafka_partition_events.errors import ConfigurationError


@frozen(kw_only=True)
class Spec:
    """What is asked for. It never changes.

    Attributes:
        kind: What it is about.
        cluster_id: Kafka's id of the cluster.
        topic: The topic; None for a broker.
        topic_id: Its id, None where it can't be told: then a re-created topic is not noticed.
        from_count: How many partitions producers use now. Compared when the change is requested.
        to_count: How many they are to use.
        partitions: Those that are to be left, or used again.
        broker: The broker whose partitions are, in place of a topic.
        execute: Who creates the partitions; ``"tracker"`` needs the right to alter the topic.
        gate: Whether producers wait until the required groups have a position on the new partitions.
        gate_on_deadline: Whether they then use them nevertheless.
        deadline_s: How many seconds after the change has happened everybody must have followed.
        expires_s: How many seconds after the request it must have happened.
        settle_s: How many seconds a group's complete assignment must stand unchanged to count as a position
            where nothing better can be known; 0: it never does.
        required_groups: The groups to wait for; None: all that read the topic.
        min_acked_ratio: Which part of the live cohort must have followed; and, if the tracker grows the
            topic, must hold the gate before that.
        on_reject: What becomes of the change when an instance rejects it.
        accept_capped: Whether instances that can't afford all partitions count as if they could.
        needs_approval: Whether a second person must approve.

    Raises:
        ConfigurationError: the values do not fit each other.
    """

    kind: Kind
    cluster_id: str
    topic: str | None = None
    topic_id: str | None = None
    from_count: Count = 0
    to_count: Count = 0
    partitions: frozenset[int] = frozenset()
    broker: int | None = None
    execute: Execute = Execute.EXTERNAL
    gate: GateRule = GateRule.NONE
    gate_on_deadline: OnDeadline = OnDeadline.OPEN
    deadline_s: float = 600.0
    expires_s: float = 3600.0
    settle_s: float = 30.0
    required_groups: tuple[str, ...] | None = None
    min_acked_ratio: float = 1.0
    on_reject: OnReject = OnReject.CONTINUE
    accept_capped: bool = False
    needs_approval: bool = False

    def __attrs_post_init__(self) -> None:
        """Check the values."""
        if problem := _problem(self):
            raise ConfigurationError(f"a change of the kind {self.kind} {problem}")

    @property
    def subject(self) -> str:
        """What is changed: there is one open change for it at a time."""
        what = f"topic/{self.topic}" if self.topic is not None else f"broker/{self.broker}"
        return f"{self.cluster_id}|{what}"

    @property
    def affected(self) -> frozenset[int]:
        """The partitions that come or go; none where a broker is drained, which may lead any."""
        if self.kind in {Kind.OFFLINE, Kind.ONLINE}:
            return self.partitions
        low, high = sorted((self.from_count, self.to_count))
        return frozenset(range(low, high))

    def is_enough(self, part: int, live: int) -> bool:
        """Tell whether so many of the live producers are the share that `min_acked_ratio` asks for.

        55 of 100 are 0.55 of them, although 0.55 * 100 is more than 55 to a computer.
        """
        return part >= self.min_acked_ratio * live - 1e-6


def _problem(spec: Spec) -> str | None:
    if spec.kind is not Kind.INCREASE and (spec.gate, spec.execute) != (GateRule.NONE, Execute.EXTERNAL):
        return "has no gate and nothing to execute"
    if not (0 < spec.deadline_s < math.inf and 0 < spec.expires_s < math.inf and spec.settle_s >= 0):
        return "needs a deadline_s and an expires_s of more than 0 seconds, and no negative settle_s"
    if not 0 < spec.min_acked_ratio <= 1:
        return "needs a min_acked_ratio above 0 and up to 1"
    return _subject_problem(spec)


def _subject_problem(spec: Spec) -> str | None:
    if spec.kind in {Kind.OFFLINE, Kind.ONLINE}:
        of_topic, of_broker = spec.topic is not None, spec.broker is not None
        fits = of_topic != of_broker and bool(spec.partitions) == of_topic
        if fits and len(spec.partitions) > MOST_IDS:
            return f"can't be about more than {MOST_IDS:,} partitions at once"
        return None if fits else "is for partitions of a topic, or for a broker"
    if spec.topic is None or spec.broker is not None:
        return "needs a topic, and no broker"
    low, high = (spec.to_count, spec.from_count)[:: 1 if spec.kind is Kind.DECREASE else -1]
    if not 1 <= low < high:
        return f"can't lead from {spec.from_count} to {spec.to_count} partitions"
    return _too_far(spec) if high - low > MOST_IDS else None


def _too_far(spec: Spec) -> str:
    first = spec.from_count + (-MOST_IDS if spec.kind is Kind.DECREASE else MOST_IDS)
    return (
        f"can't lead from {spec.from_count} to {spec.to_count} partitions at once, only by {MOST_IDS:,}: of "
        f"more Kafka creates a part and fails (KAFKA-19673); go in steps, the first one to {first}"
    )
