"""What commands do: a change is requested, cancelled or ended early. Pure.

A command that comes twice (at one offset) does nothing the second time. One that is refused says why and what
to do, and the refusal is part of the change, so it is never lost.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from attrs import evolve, frozen

from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.policy import DEFAULT_POLICY, Policy
from kafka_partition_events.control.changes.transitions import to
from kafka_partition_events.control.protocol.records import Answer, Change, Command, Given
from kafka_partition_events.control.protocol.vocabulary import State, Verb

MOST_OPEN: Final = 100
"""How many changes may be open: each costs a look at all instances, each second."""

LASTS_S: Final = 900.0
"""For how many seconds after it was appended a command may be carried out."""

RETIRED_AFTER_MS: Final = 30 * 86_400_000
"""For how long a change that is finished is kept."""

REFUSED_AFTER_MS: Final = 60_000
"""For how long a request is kept that was refused at once: the one who asked has read it by then. Each
process with the library reads them all."""


@frozen
class Outcome:
    """What a command led to: the change as it is now (None: there is none), and why nothing was done."""

    change: Change | None
    refusal: Answer | None = None


def obey(
    given: Given,
    changes: Mapping[str, Change],
    cluster: ClusterView,
    *,
    epoch: int,
    now_ms: int,
    policy: Policy = DEFAULT_POLICY,
    retired: Collection[str] = (),
) -> Outcome:
    """Carry out a command."""
    command = given.command
    change, requests = changes.get(command.change_id), command.verb is Verb.REQUEST
    carry_out: _Verb
    if change is not None:
        if change.was_given(given) or (requests and command.spec == change.spec):
            return Outcome(change)  # it comes again
        change = evolve(change, revision=change.revision + 1, tracker_epoch=epoch)
        carry_out = _VERBS[command.verb]
    elif command.change_id in retired:
        why = f"there was a change {command.change_id} before; request this one under an id of its own"
        return Outcome(None, given.answer(why))
    elif command.spec is None or not requests:
        why = f"there is no change {command.change_id}; see kpe change ls --all"
        return Outcome(None, given.answer(why))
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
        carry_out = partial(_take_up, others=changes.values(), policy=policy)
    try:
        _check_age(given, now_ms)
        after = carry_out(change, command, cluster, now_ms)
    except _RefusedError as error:
        answer = given.answer(str(error))
        if change.revision == 1:
            change = to(change, State.REJECTED, now_ms, detail=str(error))
        return Outcome(change.with_answer(answer), answer)
    return Outcome(after.with_answer(given.answer()))


def may_be_forgotten(change: Change, now_ms: int) -> bool:
    """Tell whether a tombstone may follow: the change has been over for long."""
    kept_ms = REFUSED_AFTER_MS if change.refused_at_once else RETIRED_AFTER_MS
    return change.finished_ms is not None and now_ms >= change.finished_ms + kept_ms


def reply_to(given: Given, change: Change | None) -> Outcome | None:
    """Return what became of a command; None as long as no tracker has taken it up."""
    if change is None:
        return None
    if (answer := change.answer_to(given)) is not None:
        return Outcome(change, answer if answer.refused else None)
    if given.command.verb is Verb.REQUEST and given.command.spec == change.spec:  # it was requested before
        return Outcome(change, change.answers[0] if change.refused_at_once else None)
    return None  # or it was pushed out by later ones


# -- what is carried out -------------------------------------------------------------------------------------


class _RefusedError(Exception):
    """A command is not carried out; its text says why."""


_Verb = Callable[[Change, Command, ClusterView, int], Change]


def _check_age(given: Given, now_ms: int) -> None:
    if now_ms > given.at_ms + 1_000 * LASTS_S:
        raise _RefusedError(f"no tracker took it up within {LASTS_S:g} s; ask again")


def _take_up(
    change: Change,
    _command: Command,
    cluster: ClusterView,
    _now_ms: int,
    *,
    others: Collection[Change],
    policy: Policy,
) -> Change:
    """Compare and set: the change must begin with what there is."""
    spec, count = change.spec, cluster.count
    if (forbidden := policy.forbids(spec)) is not None:
        raise _RefusedError(forbidden)
    if (still_open := sum(not other.state.final for other in others)) >= MOST_OPEN:
        raise _RefusedError(f"{still_open} changes are open; finish some")
    for other in others:
        if other.spec.subject == spec.subject and not other.state.final:
            why = f"{other.change_id} is {other.state}; wait for it (kpe change wait), or cancel it"
            raise _RefusedError(why)
    if cluster.blind:
        why = f"the tracker does not see cluster {spec.cluster_id} now; see its log"
        raise _RefusedError(why)
    if count is None:
        raise _RefusedError(f"there is no topic {spec.topic}")
    if spec.topic_id is not None and cluster.topic_id not in {None, spec.topic_id}:
        why = f"topic {spec.topic} has the id {cluster.topic_id}, not {spec.topic_id}"
        raise _RefusedError(why)
    if count != spec.from_count:
        why = f"topic {spec.topic} has {count} partitions, not {spec.from_count}"
        raise _RefusedError(why)
    return change


def _request_again(change: Change, _command: Command, _cluster: ClusterView, _now_ms: int) -> Change:
    why = f"{change.change_id} is another change already; request this one under an id of its own"
    raise _RefusedError(why)


def _cancel(change: Change, command: Command, cluster: ClusterView, now_ms: int) -> Change:
    if change.state is State.CANCELLED:
        return change
    if change.state is not State.REQUESTED:
        raise _wrong_state(change, _too_late_to_cancel(change))
    if cluster.blind:
        # The topic may have grown already; then nothing would keep producers from its new partitions.
        why = f"the tracker does not see cluster {change.spec.cluster_id} now, so it may have happened"
        raise _RefusedError(f"{why}; ask again later")
    why = f"cancelled by {command.actor}" + (f": {command.reason}" if command.reason else "")
    return to(change, State.CANCELLED, now_ms, detail=why)


def _finish(change: Change, command: Command, _cluster: ClusterView, now_ms: int) -> Change:
    if change.state.final or not change.state.happened:
        raise _wrong_state(change, _too_late_to_cancel(change))
    opened = {"opened_by": command.actor} if change.holds else {}
    return to(change, State.PARTIALLY_CONVERGED, now_ms, detail=f"ended by {command.actor}", **opened)


def _wrong_state(change: Change, cure: str) -> _RefusedError:
    return _RefusedError(f"{change.change_id} is {change.state}; {cure}")


def _too_late_to_cancel(change: Change) -> str:
    if change.state is State.REQUESTED:
        return "the topic has not grown; cancel it without an option"
    if change.state.final:
        return "nothing is left to be done"
    return "the topic has grown, and Kafka can't shrink it: --finish opens its gate and ends the waiting"


_VERBS: Final[Mapping[Verb, _Verb]] = {
    Verb.REQUEST: _request_again,
    Verb.CANCEL: _cancel,
    Verb.FINISH: _finish,
}
