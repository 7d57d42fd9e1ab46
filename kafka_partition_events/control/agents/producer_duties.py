"""What one producer process has to do about a change, and what it says. No I/O, no thread, no clock.

An instance is told of a change before the topic grows, and holds its routes at the old partitions from then
on. That does nothing as long as there are no others; so when its poller sees new ones, nothing is left to be
done in time. If nobody tells it that the gate is open, it opens it by itself, `Spec.deadline_s` after it
first knew of the growth by its own monotonic clock, and never before. Whether the control topics can be
reached does not matter for that.

The agent reads ``kpe.changes``, calls `ProducerDuties.limits` and sets them, then calls
`ProducerDuties.reports` and publishes those; see docs/decisions/2026-11-21-change-control.md. Times are its
monotonic seconds.
"""

import math
from collections.abc import Callable, Mapping

from attrs import define, evolve, field, frozen

from kafka_partition_events.control.agents.leases import Leaseholder, Reports, ack_delay
from kafka_partition_events.control.protocol.bounds import MOST_PARTITIONS, MOST_TEXT
from kafka_partition_events.control.protocol.legible import legible
from kafka_partition_events.control.protocol.orders import as_limits, in_effect, last_change, rolled_back
from kafka_partition_events.control.protocol.records import Ack, Capacity, Change, Lease, Order, TopicUse
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import OnDeadline, State, Status
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.limits import Limits


@frozen
class Watch:
    """What an instance remembers of one change: when it first knew that the topic had grown, in seconds."""

    grown_at: float | None = None

    def looked(self, change: Change, seen: int, now: float) -> "Watch":
        """Return the memory after a look.

        Args:
            change: The change as last read.
            seen: How many partitions the instance sees.
            now: The time.
        """
        grown = change.state.happened or seen > change.spec.from_count
        return evolve(self, grown_at=now) if grown and self.grown_at is None else self


@frozen
class Statement:
    """What an instance says of a change."""

    status: Status
    reason: str = ""


def order_for(change: Change, watch: Watch, seen: int, now: float, *, rejects: bool = False) -> Order:
    """Return what the instance does now.

    Args:
        change: The change as last read.
        watch: What is remembered of it.
        seen: How many partitions of the topic the instance sees.
        now: The time.
        rejects: Whether a policy of the instance forbids the change, as for a topic whose keys must not move.
    """
    if rejects:
        return rolled_back(change.spec, change.before)
    if change.holds and opens_itself_at(change, watch) <= now:
        return in_effect(change.spec, change.before, seen)
    return change.order


def opens_itself_at(change: Change, watch: Watch) -> float:
    """Return when the instance opens a held gate without being told to."""
    if change.spec.gate_on_deadline is OnDeadline.HOLD or watch.grown_at is None:
        return float("inf")
    return watch.grown_at + change.spec.deadline_s


def answer(
    change: Change, order: Order, adopted: Order, use: TopicUse, *, rejects: bool = False
) -> Statement:
    """Return what the instance says.

    Args:
        change: The change as last read.
        order: What `order_for` tells.
        adopted: What its routes are made by now.
        use: What it sees and uses.
        rejects: As for `order_for`.
    """
    back = change.state in {State.ROLLING_BACK, State.ROLLED_BACK}
    if rejects and not back:
        return Statement(Status.REJECTED, "policy")
    if adopted != order:
        return Statement(Status.OBSERVED)
    if back:
        return Statement(Status.ROLLED_BACK)
    if change.holds and order == change.order:
        return Statement(Status.HELD)
    return _applied(change, order, use)


def _applied(change: Change, order: Order, use: TopicUse) -> Statement:
    grows = change.spec.kind.grows
    if use.seen < change.spec.to_count if grows else not change.state.happened:
        return Statement(Status.OBSERVED)
    if grows and use.used < min(use.seen, order.limit or use.seen):
        return Statement(Status.CAPPED, "buffer_limit")
    return Statement(Status.APPLIED)


