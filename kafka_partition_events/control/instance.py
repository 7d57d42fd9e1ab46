"""What one producer process has to do about a change, and what it says. Pure.

An instance is told of a change before the topic grows, and holds its routes at the old partitions from then
on. That does nothing as long as there are no others; so when its poller sees new ones, nothing is left to be
done in time. If nobody tells it that the gate is open, it opens it by itself, `Spec.deadline_s` after it
first knew of the growth by its own monotonic clock, and never before. Whether the control topics can be
reached does not matter for that.
"""

import hashlib
from typing import Final

from attrs import evolve, frozen

from kafka_partition_events.control.orders import in_effect, rolled_back
from kafka_partition_events.control.records import Change, Order, TopicUse
from kafka_partition_events.control.words import Kind, OnDeadline, State, Status

ACK_SPREAD_S: Final = 5.0
"""Over how many seconds the acks of a fleet are spread."""


@frozen
class Watch:
    """What an instance remembers of one change: when it first knew that the topic had grown, in seconds."""

    grown_at: float | None = None

    def looked(self, change: Change, seen: int, now: float) -> "Watch":
        """Return the memory after a look.

        Args:
            change: The change as last read.
            seen: How many partitions the instance sees.
            now: The time.
        """
        grown = change.state.happened or seen > change.spec.from_count
        return evolve(self, grown_at=now) if grown and self.grown_at is None else self


@frozen
class Answer:
    """What an instance says of a change."""

    status: Status
    reason: str = ""


def order_for(change: Change, watch: Watch, seen: int, now: float, *, rejects: bool = False) -> Order:
    """Return what the instance does now.

    Args:
        change: The change as last read.
        watch: What is remembered of it.
        seen: How many partitions of the topic the instance sees.
        now: The time.
        rejects: Whether a policy of the instance forbids the change, as for a topic whose keys must not move.
    """
    if rejects:
        return rolled_back(change.spec, change.before)
    if change.holds and opens_itself_at(change, watch) <= now:
        return in_effect(change.spec, change.before, seen)
    return change.order


def opens_itself_at(change: Change, watch: Watch) -> float:
    """Return when the instance opens a held gate without being told to."""
    if change.spec.gate_on_deadline is OnDeadline.HOLD or watch.grown_at is None:
        return float("inf")
    return watch.grown_at + change.spec.deadline_s


def answer(change: Change, order: Order, adopted: Order, use: TopicUse, *, rejects: bool = False) -> Answer:
    """Return what the instance says.

    Args:
        change: The change as last read.
        order: What `order_for` tells.
        adopted: What its routes are made by now.
        use: What it sees and uses.
        rejects: As for `order_for`.
    """
    back = change.state in {State.ROLLING_BACK, State.ROLLED_BACK}
    if rejects and not back:
        return Answer(Status.REJECTED, "policy")
    if adopted != order:
        return Answer(Status.OBSERVED)
    if back:
        return Answer(Status.ROLLED_BACK)
    if change.holds and order == change.order:
        return Answer(Status.HELD)
    return _applied(change, order, use)


def _applied(change: Change, order: Order, use: TopicUse) -> Answer:
    grows = change.spec.kind in {Kind.INCREASE, Kind.OBSERVE}
    if use.seen < change.spec.to_count if grows else not change.state.happened:
        return Answer(Status.OBSERVED)
    if grows and use.used < min(use.seen, order.limit or use.seen):
        return Answer(Status.CAPPED, "buffer_limit")
    return Answer(Status.APPLIED)


def ack_delay(change_id: str, instance_id: str, spread: float = ACK_SPREAD_S) -> float:
    """Return how many seconds to wait before an ack: evenly spread over a fleet, the same each time."""
    digest = hashlib.blake2b(f"{change_id}\0{instance_id}".encode(), digest_size=4).digest()
    return spread * int.from_bytes(digest) / 2**32
