"""The states of a change, as a table; a change takes the first step of it that applies. Pure.

What commands bring about is in the same table: `commands` takes those steps. Nothing leaves a final state.
The page on change control shows it; a test compares the two.
"""

from collections.abc import Callable
from typing import Any, Final

from attrs import evolve, frozen

from kafka_partition_events.control.changes.evidence import ClusterView, Evidence, evidence
from kafka_partition_events.control.protocol.bounds import MOST_TEXT
from kafka_partition_events.control.protocol.ledger import Leases
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.spec import EXPIRES_S
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.legible import legible


@frozen
class Case:
    """A change, and what is known of it at a moment."""

    change: Change
    known: Evidence
    cluster: ClusterView
    now_ms: int

    @property
    def overdue(self) -> bool:
        """Whether its deadline has passed."""
        return self.change.deadline_ms is not None and self.now_ms >= self.change.deadline_ms

    @property
    def complete(self) -> bool:
        """Whether all that are waited for have followed, as far as each can afford."""
        return self.known.totals.live > 0 and self.known.followed and self.known.positioned


@frozen
class Step:
    """One arrow: from any of these states, to that one, if it applies; ``fields`` are what else changes."""

    sources: tuple[State, ...]
    target: State
    when: str
    applies: Callable[[Case], bool] | None
    """None: a command brings it about."""
    fields: Callable[[Case], dict[str, Any]] = lambda _case: {}


_AT_WORK: Final = (State.CONVERGING, State.OVERDUE)
_GROWN: Final = (State.GATED, *_AT_WORK)


def _is_another(case: Case) -> bool:
    ids = {case.change.spec.topic_id, case.cluster.topic_id}
    return not case.cluster.blind and (case.cluster.count is None or (None not in ids and len(ids) > 1))


def _another(case: Case) -> dict[str, Any]:
    topic = case.change.spec.topic
    if case.cluster.count is None:
        return {"detail": f"topic {topic} is gone"}
    return {"detail": f"topic {topic} was recreated, with the id {case.cluster.topic_id}"}


def _has_grown(case: Case) -> bool:
    return not case.cluster.blind and case.cluster.count == case.change.spec.to_count


def _has_another_count(case: Case) -> bool:
    spec = case.change.spec
    return not case.cluster.blind and case.cluster.count not in {spec.from_count, spec.to_count}


def _another_count(case: Case) -> dict[str, Any]:
    spec = case.change.spec
    wanted = f"neither {spec.from_count} nor {spec.to_count}"
    why = f"topic {spec.topic} has {case.cluster.count} partitions, {wanted}"
    return {"detail": "; ".join(filter(None, [why, case.change.detail]))}


def _grown(case: Case) -> dict[str, Any]:
    return {"observed_ms": case.now_ms, "detail": ""}


TABLE: Final = (
    Step(
        (State.REQUESTED, *_GROWN),
        State.REJECTED,
        "the topic is gone, or another one",
        _is_another,
        _another,
    ),
    Step(
        (State.REQUESTED,),
        State.GATED,
        "the topic has grown, and producers wait for consumers",
        lambda case: _has_grown(case) and case.change.holds,
        _grown,
    ),
    Step((State.REQUESTED,), State.CONVERGING, "the topic has grown, without a gate", _has_grown, _grown),
    Step(
        (State.REQUESTED,),
        State.REJECTED,
        "the topic has another number of partitions",
        _has_another_count,
        _another_count,
    ),
    Step(
        (State.REQUESTED,),
        State.EXPIRED,
        "an hour has passed",
        lambda case: (
            not case.cluster.blind and case.now_ms >= case.change.requested_ms + 1_000 * EXPIRES_S
        ),
    ),
    Step((State.REQUESTED,), State.CANCELLED, "`kpe change cancel`", None),
    Step(
        (State.GATED,),
        State.CONVERGING,
        "every group has a position: the gate opens",
        lambda case: case.known.positioned,
        lambda _case: {"opened_by": "evidence"},
    ),
    Step(
        (State.GATED,),
        State.CONVERGING,
        "the deadline has passed: the gate opens",
        lambda case: case.overdue,
        lambda _case: {"opened_by": "deadline"},
    ),
    Step(
        _AT_WORK,
        State.CONVERGED,
        "all live producers use all partitions, and every group has a position on them",
        lambda case: case.complete and not case.known.totals.capped,
    ),
    Step(
        _AT_WORK,
        State.PARTIALLY_CONVERGED,
        "the same, but some producers can't afford all partitions",
        lambda case: case.complete,
    ),
    Step(
        _AT_WORK,
        State.PARTIALLY_CONVERGED,
        "the deadline has passed, and no live producer is waited for",
        lambda case: case.overdue and case.known.followed,
    ),
    Step(
        (State.CONVERGING,),
        State.OVERDUE,
        "the deadline has passed, and a live producer has not followed",
        lambda case: case.overdue,
    ),
    Step((State.OVERDUE,), State.PARTIALLY_CONVERGED, "`kpe change cancel`", None),
)  # fmt: skip


def step(change: Change, leases: Leases, cluster: ClusterView, *, epoch: int, now_ms: int) -> Change:
    """Return the change one step later, or with newer totals; the same object if nothing differs.

    Call it until it returns what it was given: each step is worth a record of its own.

    The time must not go back.
    """
    if change.state.final:
        return change
    known = evidence(change, leases, cluster, now_ms)
    case = Case(change, known, cluster, now_ms)
    after = evolve(change, totals=known.totals, groups=known.groups, unverified=known.unverified)
    for row in TABLE:
        if row.applies is not None and change.state in row.sources and row.applies(case):
            after = to(after, row.target, now_ms, **row.fields(case))
            break
    if after == change:
        return change
    return evolve(after, revision=change.revision + 1, tracker_epoch=epoch)


def to(change: Change, state: State, now_ms: int, **fields: Any) -> Change:
    """Return the change in another state."""
    if "detail" in fields:
        fields["detail"] = legible(fields["detail"], MOST_TEXT)
    if state.final:
        fields["finished_ms"] = now_ms
    return evolve(change, state=state, **fields)


def is_due(change: Change, leases: Leases, cluster: ClusterView, now_ms: int) -> bool:
    """Return whether the tracker shall create the partitions now.

    That is when the topic can be seen and is as it was; with a gate, when all live producers are known to
    hold it, and it is known which groups to wait for: one that leaves during the growth is waited for, too.
    """
    spec = change.spec
    if not spec.execute or change.state is not State.REQUESTED:
        return False
    known = evidence(change, leases, cluster, now_ms)
    if cluster.blind or cluster.count != spec.from_count or _is_another(Case(change, known, cluster, now_ms)):
        return False
    return not spec.gate or (not known.unarmed and known.readers_known)
