"""What a tracker decides in one round, from what it has read and what it sees. No I/O, no clock.

The tracker around it reads the control topics, looks at the cluster, calls `Rounds.decide`, writes what that
returns in one transaction and then says so: `Rounds.wrote`. What was not written has not happened.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from attrs import define, evolve, field, frozen

from kafka_partition_events.control.census import Census, Fleet, has_departed
from kafka_partition_events.control.change_machine import is_due, step
from kafka_partition_events.control.evidence import ClusterView
from kafka_partition_events.control.merge import Ledger
from kafka_partition_events.control.probe import Probe
from kafka_partition_events.control.records import Change, Command, Lease, Refusal
from kafka_partition_events.control.requests import may_be_forgotten, obey, unasked
from kafka_partition_events.control.spec import Spec
from kafka_partition_events.control.words import Execute, Kind, Role
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo

TOTALS_MS: Final = 5_000
"""How long after a record of a change the next one comes that differs only in how far instances are."""

LOST_AFTER_MS: Final = 2 * 86_400_000
"""After how long a lease is forgotten, as ``kpe.leases`` forgets it."""

_Topic = tuple[str, str | None]


@frozen(kw_only=True)
class Sight:
    """What the tracker sees now.

    Attributes:
        cluster: The cluster's metadata; None: it can't be seen.
        probe: What the prober has shown last.
        leases_read: The offset of the first lease that is not in the ledger, by partition; None: not known.
        acks_read: The same of acks.
    """

    cluster: Cluster | None
    probe: Probe = field(factory=Probe)
    leases_read: tuple[int, ...] | None = None
    acks_read: tuple[int, ...] | None = None

    def of(self, spec: Spec, change_id: str = "") -> ClusterView:
        """Return what is seen of a change's topic; blind if that is on a cluster that nobody looks at."""
        cluster = self.cluster
        if cluster is None or cluster.cluster_id != spec.cluster_id:
            return ClusterView(blind=True)
        if spec.topic is None:
            return ClusterView()
        info = cluster.by_topic.get(spec.topic)
        return ClusterView(
            count=None if info is None else len(info.partitions),
            topic_id=None if info is None else info.topic_id,
            readers=self.probe.readers.get(spec.topic),
            readers_are_old=change_id not in self.probe.after,
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
    """

    at_ms: int
    changes: tuple[Change, ...] = ()
    moved: tuple[Change, ...] = ()
    retired: tuple[Change, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    due: tuple[Change, ...] = ()


@define
class Rounds:
    """The rounds of one tracker. Not thread-safe.

    Attributes:
        ledger: What was read of the control topics.
        epoch: The tracker's epoch.
    """

    ledger: Ledger
    epoch: int
    _written_ms: dict[str, int] = field(factory=dict)
    _counts: dict[_Topic, int] = field(factory=dict)
    _censuses: defaultdict[str, Census] = field(factory=lambda: defaultdict(Census))

    def decide(
        self,
        commands: Iterable[tuple[Command, int]],
        sight: Sight,
        now_ms: int,
        troubles: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Return what is to be written and done now.

        Args:
            commands: Those that were not carried out yet, and when each was appended.
            sight: What is seen.
            now_ms: The time now by the brokers' clock.
            troubles: Why the tracker could not create partitions, by change.
        """
        # Before anything is counted: then it is counted from leases of a time that whoever audits knows.
        self.ledger.drop_lost(now_ms - LOST_AFTER_MS)
        desk = _Desk({**self.ledger.changes}, self.epoch, now_ms)
        for command, appended_ms in commands:
            desk.obey(command, appended_ms, sight)
        self._follow_what_nobody_asked_for(desk, sight)
        waiting = [c for c in desk.known if not c.state.final]
        due = [c for c in waiting if self._goes_on(desk, c, sight, troubles or {})]
        known = desk.known
        return Outcome(
            at_ms=now_ms,
            changes=tuple(desk.written),
            moved=tuple(desk.moved),
            retired=tuple(change for change in known if may_be_forgotten(change, known, now_ms)),
            refusals=tuple(desk.refusals),
            due=tuple(desk.changes[change.change_id] for change in due),
        )

    def wrote(self, outcome: Outcome) -> None:
        """Take note that an outcome was written."""
        for change in outcome.changes:
            self.ledger.take_change(change)
            self._written_ms[change.change_id] = outcome.at_ms
        for change in outcome.retired:
            self.ledger.take_tombstone(change.change_id)
            self._written_ms.pop(change.change_id, None)
        self.ledger.drop_finished()
        for change_id in self._censuses.keys() - {change.change_id for change in self.open_changes}:
            del self._censuses[change_id]

    @property
    def open_changes(self) -> list[Change]:
        """The changes that are not finished."""
        return [change for change in self.ledger.changes.values() if not change.state.final]

    # -- changes that are open -----------------------------------------------------------------------

    def _goes_on(self, desk: "_Desk", change: Change, sight: Sight, troubles: Mapping[str, str]) -> bool:
        """Let a change take its next steps; tell whether its partitions are to be created."""
        view = sight.of(change.spec, change.change_id)
        fleet = Fleet(
            tenancies=self.ledger.tenancies,
            acks=self.ledger.acks.get(change.change_id, {}),
            leases_read=sight.leases_read,
            acks_read=sight.acks_read,
            census=self._censuses[change.change_id],
        )
        if change.spec.execute is Execute.TRACKER and not change.state.happened:
            trouble = troubles.get(change.change_id, "")
            if trouble != change.detail:
                change = evolve(
                    change, detail=trouble, revision=change.revision + 1, tracker_epoch=self.epoch
                )
                desk.write(change)
        while (after := step(change, fleet, view, epoch=self.epoch, now_ms=desk.now_ms)) is not change:
            written_ms = self._written_ms.get(change.change_id)
            soon = written_ms is not None and desk.now_ms < written_ms + TOTALS_MS
            if soon and _only_totals_differ(change, after):
                break
            desk.write(after)
            change = after
        return is_due(change, fleet, view, desk.now_ms)

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
            from_count=before,
            to_count=count,
        )
        change_id = unasked_id(spec)
        if change_id in self.ledger.retired:
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

    @property
    def known(self) -> Sequence[Change]:
        return list(self.changes.values())

    def write(self, change: Change) -> None:
        before = self.changes.get(change.change_id)
        if before is None or before.state is not change.state:
            self.moved.append(change)
        self.changes[change.change_id] = change
        self.written.append(change)

    def obey(self, command: Command, appended_ms: int, sight: Sight) -> None:
        view = ClusterView(blind=True) if command.spec is None else sight.of(command.spec)
        told = obey(command, appended_ms, self.changes, view, epoch=self.epoch, now_ms=self.now_ms)
        if told.refusal is not None:
            self.refusals.append(told.refusal)
        if told.change is not None and told.change != self.changes.get(command.change_id):
            self.write(told.change)


def unasked_id(spec: Spec) -> str:
    """Return the id of a change that nobody asked for; any tracker gives the same one."""
    what = f"{spec.cluster_id}\0{spec.topic}\0{spec.topic_id}\0{spec.to_count}"
    return f"grown-{hashlib.blake2b(what.encode(), digest_size=10).hexdigest()}"


def _least_seen(leases: Iterable[Lease], cluster: Cluster) -> dict[str, int]:
    """Return how many partitions instances see of the topics that they use, at the least."""
    least: dict[str, int] = {}
    for lease in leases:
        for use in lease.view:
            known = least.get(use.topic)
            if known is not None and known <= use.seen:
                continue  # that is nearly all of them
            info = cluster.by_topic.get(use.topic)
            if info is not None and use.seen and use.topic_id in {None, info.topic_id}:
                least[use.topic] = use.seen
    return least


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
