"""What commands do: a change is requested, or cancelled. Pure.

A command that comes twice (at one offset) does nothing the second time. One that is refused says why and what
to do, and the refusal is part of the change, so it is never lost.
"""

from collections.abc import Collection, Mapping
from typing import Final

from attrs import evolve

from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.policy import DEFAULT_POLICY, Policy
from kafka_partition_events.control.changes.transitions import to
from kafka_partition_events.control.protocol.records import Answer, Change, Given
from kafka_partition_events.control.protocol.vocabulary import State, Verb

MOST_OPEN: Final = 100
"""How many changes may be open: each costs a check of all instances, each second."""

LASTS_S: Final = 900.0
"""For how many seconds after it was appended a command may be carried out."""

RETIRED_AFTER_MS: Final = 30 * 86_400_000
"""For how long a change that is finished is kept."""

REFUSED_AFTER_MS: Final = round(1_000 * LASTS_S) + 60_000
"""For how long a request is kept that was refused at once: a tracker that reads it again by then must know of
it. Each process with the library reads them all."""


Outcome = tuple[Change | None, Answer | None]
"""What a command led to: the change as it is now (None: there is none), and why nothing was done."""


def obey(
    given: Given,
    changes: Mapping[str, Change],
    cluster: ClusterView,
    *,
    epoch: int,
    now_ms: int,
    policy: Policy = DEFAULT_POLICY,
) -> Outcome:
    """Carry out a command."""
    command = given.command
    change, requests = changes.get(command.change_id), command.verb is Verb.REQUEST
    why: str | None
    if change is not None:
        if change.was_given(given) or (requests and command.spec == change.spec):
            return change, None  # it comes again
        change = evolve(change, revision=change.revision + 1, tracker_epoch=epoch)
    elif command.spec is None or not requests:
        why = f"there is no change {command.change_id}; see kpe change ls --all"
        return None, given.answer(why)
    else:
        change = Change(
            change_id=command.change_id,
            tracker_epoch=epoch,
            revision=1,
            state=State.REQUESTED,
            spec=command.spec,
            requested_by=command.actor,
            why=command.reason,
            requested_ms=given.at_ms,
        )
    if (why := _why_not(given, change, cluster, changes.values(), now_ms, policy)) is not None:
        if change.revision == 1:
            change = to(change, State.REJECTED, now_ms, detail=why)
        return change.with_answer(given.answer(why)), given.answer(why)
    if not requests and change.state is not State.CANCELLED:
        ended = State.PARTIALLY_CONVERGED if change.state is State.OVERDUE else State.CANCELLED
        reason = f"cancelled by {command.actor}" + (f": {command.reason}" if command.reason else "")
        change = to(change, ended, now_ms, detail=reason)
    return change.with_answer(given.answer()), None


def _why_not(
    given: Given,
    change: Change,
    cluster: ClusterView,
    others: Collection[Change],
    now_ms: int,
    policy: Policy,
) -> str | None:
    """Return why a command is not carried out, and what to do; None: it is."""
    if now_ms > given.at_ms + 1_000 * LASTS_S:
        return f"no tracker took it up within {LASTS_S:g} s; ask again"
    if given.command.verb is Verb.CANCEL:
        return _why_not_cancel(change, cluster)
    if change.revision > 1:
        return f"{change.change_id} is another change already; request this one under an id of its own"
    return _why_not_request(change, cluster, others, policy)


def _why_not_request(
    change: Change, cluster: ClusterView, others: Collection[Change], policy: Policy
) -> str | None:
    still_open = [other for other in others if not other.state.final]
    if len(still_open) >= MOST_OPEN:
        return f"{len(still_open)} changes are open; finish some"
    for other in still_open:
        if other.spec.topic == change.spec.topic:
            return f"{other.change_id} is {other.state}; wait for it (kpe change wait), or cancel it"
    if cluster.blind:
        return f"{_unseen(change)}; may it describe the topic? See its log"
    return policy.forbids(change.spec, cluster.count, cluster.topic_id)


def _why_not_cancel(change: Change, cluster: ClusterView) -> str | None:
    if change.state.final and change.state is not State.CANCELLED:
        return f"{change.change_id} is {change.state}; nothing is left to be done"
    if change.state in {State.GATED, State.CONVERGING}:
        grown = "the topic has grown, and Kafka can't shrink it; it waits for who follows until its deadline"
        return f"{change.change_id} is {change.state}; {grown}"
    if change.state is State.REQUESTED and cluster.blind:
        # The topic may have grown already; then nothing would keep producers from its new partitions.
        return f"{_unseen(change)}, so it may have happened; ask again later"
    return None


def _unseen(change: Change) -> str:
    return f"the tracker does not see topic {change.spec.topic} of cluster {change.spec.cluster_id} now"


def may_be_forgotten(change: Change, now_ms: int) -> bool:
    """Return whether a tombstone may follow: the change has been over for long."""
    kept_ms = REFUSED_AFTER_MS if change.refused_at_once else RETIRED_AFTER_MS
    return change.finished_ms is not None and now_ms >= change.finished_ms + kept_ms


def reply_to(given: Given, change: Change | None) -> Outcome | None:
    """Return what became of a command; None as long as no tracker has taken it up."""
    if change is None:
        return None
    if (answer := change.answer_to(given)) is not None:
        return change, answer if answer.refused else None
    if given.command.verb is Verb.REQUEST and given.command.spec == change.spec:  # it was requested before
        return change, change.answers[0] if change.refused_at_once else None
    return None  # or it was pushed out by later ones
