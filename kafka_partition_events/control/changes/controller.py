"""What a tracker decides in one round, from what it has read and what it sees. No I/O, no clock.

A command or a change that can't be dealt with, by a fault here, is refused or left as it is, alone.

The tracker around it reads the control topics, polls the cluster, calls `Controller.decide`, writes what that
returns in one transaction and then says so: `Controller.wrote`. What was not written has not happened.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from attrs import define, evolve, field, frozen

from kafka_partition_events.control.changes.commands import may_be_forgotten, obey
from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.changes.transitions import is_due, step
from kafka_partition_events.control.groups.state import Probe
from kafka_partition_events.control.protocol.codec import encode
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Answer, Change, Given
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.legible import legible
from kafka_partition_events.metadata.cluster import Cluster

LOST_AFTER_MS: Final = 2 * 86_400_000
"""After how long a lease is forgotten, as ``kpe.leases`` forgets it."""

GONE_AFTER_MS: Final = 10_000
"""For how long a topic must be missing to be gone: a broker may not have heard of it."""

_MOST_TEXT: Final = 1_000


@frozen(kw_only=True)
class ClusterSnapshotForControl:
    """What the tracker sees now.

    Attributes:
        cluster: The cluster's metadata; None: it can't be seen.
        refused: Topics that we must not see.
        growing: Changes whose partitions may have been created without that being shown yet.
        probe: What the prober has shown last.
        troubles: Why the tracker could not create partitions, by change.
    """

    cluster: Cluster | None
    refused: Collection[str] = ()
    growing: Collection[str] = ()
    probe: Probe = field(factory=Probe)
    troubles: Mapping[str, str] = field(factory=dict)

    def of(self, spec: Spec | None, change_id: str = "") -> ClusterView:
        """Return what is seen of a change's topic; blind if it can't be, or is on another cluster."""
        cluster, probe = self.cluster, self.probe
        if cluster is None or spec is None or cluster.cluster_id != spec.cluster_id:
            return ClusterView(blind=True)
        if spec.topic in self.refused:
            return ClusterView(blind=True)
        info = cluster.by_topic.get(spec.topic)
        count = None if info is None else len(info.partitions)
        return ClusterView(
            # We have let it grow, and ask a broker that has not heard of that: a cancel now would open the
            # gate, and the producers that have would write before any group has a position.
            blind=change_id in self.growing and count == spec.from_count,
            count=count,
            topic_id=None if info is None else info.topic_id,
            readers=probe.readers.get(spec.topic),
            readers_are_old=change_id not in probe.after,
            unseen_groups=probe.unseen,
            groups=probe.groups.get(change_id, {}),
        )


@define(kw_only=True)
class Decision:
    """What a round leads to: it is filled in as commands and changes are dealt with.

    Attributes:
        at_ms: When, by the brokers' clock.
        known: All changes as they will be, by id.
        changes: Records to write, in this order.
        moved: Those of them by which a change came to be, or to another state.
        retired: Changes that get a tombstone.
        refusals: Commands that were refused. They are in the changes, too, if they were about one.
        due: Changes whose partitions are to be created, once the rest is written.
        faults: What could not be dealt with, and why, by the id of the change.
    """

    at_ms: int
    known: dict[str, Change] = field(factory=dict)
    changes: list[Change] = field(factory=list)
    moved: list[Change] = field(factory=list)
    retired: list[Change] = field(factory=list)
    refusals: list[Answer] = field(factory=list)
    due: list[Change] = field(factory=list)
    faults: dict[str, str] = field(factory=dict)

    def write(self, change: Change) -> None:
        """Take a record; what could not be read is a fault of this change, and of no other.

        Raises:
            RecordError: something in it is larger than `bounds` allows.
        """
        encode(change)
        before = self.known.get(change.change_id)
        if before is None or before.state is not change.state:
            self.moved.append(change)
        self.known[change.change_id] = change
        self.changes.append(change)


@define
class Controller:
    """The rounds of one tracker. Not thread-safe.

    Attributes:
        ledger: What was read of the control topics.
        epoch: The tracker's epoch.
        policy: What is allowed.
    """

    ledger: Ledger
    epoch: int
    policy: Policy = field(factory=Policy)
    _missing: dict[str, int] = field(factory=dict, init=False)

    def decide(self, commands: Iterable[Given], seen: ClusterSnapshotForControl, now_ms: int) -> Decision:
        """Return what is to be written and done now."""
        self.ledger.drop_lost(now_ms - LOST_AFTER_MS)
        decision = Decision(at_ms=now_ms, known={**self.ledger.changes})
        for given in commands:
            # First what has happened: once the topic has grown, a cancel must not let go of the gate.
            if (known := decision.known.get(given.command.change_id)) is not None:
                self._go_on(decision, known, seen)
            self._obey(decision, given, seen)
        due = [
            change.change_id for change in [*decision.known.values()] if self._go_on(decision, change, seen)
        ]
        decision.due = [decision.known[id_] for id_ in due]
        decision.retired = [c for c in decision.known.values() if may_be_forgotten(c, now_ms)]
        return decision

    def wrote(self, decision: Decision) -> None:
        """Take note that a decision was written."""
        for change in decision.changes:
            self.ledger.take_change(change)
        for change in decision.retired:
            self.ledger.take_tombstone(change.change_id)

    @property
    def open_changes(self) -> list[Change]:
        """The changes that are not finished."""
        return [change for change in self.ledger.changes.values() if not change.state.final]

    def _obey(self, decision: Decision, given: Given, seen: ClusterSnapshotForControl) -> None:
        id_ = given.command.change_id
        known = decision.known.get(id_)
        try:
            view = seen.of(given.command.spec) if known is None else self._view(decision, known, seen)
            change, refusal = obey(
                given, decision.known, view, epoch=self.epoch, now_ms=decision.at_ms, policy=self.policy
            )
            if change is not None and change != known:
                decision.write(change)
        except Exception as error:  # noqa: BLE001 - one command must not keep all others from being carried out
            decision.faults[id_] = repr(error)
            why = legible(f"the tracker can't carry it out: {error!r}", _MOST_TEXT)
            decision.refusals.append(given.answer(why))
        else:
            decision.refusals += () if refusal is None else (refusal,)

    def _go_on(self, decision: Decision, change: Change, seen: ClusterSnapshotForControl) -> bool:
        """Let a change take its next steps; return whether its partitions are to be created.

        One that can't stays as it is: who holds a gate goes on holding it.
        """
        if change.state.final:
            return False
        try:
            return self._steps(decision, change, seen)
        except Exception as error:  # noqa: BLE001 - one change must not keep all others from going on
            decision.faults[change.change_id] = repr(error)
            return False

    def _steps(self, decision: Decision, change: Change, seen: ClusterSnapshotForControl) -> bool:
        id_, leases = change.change_id, self.ledger.leases
        view = self._view(decision, change, seen)
        if change.spec.execute and not change.state.happened:
            trouble = legible(seen.troubles.get(id_, ""), _MOST_TEXT)
            if trouble != change.detail:
                change = self._next(evolve(change, detail=trouble))
                decision.write(change)
        while (after := step(change, leases, view, epoch=self.epoch, now_ms=decision.at_ms)) is not change:
            decision.write(after)
            change = after
        return is_due(change, leases, view, decision.at_ms)

    def _view(self, decision: Decision, change: Change, seen: ClusterSnapshotForControl) -> ClusterView:
        """Return what is seen of a change's topic; until it counts as gone, one that is missing is unseen."""
        view, id_ = seen.of(change.spec, change.change_id), change.change_id
        if view.blind or view.count is not None:
            self._missing.pop(id_, None)
            return view
        since_ms = self._missing.setdefault(id_, decision.at_ms)
        return evolve(view, blind=decision.at_ms < since_ms + GONE_AFTER_MS)

    def _next(self, change: Change) -> Change:
        return evolve(change, revision=change.revision + 1, tracker_epoch=self.epoch)
