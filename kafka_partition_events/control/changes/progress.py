"""How far a change is, for whoever shows it or waits for it. Pure."""

from attrs import frozen

from kafka_partition_events.control.changes.evidence import ClusterView, evidence
from kafka_partition_events.control.changes.followers import Fleet, Follower, followers
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import GROUP_PREFIX, Change
from kafka_partition_events.control.protocol.vocabulary import Gate, State, Status

_TO_ANSWER = frozenset({None, Status.OBSERVED, Status.HELD})
_BACK = frozenset({State.ROLLING_BACK, State.ROLLED_BACK})


@frozen(kw_only=True)
class Step:
    """A part of a change, and how many have done it."""

    label: str
    done: int
    total: int


@frozen(kw_only=True)
class Arming:
    """How many producers hold the gate.

    Attributes:
        live: How many there are.
        missing: Those that do not hold it yet.
        enough: Whether as many do as the change asks for. If there are none at all, all do.
    """

    live: int
    missing: tuple[str, ...]
    enough: bool


def steps(change: Change, ledger: Ledger) -> tuple[Step, ...]:
    """Return the parts of a change, as the tracker has counted producers, in the order of time."""
    totals, live = change.totals, change.totals.live
    followed = totals.rolled_back if change.state in _BACK else totals.applied + totals.capped
    parts = [Step(label="producers have followed", done=followed, total=live)]
    if change.gate is not Gate.NONE and change.state not in _BACK:
        armed = totals.held + totals.applied + totals.capped
        parts.insert(0, Step(label="producers are armed", done=armed, total=live))
    if groups := groups_of(change, ledger):
        done = len(groups) - len(groups & set(change.uncovered_groups))
        parts.append(Step(label="groups have followed", done=done, total=len(groups)))
    return tuple(parts)


def groups_of(change: Change, ledger: Ledger) -> set[str]:
    """Return the groups that a change is known to wait for, or to have waited for."""
    if change.spec.required_groups is not None:
        return set(change.spec.required_groups)
    told = (name for name in ledger.acks.get(change.change_id, {}) if name.startswith(GROUP_PREFIX))
    return {name.removeprefix(GROUP_PREFIX) for name in told} | set(change.uncovered_groups)


def is_awaited(follower: Follower) -> bool:
    """Tell whether a producer is still to answer."""
    return follower.status in _TO_ANSWER and not follower.departed and not follower.late


def arming(change: Change, ledger: Ledger, now_ms: int) -> Arming:
    """Return how far producers are with holding the gate.

    Args:
        change: A change with a gate that has not happened.
        ledger: What was read.
        now_ms: The time by the brokers' clock, and not later than it: who departs is not waited for.
    """
    fleet = fleet_of(change, ledger)
    missing = evidence(change, fleet, ClusterView(), now_ms).unarmed
    live = sum(not follower.departed for follower in followers(change, fleet, now_ms))
    enough = change.spec.is_enough(live - len(missing), live)
    return Arming(live=live, missing=missing, enough=enough)


def fleet_of(change: Change, ledger: Ledger) -> Fleet:
    """Return what is known of all instances, and of what they say of a change."""
    return Fleet(tenancies=ledger.tenancies, acks=ledger.acks.get(change.change_id, {}))
