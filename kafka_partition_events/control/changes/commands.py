"""What commands do: a change is requested, cancelled, rolled back or forced; and what approves it. Pure.

A command that comes twice (at one offset) does nothing the second time. One that is refused says why and what
to do, and the refusal is part of the change, so it is never lost.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from attrs import evolve, frozen

from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.changes.transitions import finished, opened, rolling_back
from kafka_partition_events.control.protocol.orders import armed, standing
from kafka_partition_events.control.protocol.records import Approval, Change, Command, Given, Order, Refusal
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import (
    Execute,
    Gate,
    GateRule,
    Kind,
    Reason,
    State,
    Verb,
)
from kafka_partition_events.errors import ConfigurationError

KEPT_REFUSALS: Final = 10

MOST_OPEN: Final = 100
"""How many changes may be open: each costs a look at all instances, each second."""

GROWN: Final = "grown-"
"""What the ids of changes begin with that nobody has asked for."""

RETIRED_AFTER_MS: Final = 30 * 86_400_000
"""For how long a change that is finished is kept."""

REFUSED_AFTER_MS: Final = 3_600_000
"""For how long a request is kept that was refused at once: who asked has read it."""

_WAITING = frozenset({State.REQUESTED, State.APPROVED})
_DONE = frozenset({State.CONVERGED, State.PARTIALLY_CONVERGED})


@frozen
class Answer:
    """What a command led to: the change as it is now (None: there is none), and why nothing was done."""

    change: Change | None
    refusal: Refusal | None = None


def obey(
    given: Given,
    changes: Mapping[str, Change],
    cluster: ClusterView,
    *,
    epoch: int,
    now_ms: int,
    policy: Policy | None = None,
    retired: Collection[str] = (),
) -> Answer:
    """Carry out a command.

    Args:
        given: The command.
        changes: All changes that are known, by id.
        cluster: What is seen of the topic that the command is about, or its change.
        epoch: The tracker's epoch.
        now_ms: The time now by the brokers' clock.
        policy: What is allowed; None: what is by default.
        retired: Ids of changes that are over and forgotten.
    """
    command = given.command
    change = changes.get(command.change_id)
    known = _Known(given, cluster, now_ms)
    if change is None and command.change_id in retired:
        why = f"there was a change {command.change_id} before; request this one under an id of its own"
        return Answer(None, known.refusal(Reason.ID_USED, why))
    if change is None and command.verb is Verb.REQUEST:
        return _requested(known, changes.values(), epoch, policy or Policy())
    if change is None:
        why = f"there is no change {command.change_id}; see kpe change ls --all"
        return Answer(None, known.refusal(Reason.NO_SUCH_CHANGE, why))
    if change.was_given(given) or (command.verb is Verb.REQUEST and command.spec == change.spec):
        return Answer(change)  # it comes again
    change = evolve(
        change,
        revision=change.revision + 1,
        tracker_epoch=epoch,
        obeyed_to=given.offset + 1,
        obeyed_ms=max(given.at_ms, change.obeyed_ms),
    )
    if known.too_late:
        return known.refuses(change, *known.too_late)
    return _VERBS[command.verb](change, known)


def unasked(
    spec: Spec, change_id: str, changes: Collection[Change], *, epoch: int, now_ms: int
) -> Change | None:
    """Return the change to follow when a topic has grown; None if somebody has asked for something there.

    Args:
        spec: What was seen, of the kind ``observe``.
        change_id: An id that any tracker would give it.
        changes: All changes that are known.
        epoch: The tracker's epoch.
        now_ms: The time now by the brokers' clock.
    """
    same = [c for c in changes if c.spec.subject == spec.subject and c.spec.topic_id == spec.topic_id]
    # One that was refused, cancelled or has expired was not about this growth.
    known = any(c.observed_ms is not None and c.spec.to_count == spec.to_count for c in same)
    if known or _open_change(changes, spec) is not None:
        return None
    deadline_ms = now_ms + round(1_000 * spec.deadline_s)
    return evolve(
        _new(change_id, spec, changes, epoch=epoch, at_ms=now_ms),
        state=State.OBSERVED,
        observed_ms=now_ms,
        deadline_ms=deadline_ms,
    )


def inverse(change: Change) -> Spec:
    """Return what to request to undo a change that is finished.

    Raises:
        ConfigurationError: it has come to nothing, or is open; or nobody asked for it, so nobody knows what
            was right before.
    """
    spec = change.spec
    kinds = {
        Kind.INCREASE: Kind.DECREASE,
        Kind.DECREASE: Kind.INCREASE,
        Kind.OFFLINE: Kind.ONLINE,
        Kind.ONLINE: Kind.OFFLINE,
    }
    if spec.kind not in kinds:
        raise ConfigurationError(f"{change.change_id} is not of a kind that can be undone: {spec.kind}")
    if change.state not in _DONE:
        raise ConfigurationError(f"{change.change_id} is {change.state}; {_way_back(change)}")
    kind = kinds[spec.kind]
    return evolve(
        spec,
        kind=kind,
        from_count=spec.to_count,
        to_count=spec.from_count,
        execute=Execute.EXTERNAL,
        gate=GateRule.CONSUMERS_FIRST if kind is Kind.INCREASE else GateRule.NONE,
    )


def may_be_forgotten(change: Change, changes: Collection[Change], now_ms: int) -> bool:
    """Tell whether a tombstone may follow: the change has been over for long, and gives no order."""
    kept_ms = RETIRED_AFTER_MS if change.number else REFUSED_AFTER_MS
    if change.finished_ms is None or now_ms < change.finished_ms + kept_ms:
        return False
    superseded = any(c.spec.subject == change.spec.subject and c.number > change.number for c in changes)
    return superseded or change.order == Order()


def refusal(given: Given, reason: Reason, why: str) -> Refusal:
    """Return that a command is not carried out."""
    verb, actor = given.command.verb, given.command.actor
    return Refusal(verb=verb, actor=actor, offset=given.offset, at_ms=given.at_ms, reason=reason, detail=why)


def approved(change: Change, approvals: Iterable[Approval], *, epoch: int) -> Change:
    """Return a change as the first approval of it makes it that counts; the same one if none does.

    An approval is no command: who may write one is up to Kafka's ACLs on ``kpe.approvals``, and read again it
    says the same again.
    """
    for approval in approvals:
        if not_approved(change, approval) is None:
            change = evolve(change, state=State.APPROVED, approved_by=approval.actor)
            return _armed(evolve(change, revision=change.revision + 1, tracker_epoch=epoch))
    return change


def not_approved(change: Change, approval: Approval) -> str | None:
    """Return why an approval does nothing for a change; None if it counts."""
    if change.state is not State.REQUESTED:
        return f"{change.change_id} is {change.state}; only a requested change is approved"
    if approval.spec != change.spec:
        return f"{change.change_id} is another change than the one that {approval.actor} has seen"
    if change.needs_approval and approval.actor == change.requested_by:
        return f"{approval.actor} has requested {change.change_id}; somebody else must approve"
    return None


# -- requests ----------------------------------------------------------------------------------------------


@frozen
class _Known:
    """A command, and what it is judged by."""

    given: Given
    cluster: ClusterView
    now_ms: int

    @property
    def command(self) -> Command:
        return self.given.command

    @property
    def actor(self) -> str:
        return self.command.actor

    @property
    def too_late(self) -> tuple[Reason, str] | None:
        ttl_s = self.command.ttl_s
        if self.now_ms <= self.given.at_ms + 1_000 * ttl_s:
            return None
        return Reason.COMMAND_EXPIRED, f"nobody took it up within {ttl_s:g} s; ask again"

    def refusal(self, reason: Reason, why: str) -> Refusal:
        return refusal(self.given, reason, why)

    def refuses(self, change: Change, reason: Reason, why: str) -> Answer:
        refusal = self.refusal(reason, why)
        kept = (*change.refusals, refusal)[-KEPT_REFUSALS:]
        return Answer(evolve(change, refusals=kept), refusal)

    def in_wrong_state(self, change: Change, cure: str) -> Answer:
        return self.refuses(change, Reason.WRONG_STATE, f"{change.change_id} is {change.state}; {cure}")


def _requested(known: _Known, changes: Collection[Change], epoch: int, policy: Policy) -> Answer:
    command, spec = known.command, known.command.spec
    if spec is None or spec.kind is Kind.OBSERVE:
        why = "a request needs the change that it is about, of a kind that can be asked for"
        return Answer(None, known.refusal(Reason.WRONG_STATE, why))
    change = evolve(
        _new(command.change_id, spec, changes, epoch=epoch, at_ms=known.given.at_ms),
        requested_by=known.actor,
        why=command.reason,
        needs_approval=policy.needs_approval(spec),
        obeyed_to=known.given.offset + 1,
        obeyed_ms=known.given.at_ms,
    )
    forbidden = policy.forbids(spec) or _too_many(change, changes)
    problem = known.too_late or (forbidden and (Reason.NOT_ALLOWED, forbidden))
    problem = problem or _problem(change, changes, known.cluster)
    if problem is None:
        return Answer(_armed(change))
    refused = evolve(finished(change, State.REJECTED, known.now_ms, *problem), number=0)
    return Answer(refused, known.refusal(*problem))


def _too_many(change: Change, changes: Collection[Change]) -> str | None:
    if change.change_id.startswith(GROWN):
        return f"ids that begin with {GROWN} are the tracker's own"
    still_open = sum(not other.state.final for other in changes)
    return f"{still_open} changes are open; finish some" if still_open >= MOST_OPEN else None


def _new(change_id: str, spec: Spec, changes: Collection[Change], *, epoch: int, at_ms: int) -> Change:
    before = standing(changes, spec)
    return Change(
        change_id=change_id,
        number=1 + max((known.number for known in changes), default=0),
        tracker_epoch=epoch,
        revision=1,
        state=State.REQUESTED,
        spec=spec,
        requested_by="",
        requested_ms=at_ms,
        before=before,
        order=before,
        gate=Gate.HELD if spec.gate is GateRule.CONSUMERS_FIRST else Gate.NONE,
    )


def _armed(change: Change) -> Change:
    """Let producers get ready, unless somebody has to approve first."""
    if not change.released:
        return change
    return evolve(change, order=armed(change.spec, change.before, change.gate))


def _problem(change: Change, changes: Collection[Change], cluster: ClusterView) -> tuple[Reason, str] | None:
    """Compare and set: the change must begin with what there is."""
    spec = change.spec
    # What is only followed stands in nobody's way: a lease that tells of a smaller topic is enough for it.
    asked_for = [change for change in changes if change.spec.kind is not Kind.OBSERVE]
    if (other := _open_change(asked_for, spec)) is not None:
        return (
            Reason.ANOTHER_CHANGE_OPEN,
            f"{other.change_id} is {other.state}; wait for it (kpe change wait), or cancel or roll it back",
        )
    if cluster.blind:
        return Reason.CLUSTER_UNKNOWN, f"nobody sees cluster {spec.cluster_id} now; look after its observers"
    if spec.topic is not None:
        return _topic_problem(change, cluster)
    return (Reason.CONFLICT, f"there is no broker {spec.broker}") if cluster.no_such_broker else None


def _topic_problem(change: Change, cluster: ClusterView) -> tuple[Reason, str] | None:
    spec, count = change.spec, cluster.count
    if count is None:
        return Reason.TOPIC_UNKNOWN, f"there is no topic {spec.topic}"
    if spec.topic_id is not None and cluster.topic_id not in {None, spec.topic_id}:
        return (
            Reason.TOPIC_ID_CHANGED,
            f"topic {spec.topic} has the id {cluster.topic_id}, not {spec.topic_id}",
        )
    used = min(count, change.before.limit or count)
    if spec.kind in {Kind.OFFLINE, Kind.ONLINE}:
        if (last := max(spec.partitions)) >= count:
            return Reason.CONFLICT, f"topic {spec.topic} has no partition {last}"
    elif used != spec.from_count:
        return Reason.CONFLICT, f"{used} partitions of topic {spec.topic} are used, not {spec.from_count}"
    return _nowhere_to_go(change, used)


def _nowhere_to_go(change: Change, used: int) -> tuple[Reason, str] | None:
    """Producers that may use no partition at all would have to disobey."""
    spec, left = change.spec, change.before.offline
    if spec.kind is Kind.OFFLINE and left | spec.partitions >= set(range(used)):
        return Reason.CONFLICT, f"no partition of topic {spec.topic} would be left to producers; leave fewer"
    if spec.kind is Kind.DECREASE and left >= set(range(spec.to_count)):
        first = f"the first {spec.to_count} partitions of topic {spec.topic}"
        return Reason.CONFLICT, f"{first} are offline by an earlier change; request --online for one of them"
    return None


def _open_change(changes: Collection[Change], spec: Spec) -> Change | None:
    for change in changes:
        if change.spec.subject == spec.subject and not change.state.final:
            return change
    return None


# -- the other commands ------------------------------------------------------------------------------------


def _request_again(change: Change, known: _Known) -> Answer:
    why = f"{change.change_id} is another change already; request this one under an id of its own"
    return known.refuses(change, Reason.ANOTHER_SPEC, why)


def _cancel(change: Change, known: _Known) -> Answer:
    if change.state is State.CANCELLED:
        return Answer(change)
    if change.state not in _WAITING:
        return known.in_wrong_state(change, _way_back(change))
    if change.spec.kind is Kind.INCREASE and known.cluster.blind:
        # The topic may have grown already; then nothing would keep producers from its new partitions.
        why = f"nobody sees cluster {change.spec.cluster_id} now, so it may have happened; ask again later"
        return known.refuses(change, Reason.CLUSTER_UNKNOWN, why)
    return Answer(finished(change, State.CANCELLED, known.now_ms, why=f"cancelled by {known.actor}"))


def _rollback(change: Change, known: _Known) -> Answer:
    if change.state in {State.ROLLING_BACK, State.ROLLED_BACK}:
        return Answer(change)
    if change.state in _WAITING:
        return known.in_wrong_state(change, f"it has not happened: {_way_back(change)}")
    if change.state.final:
        return known.in_wrong_state(change, _way_back(change))
    if change.spec.kind is Kind.OBSERVE:
        return known.in_wrong_state(change, "nobody asked for it: request partitions.decrease")
    return Answer(rolling_back(change, State.ROLLED_BACK, why=f"rolled back by {known.actor}"))


def _open_gate(change: Change, known: _Known) -> Answer:
    if (refused := _nothing_to_force(change, known)) is not None:
        return refused
    if change.gate is not Gate.HELD or change.state is State.ROLLING_BACK:
        return known.in_wrong_state(change, "its gate is not held; to end it: kpe change force --finish")
    return Answer(evolve(opened(change, known.actor, known.cluster), state=State.CONVERGING))


def _finish(change: Change, known: _Known) -> Answer:
    if (refused := _nothing_to_force(change, known)) is not None:
        return refused
    if change.state is State.ROLLING_BACK:
        return Answer(finished(change, change.becomes or State.ROLLED_BACK, known.now_ms))
    if change.gate is Gate.HELD:
        return known.in_wrong_state(change, "its gate is held; open it first: kpe change force --open-gate")
    why = f"ended by {known.actor}"
    return Answer(finished(change, State.PARTIALLY_CONVERGED, known.now_ms, why=why))


def _nothing_to_force(change: Change, known: _Known) -> Answer | None:
    if change.state in _WAITING:
        return known.in_wrong_state(change, f"it has not happened: wait, or {_way_back(change)}")
    if change.state.final:
        return known.in_wrong_state(change, "nobody is waited for any more")
    return None


def _way_back(change: Change) -> str:
    """Return how to undo a change that is as it is, or that there is nothing to undo."""
    if change.state in _WAITING:
        return "cancel it (kpe change cancel)"
    if not change.state.final:
        return "roll it back (kpe change rollback)"
    if change.state in _DONE:
        return f"request its inverse (kpe change request --inverse-of {change.change_id})"
    return "there is nothing to undo"


_VERBS: Final[Mapping[Verb, Callable[[Change, _Known], Answer]]] = {
    Verb.REQUEST: _request_again,
    Verb.CANCEL: _cancel,
    Verb.ROLLBACK: _rollback,
    Verb.OPEN_GATE: _open_gate,
    Verb.FINISH: _finish,
}


def reply_to(given: Given, change: Change | None) -> Answer | None:
    """Return what became of a command; None as long as nobody has taken it up.

    Args:
        given: The command, as it was appended.
        change: The change that it is about, as last read; None: there is none (yet).
    """
    if change is None:
        return None
    command, refusals = given.command, change.refusals
    for refused in refusals:
        if (refused.verb, refused.offset, refused.at_ms) == (command.verb, given.offset, given.at_ms):
            return Answer(change, refused)
    if command.verb is Verb.REQUEST:
        return _reply_to_request(given, change)
    # That it was refused may have been pushed out by later ones.
    unknown = len(refusals) == KEPT_REFUSALS and given.offset < refusals[0].offset
    return Answer(change) if change.was_given(given) and not unknown else None


def _reply_to_request(given: Given, change: Change) -> Answer | None:
    if given.command.spec != change.spec:
        return None  # the id is taken; the refusal is still to come
    if change.number or change.reason is None:
        return Answer(change)
    return Answer(change, refusal(given, change.reason, change.detail))
