"""The states of a change, as a pure function of what is known.

======================  ==========================================================  =====================
from                    when                                                        to
======================  ==========================================================  =====================
requested, approved     the topic is another one, or gone                           rejected
..                      an instance rejects it and ``on_reject`` is ``abort``       rejected
..                      the topic has another number of partitions                  rejected (conflict)
..                      the topic has ``to_count``; or it was released and is        observed
                        about routes only
..                      ``expires_s`` have passed, and the cluster can be seen      expired
observed                the gate is held and a required group is not positioned     gated
..                      else                                                        converging
gated                   all required groups are positioned                          converging, gate open
..                      the deadline has passed, ``gate_on_deadline`` is ``open``   converging, gate open
..                      the deadline has passed, it is ``hold``                     overdue, gate held
converging, overdue     all live of the cohort have followed, and so have groups    converged
..                      as many as ``min_acked_ratio`` asks for; or some are         partially_converged
                        capped, or many have departed
converging              the deadline has passed, somebody has not followed          overdue
..                      it has passed, and nobody is known to wait for              partially_converged
overdue                 the gate is held and all groups are positioned              overdue, gate open
rolling_back            all live of the cohort are back                             rolled_back, rejected
any that has happened   the topic is another one, or gone                           rejected
any that has happened   an instance rejects it and ``on_reject`` is ``abort``       rolling_back
======================  ==========================================================  =====================

What commands bring about is in ``requests.py``. Nothing leaves a final state: to undo a change that is
finished, request its inverse.
"""

from attrs import evolve

from kafka_partition_events.control.changes.evidence import ClusterView, Evidence, evidence
from kafka_partition_events.control.changes.followers import Fleet
from kafka_partition_events.control.protocol.orders import armed, in_effect, rolled_back
from kafka_partition_events.control.protocol.records import Change, Counted, Order
from kafka_partition_events.control.protocol.vocabulary import (
    Execute,
    Gate,
    Kind,
    OnDeadline,
    OnReject,
    Reason,
    State,
)

_OF_ROUTES = frozenset({Kind.DECREASE, Kind.OFFLINE, Kind.ONLINE})
_LEAVING = frozenset({Kind.DECREASE, Kind.OFFLINE})


def step(change: Change, fleet: Fleet, cluster: ClusterView, *, epoch: int, now_ms: int) -> Change:
    """Return the change one transition later, or with newer totals; the same object if nothing differs.

    Call it until it returns what it was given: each transition is worth a record of its own.

    Args:
        change: The change.
        fleet: What instances say.
        cluster: What observers and prober see.
        epoch: The tracker's epoch.
        now_ms: The time now by the brokers' clock; it must not go back.
    """
    if change.state.final:
        return change
    known = evidence(change, fleet, cluster, now_ms)
    after = _next(change, known, cluster, now_ms) or change
    after = evolve(
        after,
        totals=known.totals,
        uncovered_groups=known.uncovered_groups,
        unverified=known.unverified,
        blind=after.blind or cluster.blind,
    )
    if after == change:
        return change  # that the same was counted from more is no news
    counted = _counted(change, fleet, cluster, now_ms)
    return evolve(after, revision=change.revision + 1, tracker_epoch=epoch, counted=counted)


def is_due(change: Change, fleet: Fleet, cluster: ClusterView, now_ms: int) -> bool:
    """Tell whether the tracker shall create the partitions now.

    That is when the change was released, the topic can be seen and is as it was, and as many of the live
    producers as `Spec.min_acked_ratio` asks for are known to hold the gate, if there is one.
    """
    spec, count = change.spec, cluster.count or 0
    if spec.execute is not Execute.TRACKER or change.state not in {State.REQUESTED, State.APPROVED}:
        return False
    limited = change.before.limit is not None
    as_it_was = count == spec.from_count or (limited and spec.from_count < count < spec.to_count)
    if not (change.released and as_it_was) or cluster.blind or _is_another(change, cluster):
        return False
    if change.gate is Gate.NONE:
        return True
    known = evidence(change, fleet, cluster, now_ms)
    return spec.is_enough(known.totals.live - len(known.unarmed), known.totals.live)


