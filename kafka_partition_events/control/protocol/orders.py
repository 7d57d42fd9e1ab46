"""What producers have to do about a topic or a broker, before, during and after a change. Pure.

An order outlasts its change: a topic that was decreased stays so, until another change of it. Of all changes
of one subject the one with the highest number gives the order.
"""

from collections.abc import Iterable

from attrs import evolve

from kafka_partition_events.control.protocol.records import Change, Order
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Gate, GateRule, Kind
from kafka_partition_events.routing.limits import Limits

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
        count: How many partitions the topic has. Where a gate or a limit has kept producers from some, what
            lies beyond the change stays unused until somebody asks for it: nobody has waited for consumers.
    """
    if spec.kind is Kind.INCREASE:
        guarded = spec.gate is not GateRule.NONE or before.limit is not None
        beyond = count is not None and count > spec.to_count
        return evolve(before, limit=spec.to_count if guarded and beyond else None)
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


def as_limits(orders: Iterable[tuple[Spec, Order]]) -> Limits:
    """Return what partitioners are to be told: `Routes.limit`.

    Args:
        orders: What holds for each subject, and a change that names the subject. Where two hold for one name
            (of two clusters), both do.
    """
    counts: dict[str, int] = {}
    offline: dict[str, frozenset[int]] = {}
    brokers: set[int] = set()
    for spec, order in orders:
        if spec.topic is not None and order.limit is not None:
            counts[spec.topic] = min(order.limit, counts.get(spec.topic, order.limit))
        if spec.topic is not None and order.offline:
            offline[spec.topic] = offline.get(spec.topic, frozenset()) | order.offline
        if spec.broker is not None and order.broker_offline:
            brokers.add(spec.broker)
    return Limits(counts=counts, offline=offline, brokers=frozenset(brokers))
