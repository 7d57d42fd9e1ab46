"""What a tracker decides in one round, from what it has read and what it sees. No I/O, no clock.

A command or a change that can't be dealt with, by a fault here, is refused or left as it is, alone.

The tracker around it reads the control topics, looks at the cluster, calls `Rounds.decide`, writes what that
returns in one transaction and then says so: `Rounds.wrote`. What was not written has not happened.
"""

import contextlib
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import define, evolve, field, frozen

from kafka_partition_events.control.changes.commands import (
    GROWN,
    approved,
    may_be_forgotten,
    obey,
    refusal,
    unasked,
)
from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.followers import Census, Fleet, has_departed
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.changes.transitions import finished, is_due, step
from kafka_partition_events.control.groups.outside_view import Probe
from kafka_partition_events.control.protocol.bounds import MOST_IDS
from kafka_partition_events.control.protocol.codec import RecordError, encode
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.legible import legible
from kafka_partition_events.control.protocol.records import Ack, Change, Given, Lease, Refusal
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Execute, Kind, Reason, Role, State
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo

TOTALS_MS: Final = 5_000
"""How long after a record of a change the next one comes that differs only in how far instances are."""

LOST_AFTER_MS: Final = 2 * 86_400_000
"""After how long a lease is forgotten, as ``kpe.leases`` forgets it."""

CLOCKS_MAY_DIFFER_S: Final = 30.0
"""By how much the clocks of brokers may differ: leases last 90 s, and are stamped by whoever leads them."""

MOST_REFUSED: Final = 100
"""How many requests that were refused at once are kept; each process with the library reads them all."""

ANSWER_READ_MS: Final = 60_000
"""After how long whoever has asked has read the answer."""

MOST_FOLLOWED: Final = 20
"""How many growths are followed at a time that nobody has announced; each costs every instance an answer."""

_MOST_TOLD: Final = 1_000

_Topic = tuple[str, str | None]


@frozen(kw_only=True)
class Sight:
    """What the tracker sees now.

    Attributes:
        cluster: The cluster's metadata; None: it can't be seen.
        probe: What the prober has shown last.
        leases_read: The offset of the first lease that is not in the ledger, by partition; None: not known.
        acks_read: The same of acks.
        clocks_differ_s: By how many seconds the clocks of brokers differ.
    """

    cluster: Cluster | None
    probe: Probe = field(factory=Probe)
    leases_read: tuple[int, ...] | None = None
    acks_read: tuple[int, ...] | None = None
    clocks_differ_s: float = 0.0

    def of(self, spec: Spec, change_id: str = "") -> ClusterView:
        """Return what is seen of a change's topic; blind if that is on a cluster that nobody looks at."""
        cluster = self.cluster
        if cluster is None or cluster.cluster_id != spec.cluster_id:
            return ClusterView(blind=True)
        if spec.topic is None:
            replicas = (p.replicas for info in cluster.by_topic.values() for p in info.partitions)
            return ClusterView(no_such_broker=spec.broker not in frozenset(cluster.nodes).union(*replicas))
        info = cluster.by_topic.get(spec.topic)
        return ClusterView(
            count=None if info is None else len(info.partitions),
            topic_id=None if info is None else info.topic_id,
            readers=self.probe.readers.get(spec.topic),
            readers_are_old=change_id not in self.probe.after,
            unseen_groups=self.probe.unseen,
            writers=self.probe.writers.get(spec.topic),
        )


@frozen(kw_only=True)
class Outcome:
    """What a round has led to.

    Attributes:
        at_ms: When, by the brokers' clock.
        changes: Records to write, in this order.
        moved: Those of them by which a change came to be, or to another state.
        retired: Changes that get a tombstone.
        refusals: Commands that were refused. They are in the changes, too, if they were about one.
        due: Changes whose partitions are to be created, once the rest is written.
        faults: What could not be dealt with, and why, by the id of the change.
    """

    at_ms: int
    changes: tuple[Change, ...] = ()
    moved: tuple[Change, ...] = ()
    retired: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    due: tuple[Change, ...] = ()
    faults: Mapping[str, str] = field(factory=dict)