def opened(change: Change, by: str, cluster: ClusterView) -> Change:
    """Return the change with its gate open; ``by`` says who or what has opened it."""
    # Where nobody can look, there may be more partitions than it is about.
    count = change.spec.to_count + 1 if cluster.blind else cluster.count
    order = in_effect(change.spec, change.before, count)
    return evolve(change, gate=Gate.OPEN, opened_by=by, order=order)


def finished(
    change: Change, state: State, now_ms: int, reason: Reason | None = None, why: str = ""
) -> Change:
    """Return the change in a final state. One that has not come to an effect leaves none behind."""
    late = change.deadline_ms is not None and now_ms >= change.deadline_ms
    undone = (
        state in {State.REJECTED, State.CANCELLED, State.EXPIRED} and change.state is not State.ROLLING_BACK
    )
    return evolve(
        change,
        state=state,
        finished_ms=now_ms,
        late=late,
        order=change.before if undone else change.order,
        reason=reason or change.reason,
        detail=why or change.detail,
    )


def rolling_back(change: Change, becomes: State, reason: Reason | None = None, why: str = "") -> Change:
    """Return the change on its way back, which ends in a given state."""
    return evolve(
        change,
        state=State.ROLLING_BACK,
        becomes=becomes,
        order=rolled_back(change.spec, change.before),
        reason=reason,
        detail=why,
    )


def _counted(change: Change, fleet: Fleet, cluster: ClusterView, now_ms: int) -> Counted | None:
    if fleet.leases_read is None or fleet.acks_read is None:
        return None
    return Counted(
        at_ms=now_ms,
        state=change.state,
        leases=fleet.leases_read,
        acks=fleet.acks_read,
        writers=cluster.writers,
    )


# -- the table ---------------------------------------------------------------------------------------------


def _next(change: Change, known: Evidence, cluster: ClusterView, now_ms: int) -> Change | None:
    if not cluster.blind and (gone := _gone(change, cluster)):
        # What held before the change was about the same topic.
        return evolve(finished(change, State.REJECTED, now_ms, *gone), order=Order())
    aborts = change.spec.on_reject is OnReject.ABORT and change.state is not State.ROLLING_BACK
    if aborts and known.rejected_by:
        return _aborted(change, known, now_ms)
    if not change.state.happened:
        return _before_it_happened(change, known, cluster, now_ms)
    if change.state is State.OBSERVED:
        waits = change.gate is Gate.HELD and not known.positioned
        return evolve(change, state=State.GATED) if waits else _converging(change, "evidence", cluster)
    return _after_it_happened(change, known, cluster, now_ms)


def _after_it_happened(change: Change, known: Evidence, cluster: ClusterView, now_ms: int) -> Change | None:
    if change.state is State.GATED:
        return _gated(change, known, cluster, now_ms)
    if change.state is State.ROLLING_BACK:
        back = known.totals.rolled_back == known.totals.live
        return finished(change, change.becomes or State.ROLLED_BACK, now_ms) if back else None
    return _converging_or_overdue(change, known, cluster, now_ms)


def _gone(change: Change, cluster: ClusterView) -> tuple[Reason, str] | None:
    spec = change.spec
    if spec.topic is None:
        return None
    if cluster.count is None:
        return Reason.TOPIC_UNKNOWN, f"topic {spec.topic} is gone"
    if _is_another(change, cluster):
        why = f"topic {spec.topic} was created anew, with the id {cluster.topic_id}, not {spec.topic_id}"
        return Reason.TOPIC_ID_CHANGED, why
    return None


def _is_another(change: Change, cluster: ClusterView) -> bool:
    ids = {change.spec.topic_id, cluster.topic_id}
    return None not in ids and len(ids) > 1


