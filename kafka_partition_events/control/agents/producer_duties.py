"""What one producer process has to do about a change, and what it says. No I/O, no thread, no clock.

An instance reads of a change before the topic grows, and holds its routes at the old partitions from then on.
That does nothing as long as there are no others; so when its poller sees new ones, nothing is left to be done
in time. If it does not read that the gate is open, it opens it by itself, `Spec.deadline_s` after it first
knew of the growth by its own monotonic clock, and never before. Whether the control topics can be reached
does not matter for that.

The agent reads ``kpe.changes``, calls `ProducerDuties.limits` and sets them, then calls
`ProducerDuties.says` and publishes that; see docs/decisions/2026-11-21-change-control.md. Times are its
monotonic seconds.
"""

import math
from collections.abc import Iterator, Mapping

from attrs import define, field

from kafka_partition_events.control.agents.leases import Leaseholder, Report
from kafka_partition_events.control.protocol.records import Change, TopicUse
from kafka_partition_events.metadata.cluster import Cluster


@define
class ProducerDuties(Leaseholder):
    """The duties of one producer. Not thread-safe."""

    _grown_at: dict[str, float] = field(factory=dict, init=False)
    _armed: dict[str, bool] = field(factory=dict, init=False)

    # -- what partitioners are to do -----------------------------------------------------------------

    def limits(self, cluster: Cluster | None, now: float) -> Mapping[str, int]:
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

    def says(self, cluster: Cluster | None, used: Mapping[str, int], now: float) -> Report:
        """Return what to publish, after the limits of this moment were set.

        `used`: how many partitions of each topic the routes use, by the budget.
        """
        here = {change.change_id: change for change in self._here(cluster)}
        self._grown_at = {id_: at for id_, at in self._grown_at.items() if id_ in here}
        self._armed = {id_: armed for id_, armed in self._armed.items() if id_ in here}
        known = {} if cluster is None else cluster.by_topic
        # Who does not name what has a gate passes for unarmed: it may begin to use it at any moment.
        mine = {c.spec.topic: c for c in here.values() if c.holds or c.spec.topic in known}
        view = self._view_of(cluster, used, mine, now)
        lease, again_at = self.report(view, now, busy=not mine.keys().isdisjoint(known))
        opening = (self.opens_itself_at(change) for change in mine.values() if self._holds(change, now))
        return lease, min(again_at, *opening, math.inf)

    def _view_of(
        self, cluster: Cluster | None, used: Mapping[str, int], mine: Mapping[str, Change], now: float
    ) -> tuple[TopicUse, ...]:
        """Return the topics that are used, and those of ``mine``; these first."""
        topics = {} if cluster is None else cluster.by_topic
        names = {name for name, info in topics.items() if not info.internal} | mine.keys()
        uses = []
        # Those with a gate first: where there are more than `MOST_TOPICS`, others need no place.
        gated = {name for name, change in mine.items() if change.holds}
        for name in sorted(names, key=lambda name: (name not in gated, name not in mine, name)):
            info, change = topics.get(name), mine.get(name)
            seen = 0 if info is None else len(info.partitions)
            held = change if change is not None and self._holds(change, now) else None
            if held is not None:
                # By the snapshot that the routes were made from when limited: they hold what is newer.
                self._armed.setdefault(held.change_id, seen < held.spec.to_count)
            uses.append(
                TopicUse(
                    topic=name,
                    topic_id=None if info is None else info.topic_id,
                    seen=seen,
                    used=used.get(name, seen),
                    holds=None if held is None else held.change_id,
                    armed=held is not None and self._armed[held.change_id],
                )
            )
        return tuple(uses)


def _seen(change: Change, cluster: Cluster | None) -> int:
    info = None if cluster is None else cluster.by_topic.get(change.spec.topic)
    return 0 if info is None else len(info.partitions)