@define
class _Said:
    """What is said of one change: the statement, and when it may be told (None: it was)."""

    answer: Statement
    use: TopicUse
    due: float | None


def _never(_spec: Spec) -> bool:
    return False


@define
class ProducerDuties(Leaseholder):
    """The duties of one producer. Not thread-safe.

    Attributes:
        rejects: Tells whether a policy of the application forbids a change. If it raises, it does.
    """

    rejects: Callable[[Spec], bool] = _never
    _watches: dict[str, Watch] = field(factory=dict)
    _said: dict[str, _Said] = field(factory=dict)
    _armed: dict[str, int] = field(factory=dict)
    _faults: dict[str, str] = field(factory=dict)
    _acks: int = 0
    _most: Mapping[str, int] = field(factory=dict, init=False)

    def affords(self, capacity: Capacity, most: Mapping[str, int]) -> None:
        """Take note of the budget; the reports tell it.

        Args:
            capacity: What memory affords, over all topics.
            most: How many partitions of a topic are used at most, for topics with a limit of their own.
        """
        self.lease = evolve(self.lease, capacity=capacity)
        self._most = {topic: min(count, MOST_PARTITIONS) for topic, count in most.items()}

    # -- what partitioners are to do -----------------------------------------------------------------

    def limits(self, cluster: Cluster | None, now: float) -> Limits:
        """Return what to leave alone now.

        That includes topics that the instance does not use yet: it may begin to in the middle of a change.

        Args:
            cluster: The poller's snapshot; None before its first answer. Then it is not known which cluster
                this is, and what holds for a topic on any of them holds.
            now: The time.
        """
        return as_limits([(change.spec, order) for change, order in self._orders(cluster, now)])

    def _orders(self, cluster: Cluster | None, now: float) -> list[tuple[Change, Order]]:
        """Return the last change of each topic and broker of the cluster, and what is to be done for it."""
        changes = self.ledger.changes.values()
        cluster_id = None if cluster is None else cluster.cluster_id
        here = [c for c in changes if cluster_id is None or c.spec.cluster_id == cluster_id]
        subjects = {c.spec.subject: c.spec for c in here}
        last = (last_change(here, subject, _topic_id(spec, cluster)) for subject, spec in subjects.items())
        return [(change, self._order(change, cluster, now)) for change in last if change is not None]

    def _order(self, change: Change, cluster: Cluster | None, now: float) -> Order:
        seen = _seen(change, cluster)
        watch = self._watches.get(change.change_id, Watch()).looked(change, seen, now)
        self._watches[change.change_id] = watch
        return order_for(change, watch, seen, now, rejects=self._rejects(change))

    def _rejects(self, change: Change) -> bool:
        if change.state.final and not change.state.happened:
            return False
        try:
            return self.rejects(change.spec)
        except Exception as error:  # noqa: BLE001 - the application's code; other topics have gates to be held
            self._faults[change.change_id] = legible(f"policy: {error!r}", MOST_TEXT)
            return True

    # -- what is said --------------------------------------------------------------------------------

    def reports(self, cluster: Cluster | None, used: Mapping[str, int], now: float) -> Reports:
        """Return what to publish, after the limits of this moment were set.

        Args:
            cluster: The poller's snapshot.
            used: How many partitions of each topic the routes use, by the budget.
            now: The time.
        """
        every = self._orders(cluster, now)
        orders = [(c, order) for c, order in every if not c.state.final and _is_used(c.spec, cluster)]
        self._forget_all_but({c.change_id for c, _ in every}, {c.change_id for c, _ in orders})
        view = self._seen_and_used(cluster, used, {c.spec.topic for c, _ in orders})
        uses = {use.topic: use for use in view}
        for change, order in orders:
            use = uses.get(change.spec.topic or "", TopicUse(topic="", seen=0, used=0))
            self._note(change, answer(change, order, order, use, rejects=self._rejects(change)), use, now)
        acks = tuple(self._ack(change, now) for change, _ in orders if self._is_due(change, now))
        lease = self.next_lease(view, None if cluster is None else cluster.cluster_id, now)
        moments = [opens_itself_at(c, self._watches[c.change_id]) for c, _ in orders if c.holds]
        moments += [said.due for said in self._said.values() if said.due is not None]
        again_at = min((moment for moment in moments if moment > now), default=math.inf)
        return Reports(acks=acks, lease=lease, again_at=min(again_at, self.lease_due), busy=bool(orders))

    def _forget_all_but(self, known: set[str], open_ones: set[str]) -> None:
        self._watches = {id_: watch for id_, watch in self._watches.items() if id_ in known}
        self._said = {id_: said for id_, said in self._said.items() if id_ in open_ones}
        self._armed = {id_: count for id_, count in self._armed.items() if id_ in open_ones}
        self._faults = {id_: why for id_, why in self._faults.items() if id_ in open_ones}

    def _note(self, change: Change, told: Statement, use: TopicUse, now: float) -> None:
        if told.status is Status.HELD:
            # By the snapshot that the routes were made from when they were limited: what is newer they hold.
            self._armed.setdefault(change.change_id, use.seen)
        said = self._said.get(change.change_id)
        if said is None or (said.answer, said.use) != (told, use):
            wait = ack_delay(change.change_id, self.lease.instance_id, self.spread)
            due = now + wait if said is None or said.due is None else said.due
            self._said[change.change_id] = _Said(told, use, due)

    def _is_due(self, change: Change, now: float) -> bool:
        due = self._said[change.change_id].due
        return due is not None and due <= now

    def _ack(self, change: Change, now: float) -> Ack:
        said = self._said[change.change_id]
        said.due = None
        self._acks += 1
        me = self.lease
        return Ack(
            change_id=change.change_id,
            revision=change.revision,
            instance_id=me.instance_id,
            incarnation=me.incarnation,
            ack_seq=self._acks,
            born_ms=me.born_ms,
            role=me.role,
            group=me.group,
            status=said.answer.status,
            reason=self._faults.get(change.change_id, said.answer.reason),
            limit=evolve(me.capacity, max_partitions=said.use.max_partitions)
            if said.answer.status is Status.CAPPED
            else None,
            seen_count=said.use.seen,
            used_count=said.use.used,
            armed_count=self._armed.get(change.change_id),
        )

    def was_lost(self, ack: Ack, now: float) -> None:
        """Take note that an ack was not appended: it is said again."""
        said = self._said.get(ack.change_id)
        if said is not None and said.due is None:
            said.due = now + max(1.0, self.spread)

    def begin_again(self, lease: Lease) -> None:
        """Be another process, which has said nothing yet but knows what this one knew."""
        super().begin_again(lease)
        self._said, self._acks = {}, 0

    def _seen_and_used(
        self, cluster: Cluster | None, used: Mapping[str, int], first: set[str | None]
    ) -> tuple[TopicUse, ...]:
        """Return the view, topics with open changes first."""
        topics = {} if cluster is None else cluster.by_topic
        names = sorted(topics, key=lambda name: (name not in first, name))
        return tuple(
            TopicUse(
                topic=name,
                topic_id=topics[name].topic_id,
                seen=len(topics[name].partitions),
                used=used.get(name, len(topics[name].partitions)),
                max_partitions=self._most.get(name),
            )
            for name in names
            if not topics[name].internal
        )


def _is_used(spec: Spec, cluster: Cluster | None) -> bool:
    return cluster is not None and (spec.topic is None or spec.topic in cluster.by_topic)


def _topic_id(spec: Spec, cluster: Cluster | None) -> str | None:
    info = None if cluster is None or spec.topic is None else cluster.by_topic.get(spec.topic)
    return None if info is None else info.topic_id


def _seen(change: Change, cluster: Cluster | None) -> int:
    info = None if cluster is None or change.spec.topic is None else cluster.by_topic.get(change.spec.topic)
    return 0 if info is None else len(info.partitions)