@define
class Rounds:
    """The rounds of one tracker. Not thread-safe.

    Attributes:
        ledger: What was read of the control topics.
        epoch: The tracker's epoch.
        policy: What is allowed.
    """

    ledger: Ledger
    epoch: int
    policy: Policy = field(factory=Policy)
    _written_ms: dict[str, int] = field(factory=dict)
    _counts: dict[_Topic, int] = field(factory=dict)
    _groups: dict[str, dict[str | None, Ack]] = field(factory=dict)
    _censuses: defaultdict[str, Census] = field(factory=lambda: defaultdict(Census))

    def decide(
        self,
        commands: Iterable[Given],
        sight: Sight,
        now_ms: int,
        troubles: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Return what is to be written and done now.

        Args:
            commands: Those that were not carried out yet.
            sight: What is seen.
            now_ms: The time now by the brokers' clock.
            troubles: Why the tracker could not create partitions, by change.
        """
        # Before anything is counted: then it is counted from leases of a time that whoever audits knows.
        self.ledger.drop_lost(now_ms - LOST_AFTER_MS)
        self.ledger.drop_strays()
        desk = _Desk({**self.ledger.changes}, self.epoch, now_ms)
        for given in commands:
            # First what has happened: once the topic has grown, a cancel must not let go of the gate.
            known = desk.changes.get(given.command.change_id)
            if known is not None:
                self._goes_on(desk, known, sight, troubles or {})
            self._obey(desk, given, sight)
        self._follow_what_nobody_asked_for(desk, sight)
        due = [c for c in desk.known if self._goes_on(desk, c, sight, troubles or {})]
        return Outcome(
            at_ms=now_ms,
            changes=tuple(desk.written),
            moved=tuple(desk.moved),
            retired=tuple(_forgettable(desk.known, now_ms)),
            refusals=tuple(desk.refusals),
            due=tuple(desk.changes[change.change_id] for change in due),
            faults=desk.faults,
        )

    def wrote(self, outcome: Outcome, seen: Iterable[Ack] = ()) -> None:
        """Take note that an outcome was written, with what was seen of groups from outside.

        The latter counts as it was seen, and not as the topic has it: others may write there.
        """
        for change in outcome.changes:
            self.ledger.take_change(change)
            self._written_ms[change.change_id] = outcome.at_ms
        for change in outcome.retired:
            self.ledger.take_tombstone(change.change_id)
            self._written_ms.pop(change.change_id, None)
        self.ledger.drop_finished()
        for ack in seen:
            self._groups.setdefault(ack.change_id, {})[ack.group] = ack
        still_open = {change.change_id for change in self.open_changes}
        for memory in (self._censuses, self._groups):
            for change_id in memory.keys() - still_open:
                del memory[change_id]

    @property
    def open_changes(self) -> list[Change]:
        """The changes that are not finished."""
        return [change for change in self.ledger.changes.values() if not change.state.final]

    # -- changes that are open -----------------------------------------------------------------------

    def _obey(self, desk: "_Desk", given: Given, sight: Sight) -> None:
        id_ = given.command.change_id
        known = desk.changes.get(id_)
        spec = given.command.spec if known is None else known.spec
        try:
            told = obey(
                given,
                desk.changes,
                ClusterView(blind=True) if spec is None else sight.of(spec),
                epoch=self.epoch,
                now_ms=desk.now_ms,
                policy=self.policy,
                retired=self.ledger.retired,
            )
            if told.change is not None and told.change != known:
                desk.write(told.change)
        except Exception as error:  # noqa: BLE001 - one command must not keep all others from being carried out
            desk.faults[id_] = repr(error)
            desk.refusals.append(refusal(given, Reason.FAULT, _in_words(error)))
        else:
            desk.refusals += () if told.refusal is None else (told.refusal,)

    def _goes_on(self, desk: "_Desk", change: Change, sight: Sight, troubles: Mapping[str, str]) -> bool:
        """Let a change take its next steps; tell whether its partitions are to be created.

        One that can't is rejected if it is seen not to have happened. Else it stays as it is: who holds a
        gate goes on holding it.
        """
        if change.state.final:
            return False
        try:
            return self._step(desk, change, sight, troubles)
        except Exception as error:  # noqa: BLE001 - one change must not keep all others from going on
            desk.faults[change.change_id] = repr(error)
            change = desk.changes[change.change_id]  # it may have taken a step before
            view = sight.of(change.spec)
            grows = change.spec.kind is Kind.INCREASE
            as_it_was = not view.blind and (not grows or view.count == change.spec.from_count)
            if as_it_was and not change.state.happened:
                refused = finished(change, State.REJECTED, desk.now_ms, Reason.FAULT, _in_words(error))
                with contextlib.suppress(RecordError):
                    desk.write(evolve(refused, revision=change.revision + 1, tracker_epoch=self.epoch))
            return False

    def _step(self, desk: "_Desk", change: Change, sight: Sight, troubles: Mapping[str, str]) -> bool:
        view = sight.of(change.spec, change.change_id)
        fleet = Fleet(
            tenancies=self.ledger.tenancies,
            acks=self.ledger.acks.get(change.change_id, {}),
            groups=self._groups.get(change.change_id, {}),
            leases_read=sight.leases_read,
            acks_read=sight.acks_read,
            census=self._censuses[change.change_id],
        )
        if change.spec.execute is Execute.TRACKER and not change.state.happened:
            trouble = legible(_doubt(sight) or troubles.get(change.change_id, ""), _MOST_TOLD)
            if trouble != change.detail:
                change = evolve(
                    change, detail=trouble, revision=change.revision + 1, tracker_epoch=self.epoch
                )
                desk.write(change)
        change = self._steps(desk, change, fleet, view)
        # After what has happened: what has grown already is approved by nobody any more.
        allowed = approved(change, self.ledger.approvals.get(change.change_id, ()), epoch=self.epoch)
        if allowed is not change:
            desk.write(allowed)
            change = self._steps(desk, allowed, fleet, view)
        return not _doubt(sight) and is_due(change, fleet, view, desk.now_ms)

    def _steps(self, desk: "_Desk", change: Change, fleet: Fleet, view: ClusterView) -> Change:
        while (after := step(change, fleet, view, epoch=self.epoch, now_ms=desk.now_ms)) is not change:
            written_ms = self._written_ms.get(change.change_id)
            soon = written_ms is not None and desk.now_ms < written_ms + TOTALS_MS
            if soon and _only_totals_differ(change, after):
                break
            desk.write(after)
            change = after
        return change

    # -- growth that nobody has announced ------------------------------------------------------------

    def _follow_what_nobody_asked_for(self, desk: "_Desk", sight: Sight) -> None:
        """Follow the growth of topics that instances write to.

        How large a topic was is what was seen before, or what an instance still sees: so a tracker that takes
        over notices growth that happened while there was none.
        """
        cluster = sight.cluster
        if cluster is None or cluster.cluster_id is None:
            return
        leases = self._leases(cluster.cluster_id, desk.now_ms)
        for topic, least in _least_seen(leases, cluster).items():
            info = cluster.by_topic[topic]
            key, count = (topic, info.topic_id), len(info.partitions)
            before = min(least, self._counts.setdefault(key, count))
            if before < count and not self._is_followed(desk, cluster.cluster_id, info, before):
                continue
            self._counts[key] = count

    def _is_followed(self, desk: "_Desk", cluster_id: str, info: TopicInfo, before: int) -> bool:
        """Follow growth, unless it is or was followed; tell whether that is settled."""
        count = len(info.partitions)
        spec = Spec(
            kind=Kind.OBSERVE,
            cluster_id=cluster_id,
            topic=info.name,
            topic_id=info.topic_id,
            from_count=max(before, count - MOST_IDS),
            to_count=count,
        )
        change_id = unasked_id(spec)
        followed = sum(c.spec.kind is Kind.OBSERVE and not c.state.final for c in desk.known)
        if change_id in self.ledger.retired or change_id in desk.changes or followed >= MOST_FOLLOWED:
            return True
        change = unasked(spec, change_id, desk.known, epoch=self.epoch, now_ms=desk.now_ms)
        if change is not None:
            desk.write(change)
            return True
        return all(c.state.final for c in desk.known if c.spec.subject == spec.subject)

    def _leases(self, cluster_id: str, now_ms: int) -> Iterator[Lease]:
        for tenancy in self.ledger.tenancies.values():
            lease = tenancy.holder.record
            concerned = lease.role is Role.PRODUCER and lease.cluster_id == cluster_id
            if concerned and not has_departed(tenancy, now_ms):
                yield lease


@define
class _Desk:
    """Where a round's changes lie until they are written."""

    changes: dict[str, Change]
    epoch: int
    now_ms: int
    written: list[Change] = field(factory=list)
    moved: list[Change] = field(factory=list)
    refusals: list[Refusal] = field(factory=list)
    faults: dict[str, str] = field(factory=dict)

    @property
    def known(self) -> Sequence[Change]:
        return list(self.changes.values())

    def write(self, change: Change) -> None:
        encode(change)  # what nobody could read is a fault of this change, and of no other
        before = self.changes.get(change.change_id)
        if before is None or before.state is not change.state:
            self.moved.append(change)
        self.changes[change.change_id] = change
        self.written.append(change)


def unasked_id(spec: Spec) -> str:
    """Return the id of a change that nobody asked for; any tracker gives the same one."""
    what = f"{spec.cluster_id}\0{spec.topic}\0{spec.topic_id}\0{spec.to_count}"
    return f"{GROWN}{hashlib.blake2b(what.encode(), digest_size=10).hexdigest()}"


def _least_seen(leases: Iterable[Lease], cluster: Cluster) -> dict[str, int]:
    """Return how many partitions instances see of the topics that they use, at the least."""
    least: dict[str, int] = {}
    for lease in leases:
        for use in lease.view:
            known = least.get(use.topic)
            if known is not None and known <= use.seen:
                continue  # that is nearly all of them
            info = cluster.by_topic.get(use.topic)
            if info is not None and not info.internal and use.seen and use.topic_id in {None, info.topic_id}:
                least[use.topic] = use.seen
    return least


def _forgettable(changes: Collection[Change], now_ms: int) -> Iterator[Change]:
    """Yield what gets a tombstone now: what is over for long, or was refused before many others were."""
    refused = sorted((c for c in changes if not c.number), key=lambda change: change.finished_ms or 0)
    # Not at once: who has asked is to read the answer.
    old = (c for c in refused[:-MOST_REFUSED] if now_ms >= (c.finished_ms or 0) + ANSWER_READ_MS)
    surplus = {change.change_id for change in old}
    for change in changes:
        if change.change_id in surplus or may_be_forgotten(change, changes, now_ms):
            yield change


def _doubt(sight: Sight) -> str:
    """Return why nobody can tell now which producers are there, so that no topic should grow."""
    if sight.clocks_differ_s <= CLOCKS_MAY_DIFFER_S:
        return ""
    return f"the clocks of the brokers differ by {sight.clocks_differ_s:.0f} s; see to their NTP"


def _in_words(error: Exception) -> str:
    return legible(f"the tracker can't carry it out: {error!r}", _MOST_TOLD)


def _only_totals_differ(one: Change, other: Change) -> bool:
    return one == evolve(
        other,
        revision=one.revision,
        tracker_epoch=one.tracker_epoch,
        totals=one.totals,
        counted=one.counted,
        uncovered_groups=one.uncovered_groups,
        unverified=one.unverified,
    )