def _aborted(change: Change, known: Evidence, now_ms: int) -> Change:
    why = f"rejected by {', '.join(known.rejected_by[:5])}"
    if change.state.happened:
        return rolling_back(change, State.REJECTED, Reason.INSTANCE_REJECTED, why)
    return finished(change, State.REJECTED, now_ms, Reason.INSTANCE_REJECTED, why)


def _before_it_happened(change: Change, known: Evidence, cluster: ClusterView, now_ms: int) -> Change | None:
    spec = change.spec
    if spec.kind in _OF_ROUTES:
        if change.released:
            return _observed(evolve(change, order=in_effect(spec, change.before)), now_ms)
    elif not cluster.blind:
        count = cluster.count or 0
        # With a limit in force the topic may have all partitions already; else it must still be as it was.
        if count == spec.to_count or (change.before.limit is not None and count >= spec.to_count):
            unarmed = len(known.unarmed) if change.gate is Gate.HELD else 0
            order = armed(spec, change.before, change.gate)  # for one that nobody has approved
            return _observed(evolve(change, unarmed=unarmed, order=order), now_ms)
        if count != spec.from_count and change.before.limit is None:
            why = f"topic {spec.topic} has {count} partitions, neither {spec.from_count} nor {spec.to_count}"
            tried = "; ".join(filter(None, [why, change.detail]))
            return finished(change, State.REJECTED, now_ms, Reason.CONFLICT, tried)
    if now_ms >= change.requested_ms + 1_000 * spec.expires_s and not cluster.blind:
        return finished(change, State.EXPIRED, now_ms)
    return None


def _observed(change: Change, now_ms: int) -> Change:
    deadline_ms = now_ms + round(1_000 * change.spec.deadline_s)
    return evolve(change, state=State.OBSERVED, observed_ms=now_ms, deadline_ms=deadline_ms)


def _converging(change: Change, by: str, cluster: ClusterView) -> Change:
    if change.gate is Gate.HELD:
        change = opened(change, by, cluster)
    elif change.gate is Gate.NONE and change.state is State.OBSERVED:
        change = evolve(change, order=in_effect(change.spec, change.before, cluster.count))
    return evolve(change, state=State.CONVERGING)


def _gated(change: Change, known: Evidence, cluster: ClusterView, now_ms: int) -> Change | None:
    if known.positioned:
        return _converging(change, "evidence", cluster)
    if not _overdue(change, now_ms):
        return None
    if change.spec.gate_on_deadline is OnDeadline.OPEN:
        return _converging(change, "deadline", cluster)
    return evolve(change, state=State.OVERDUE, late=True)


def _converging_or_overdue(
    change: Change, known: Evidence, cluster: ClusterView, now_ms: int
) -> Change | None:
    if change.gate is Gate.HELD:
        return opened(change, "evidence", cluster) if known.positioned else None
    passed = _overdue(change, now_ms)
    if (known.acked and _groups_follow(change, known)) or (passed and known.settled):
        return finished(change, _outcome(change, known), now_ms)
    if passed and change.state is State.CONVERGING:
        return evolve(change, state=State.OVERDUE, late=True)
    return None


def _groups_follow(change: Change, known: Evidence) -> bool:
    if change.spec.kind is Kind.ONLINE:
        return True
    return known.drained if change.spec.kind in _LEAVING else known.assigned


def _outcome(change: Change, known: Evidence) -> State:
    totals = known.totals
    followed = totals.applied + (totals.capped if change.spec.accept_capped else 0)
    full = known.acked and followed == totals.live and not known.mass_exit and _groups_follow(change, known)
    return State.CONVERGED if full else State.PARTIALLY_CONVERGED


def _overdue(change: Change, now_ms: int) -> bool:
    return change.deadline_ms is not None and now_ms >= change.deadline_ms
