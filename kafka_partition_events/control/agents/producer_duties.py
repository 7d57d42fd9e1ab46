"""What one producer process has to do about a change, and what it says. No I/O, no thread, no clock.

An instance reads of a change before the topic grows, and holds its routes at the old partitions from then on.
That does nothing as long as there are no others; so when its poller sees new ones, nothing is left to be done
in time. If it does not read that the gate is open, it opens it by itself, `Spec.deadline_s` after it first
knew of the growth by its own monotonic clock, and never before. Whether the control topics can be reached
does not matter for that.

The agent reads ``kpe.changes``, calls `ProducerDuties.limits` and sets them, then calls
`ProducerDuties.reports` and publishes those; see docs/decisions/2026-11-21-change-control.md. Times are its
monotonic seconds.
"""

import math
from collections.abc import Iterator, Mapping

from attrs import define, field

from kafka_partition_events.control.agents.leases import Leaseholder, Reports, ack_delay
from kafka_partition_events.control.protocol.records import Ack, Change, TopicUse
from kafka_partition_events.control.protocol.vocabulary import Status
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.limits import Limits


@define
class _Said:
    """What is said of one change: status and partitions in use, and when it is due (None: it was said)."""

    status: Status
    use: TopicUse
    due: float | None


@define
class ProducerDuties(Leaseholder):
    """The duties of one producer. Not thread-safe."""

    _grown_at: dict[str, float] = field(factory=dict, init=False)
    _said: dict[str, _Said] = field(factory=dict, init=False)
    _armed: dict[str, int] = field(factory=dict, init=False)

    # -- what partitioners are to do -----------------------------------------------------------------

    def limits(self, cluster: Cluster | None, now: float) -> Limits:
        """Return what to leave alone now.

        That includes topics that the instance does not use yet: it may begin to in the middle of a change.

        Before the poller's first answer (None) what holds for a topic of that name holds.
        """
        counts: dict[str, int] = {}
        for change in self._here(cluster):
            if change.state.happened or _seen(change, cluster) > change.spec.from_count:
                self._grown_at.setdefault(change.change_id, now)
            if self._holds(change, now):
                spec = change.spec
                counts[spec.topic] = min(spec.from_count, counts.get(spec.topic, spec.from_count))
        return counts

    def _here(self, cluster: Cluster | None) -> Iterator[Change]:
        """Yield the open changes of topics as they are."""
        for change in self.ledger.changes.values():
            info = None if cluster is None else cluster.by_topic.get(change.spec.topic)
            ids = {change.spec.topic_id, None if info is None else info.topic_id}
            if not change.state.final and (None in ids or len(ids) == 1):
                yield change

    def _holds(self, change: Change, now: float) -> bool:
        return change.holds and now < self.opens_itself_at(change)

    def opens_itself_at(self, change: Change) -> float:
        """Return when the instance opens a held gate by itself."""
        return self._grown_at.get(change.change_id, math.inf) + change.spec.deadline_s

    # -- what is said --------------------------------------------------------------------------------

    def reports(self, cluster: Cluster | None, used: Mapping[str, int], now: float) -> Reports:
        """Return what to publish, after the limits of this moment were set.

        It is told how many partitions of each topic the routes use, by the budget.
        """
        known = {} if cluster is None else cluster.by_topic
        here = [*self._here(cluster)]
        mine = [change for change in here if change.spec.topic in known]
        self._forget_all_but({change.change_id for change in here}, {change.change_id for change in mine})
        view = self._view_of(cluster, used, {change.spec.topic for change in mine})
        uses = {use.topic: use for use in view}
        for change in mine:
            use = uses.get(change.spec.topic, TopicUse(topic=change.spec.topic, seen=0, used=0))
            self._note(change, self._status(change, use, now), use, now)
        acks = tuple(self._ack(change) for change in mine if self._is_due(change, now))
        lease = self.next_lease(view, now)
        moments = [self.opens_itself_at(change) for change in mine if change.holds]
        moments += [said.due for said in self._said.values() if said.due is not None]
        again_at = min((moment for moment in moments if moment > now), default=math.inf)
        return Reports(acks=acks, lease=lease, again_at=min(again_at, self.lease_due), busy=bool(mine))

    def _status(self, change: Change, use: TopicUse, now: float) -> Status:
        if self._holds(change, now):
            return Status.HELD
        if use.seen < change.spec.to_count:
            return Status.OBSERVED
        return Status.APPLIED if use.used >= use.seen else Status.CAPPED

    def _forget_all_but(self, known: set[str], mine: set[str]) -> None:
        self._grown_at = {id_: at for id_, at in self._grown_at.items() if id_ in known}
        self._said = {id_: said for id_, said in self._said.items() if id_ in mine}
        self._armed = {id_: count for id_, count in self._armed.items() if id_ in mine}

    def _note(self, change: Change, status: Status, use: TopicUse, now: float) -> None:
        if status is Status.HELD:
            # By the snapshot that the routes were made from when they were limited: what is newer they hold.
            self._armed.setdefault(change.change_id, use.seen)
        said = self._said.get(change.change_id)
        if said is None or (said.status, said.use) != (status, use):
            wait = ack_delay(change.change_id, self.lease.instance_id, self.spread)
            due = now + wait if said is None or said.due is None else said.due
            self._said[change.change_id] = _Said(status, use, due)

    def _is_due(self, change: Change, now: float) -> bool:
        due = self._said[change.change_id].due
        return due is not None and due <= now

    def _ack(self, change: Change) -> Ack:
        said = self._said[change.change_id]
        said.due = None
        return self.ack(change, said.status, armed_count=self._armed.get(change.change_id))

    def was_lost(self, ack: Ack, now: float) -> None:
        """Take note that an ack was not appended: it is said again."""
        said = self._said.get(ack.change_id)
        if said is not None and said.due is None:
            said.due = now + max(1.0, self.spread)

    def _view_of(
        self, cluster: Cluster | None, used: Mapping[str, int], first: set[str]
    ) -> tuple[TopicUse, ...]:
        """Return the topics that are used, those with open changes first."""
        topics = {} if cluster is None else cluster.by_topic
        seen = {name: len(info.partitions) for name, info in topics.items() if not info.internal}
        return tuple(
            TopicUse(
                topic=name,
                topic_id=topics[name].topic_id,
                seen=seen[name],
                used=used.get(name, seen[name]),
            )
            for name in sorted(seen, key=lambda name: (name not in first, name))
        )


def _seen(change: Change, cluster: Cluster | None) -> int:
    info = None if cluster is None else cluster.by_topic.get(change.spec.topic)
    return 0 if info is None else len(info.partitions)
