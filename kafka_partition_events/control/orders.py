"""What producers have to do about a topic or a broker, before, during and after a change. Pure.

An order outlasts its change: a topic that was decreased stays so, until another change of it. Of all changes
of one subject the one with the highest number gives the order.
"""

from collections.abc import Iterable

from attrs import evolve

from kafka_partition_events.control.records import Change, Order
from kafka_partition_events.control.spec import Spec
from kafka_partition_events.control.words import Gate, Kind

NO_ORDER = Order()


def last_change(changes: Iterable[Change], subject: str, topic_id: str | None) -> Change | None:
    """Return the change that gives the orders for a subject; None if there is none.

    What was asked of a topic that has been created anew since then does not hold for the new one.
    """
    concerning = [
        change
        for change in changes
        if change.number
        and change.spec.subject == subject
        and (topic_id is None or change.spec.topic_id in {None, topic_id})
    ]
    return max(concerning, key=lambda change: change.number, default=None)


def standing(changes: Iterable[Change], spec: Spec) -> Order:
    """Return what holds for the subject of a new change."""
    last = last_change(changes, spec.subject, spec.topic_id)
    return NO_ORDER if last is None else last.order


def armed(spec: Spec, before: Order, gate: Gate) -> Order:
    """Return what holds from the release of a change on, until it has happened."""
    return evolve(before, limit=spec.from_count) if gate is Gate.HELD else before


def in_effect(spec: Spec, before: Order, count: int | None = None) -> Order:
    """Return what holds when a change is in effect and no gate is held.

    Args:
        spec: The change.
        before: What held before it.
        count: How many partitions the topic has. What lies beyond the change was not asked for, so no
            consumer was waited for there: it stays unused until somebody asks.
    """
    if spec.kind is Kind.INCREASE:
        return evolve(before, limit=spec.to_count if count is not None and count > spec.to_count else None)
    if spec.kind is Kind.DECREASE:
        return evolve(before, limit=spec.to_count)
    if spec.kind is Kind.OBSERVE:
        return before
    leave = spec.kind is Kind.OFFLINE
    if spec.broker is not None:
        return evolve(before, broker_offline=leave)
    return evolve(
        before, offline=before.offline | spec.partitions if leave else before.offline - spec.partitions
    )


def rolled_back(spec: Spec, before: Order) -> Order:
    """Return what holds after a change was rolled back. The partitions of a grown topic stay, unused."""
    return evolve(before, limit=spec.from_count) if spec.kind is Kind.INCREASE else before
