"""The producers that a change concerns, and how far each of them is. Pure but for what a `Census` remembers.

A tracker looks at all of them once a second, for each open change, and in that second one in thirty says
anything. So a `Census` keeps what it has found out of each, and until when that holds.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from attrs import Factory, define, field, frozen

from kafka_partition_events.control.protocol.ledger import Appended, Tenancy
from kafka_partition_events.control.protocol.records import Ack, Change, Lease, TopicUse
from kafka_partition_events.control.protocol.vocabulary import Gate, LeaseState, Role, State, Status

FOLLOWED: Final = frozenset({Status.APPLIED, Status.CAPPED})
DONE: Final = {State.ROLLING_BACK: {Status.ROLLED_BACK}, State.ROLLED_BACK: {Status.ROLLED_BACK}}
"""Where following is something else than `FOLLOWED`."""
BACK: Final = frozenset({State.ROLLING_BACK, State.ROLLED_BACK})
_SETTLED: Final = {*FOLLOWED, Status.REJECTED, Status.FAILED, Status.ROLLED_BACK}


@frozen(kw_only=True)
class Follower:
    """A producer that the change concerns.

    Attributes:
        instance_id: Who.
        status: What it says or its lease shows; None: nothing yet.
        reason: Why, where it says so.
        departed: Whether it has stopped, or is lost for longer than a grace of one time to live.
        late: Whether it came after the change had happened.
        duplicate: Whether two processes use its id.
        armed: Whether it has written to no partition that is new, and holds the gate.
    """

    instance_id: str
    status: Status | None
    reason: str = ""
    armed: bool = False
    departed: bool = False
    late: bool = False
    duplicate: bool = False


class Says(NamedTuple):
    """What is counted of a `Follower`."""

    status: Status | None
    departed: bool
    late: bool
    duplicate: bool


@frozen
class _Seen:
    """What was found out of an instance, from what, and until when it holds.

    Attributes:
        tenancy: Its leases.
        ack: Its answer.
        until_ms: Until when it is so, if it says nothing new.
        follower: It as a producer that the change concerns; None: it does not.
        writes: Whether brokers may know it as a writer, as it is idempotent and has a lease.
        silent: Whether it is a producer that does not list all of its topics, and not the one in question.
    """

    tenancy: Tenancy
    ack: Appended[Ack] | None
    until_ms: float
    follower: Follower | None
    writes: bool
    silent: bool


@define
class Census:
    """The producers that one change concerns, counted. Not thread-safe.

    Attributes:
        says: How many say what.
        unarmed: Those that are there and not known to hold the gate.
        rejecting: Those that are there and refuse the change.
        writing: How many writers have a lease.
        silent: How many producers do not list all of their topics, and not the one in question.
    """

    says: Counter[Says] = field(factory=Counter)
    unarmed: set[str] = field(factory=set)
    rejecting: set[str] = field(factory=set)
    writing: int = 0
    silent: int = 0
    _seen: dict[str, _Seen] = field(factory=dict)
    _of: object = None
    _at_ms: int = 0

    def look(
        self,
        change: Change,
        tenancies: Mapping[str, Tenancy],
        acks: Mapping[str, Appended[Ack]],
        now_ms: int,
    ) -> None:
        """Count as it is at a moment, anew only what has changed since the last look."""
        spec, gate = change.spec, change.gate
        moments = change.requested_ms, change.observed_ms
        of = change.change_id, spec, change.before, change.state, gate, moments
        if of != self._of or now_ms < self._at_ms:
            self._forget()
        self._of, self._at_ms = of, now_ms
        seen = self._seen
        for name, tenancy in tenancies.items():
            known, ack = seen.get(name), acks.get(name)
            if known and known.tenancy is tenancy and known.ack is ack and now_ms <= known.until_ms:
                continue
            if known:
                self._count(name, known, -1)
            seen[name] = found = _see(change, tenancy, ack, now_ms)
            self._count(name, found, 1)
        if len(seen) > len(tenancies):
            for name in seen.keys() - tenancies.keys():
                self._count(name, seen.pop(name), -1)

    def _forget(self) -> None:
        for kept in (self.says, self.unarmed, self.rejecting, self._seen):
            kept.clear()
        self.writing = self.silent = 0

    def _count(self, name: str, seen: _Seen, by: int) -> None:
        self.writing += by * seen.writes
        self.silent += by * seen.silent
        found = seen.follower
        if found is None:
            return
        self.says[Says(found.status, found.departed, found.late, found.duplicate)] += by
        if not found.departed and not found.armed:
            _mark(self.unarmed, name, by)
        if not found.departed and found.status is Status.REJECTED:
            _mark(self.rejecting, name, by)


def _mark(names: set[str], name: str, by: int) -> None:
    if by > 0:
        names.add(name)
    else:
        names.discard(name)


@frozen(kw_only=True)
class Fleet:
    """What the logs of leases and of acks to one change tell.

    Attributes:
        tenancies: Who uses which instance id.
        acks: The last answer of each instance.
        groups: What was seen of each group from outside. A tracker knows that by itself; for whoever reads
            only the topics it is what they say.
        leases_read: The offset of the first lease that is not in it, by partition; None: not known.
        acks_read: The same of acks.
        census: Knows the producers already, if one of the same change is given again with what is new; it
            saves time, and makes no difference.
    """

    tenancies: Mapping[str, Tenancy] = field(factory=dict)
    acks: Mapping[str, Appended[Ack]] = field(factory=dict)
    groups: Mapping[str | None, Ack] = field(
        default=Factory(lambda fleet: _of_groups(fleet.acks), takes_self=True)
    )
    leases_read: tuple[int, ...] | None = None
    acks_read: tuple[int, ...] | None = None
    census: Census = field(factory=Census, eq=False, repr=False)


def _of_groups(acks: Mapping[str, Appended[Ack]]) -> dict[str | None, Ack]:
    return {ack.record.group: ack.record for ack in acks.values() if ack.record.role is Role.PROBER}


def followers(change: Change, fleet: Fleet, now_ms: int) -> list[Follower]:
    """Return the producers that a change concerns, by instance id; not those that were gone before it."""
    known = (
        _see(change, fleet.tenancies[name], fleet.acks.get(name), now_ms) for name in sorted(fleet.tenancies)
    )
    return [seen.follower for seen in known if seen.follower is not None]


def _see(change: Change, tenancy: Tenancy, ack: Appended[Ack] | None, now_ms: int) -> _Seen:
    lease = tenancy.holder.record
    concerned = _concerns(change, lease)
    follows = concerned and not _was_gone(tenancy, change)
    moments = (_expires_ms(tenancy), _departs_ms(tenancy), _rivalry_ends_ms(tenancy))
    return _Seen(
        tenancy=tenancy,
        ack=ack,
        until_ms=min((at_ms for at_ms in moments if now_ms <= at_ms), default=math.inf),
        follower=_follower(change, tenancy, ack, now_ms) if follows else None,
        writes=concerned
        and lease.idempotent
        and lease.state is LeaseState.UP
        and now_ms <= _expires_ms(tenancy),
        silent=not concerned and lease.role is Role.PRODUCER and lease.topics_left_out > 0,
    )


def _expires_ms(tenancy: Tenancy) -> float:
    return tenancy.holder.at_ms + 1_000 * tenancy.holder.record.ttl_s


def _departs_ms(tenancy: Tenancy) -> float:
    return tenancy.holder.at_ms + 2_000 * tenancy.holder.record.ttl_s


def _rivalry_ends_ms(tenancy: Tenancy) -> float:
    return 0.0 if tenancy.rival is None else tenancy.rival.at_ms + 1_000 * tenancy.holder.record.ttl_s


def _was_gone(tenancy: Tenancy, change: Change) -> bool:
    """Tell whether an instance had departed when the change was requested, and was not heard of since.

    Where each process has a name of its own, many are of the last two days: all that were deployed anew.
    """
    asked_ms = change.requested_ms
    return tenancy.holder.at_ms < asked_ms and has_departed(tenancy, asked_ms)


def _concerns(change: Change, lease: Lease) -> bool:
    spec = change.spec
    if lease.role is not Role.PRODUCER or lease.cluster_id not in {None, spec.cluster_id}:
        return False
    return spec.topic is None or lease.use_of(spec.topic, spec.topic_id) is not None


def _follower(change: Change, tenancy: Tenancy, appended: Appended[Ack] | None, now_ms: int) -> Follower:
    holder, lease = tenancy.holder, tenancy.holder.record
    # What another process under the same name has said does not hold for this one.
    ack = appended.record if appended and appended.record.incarnation == lease.incarnation else None
    rival = tenancy.rival
    # One that was there and has restarted under its name is still to be waited for.
    born_ms = holder.born_ms if rival is None else min(holder.born_ms, rival.born_ms)
    use = lease.use_of(change.spec.topic, change.spec.topic_id)
    return Follower(
        instance_id=lease.instance_id,
        status=_status(change, use, ack),
        reason=ack.reason if ack else "",
        armed=_is_armed(change, use, ack),
        departed=has_departed(tenancy, now_ms),
        late=change.observed_ms is not None and born_ms > change.observed_ms,
        duplicate=rival is not None
        and rival.record.state is LeaseState.UP
        and rival.at_ms > holder.born_ms + 1_000 * lease.ttl_s
        and now_ms <= _rivalry_ends_ms(tenancy),
    )


def has_departed(tenancy: Tenancy, now_ms: int) -> bool:
    """Tell whether an instance has stopped, or is lost and a grace of one time to live has passed, too."""
    return tenancy.holder.record.state is LeaseState.DOWN or now_ms > _departs_ms(tenancy)


def _status(change: Change, use: TopicUse | None, ack: Ack | None) -> Status | None:
    """Return what an instance says; where that is nothing final, what its lease shows."""
    said = ack.status if ack else None
    done = DONE.get(change.state, FOLLOWED)
    if said in done or said in {Status.REJECTED, Status.FAILED}:
        return said
    shown = None if use is None else _shown(change, use)
    if shown is not None:
        return shown
    return None if said in _SETTLED else said  # what it said before it was to roll back


def _is_armed(change: Change, use: TopicUse | None, ack: Ack | None) -> bool:
    """Tell whether an instance is known to have written to no partition that is new, and to hold the gate.

    That it holds the gate when the tracker hears of growth does not prove it: metadata may have told the
    instance of the new partitions before ``kpe.changes`` told it to leave them alone. So it says how many it
    saw when it began. A limit from before the change has kept it from them all the time.
    """
    limit = change.before.limit
    if limit is not None and use is not None and use.used <= limit:
        return True
    if ack is None or ack.status is not Status.HELD or ack.armed_count is None:
        return False
    return limit is not None or ack.armed_count < change.spec.to_count


def _shown(change: Change, use: TopicUse) -> Status | None:
    """Return what a lease proves: that growth has arrived, and nothing else.

    It tells how many partitions are used, but not which ones, nor by which order.
    """
    spec = change.spec
    grows = spec.kind.grows and change.state not in BACK
    if not grows or use.seen < spec.to_count:
        return None
    if use.used >= spec.to_count:
        return Status.APPLIED
    # With a gate it may just not have heard that the gate is open; then it has to say that it is capped.
    return Status.CAPPED if change.gate is Gate.NONE and change.state.happened else None
