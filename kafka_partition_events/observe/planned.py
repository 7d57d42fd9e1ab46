"""Which change, if any, explains an event: had somebody asked for what happened? Pure.

========================================  ============================================================
event                                     is explained by
========================================  ============================================================
`PartitionsAdded`                         an increase of that topic id, from and to these counts, or
                                          several that lead there one after the other
`BrokerRemoved`, `.Added`, `.Changed`     an offline change of that broker; an online one, but for leaving
`PartitionOffline`                        the same of the broker that led it, or of that partition
`PartitionOnline`                         the same of the broker that leads it, or of that partition
`LeaderChanged`                           the same of the old or the new leader, or of that partition
all others, and what is ``initial``       nothing: no change can ask for them, so they have no label
========================================  ============================================================

When a change holds:

- It holds from its request on, whether or not somebody has to approve it yet.
- An increase holds until the tracker has seen the growth, or has ended the change without it (cancelled,
  expired, rejected). Kafka can't shrink a topic, so a growth from 6 to 12 happens once.
- An offline change holds for as long as its order does, beyond its end: until an online change is in effect,
  or, if it came to nothing or was rolled back, until then.
- An online change holds until it is finished. A broker that comes back a month later is nobody's plan.
- What was refused at once (number 0) never held, and ``observe`` means that nobody has asked.

An event happened after ``previous_at`` and no later than ``wall_time``; it is explained if it *may* have
happened while the change held. These are moments of the observer's clock, those of changes are the brokers':
`CLOCKS_DIFFER_MS` is granted at both ends.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import frozen

from kafka_partition_events.control.protocol.records import Change, Order
from kafka_partition_events.control.protocol.vocabulary import Kind, State
from kafka_partition_events.metadata import events as ev

CLOCKS_DIFFER_MS: Final = 5_000
"""By how much the clocks of observer and brokers may differ."""

LABELLED: Final[tuple[type[ev.Event], ...]] = (
    ev.PartitionsAdded, ev.PartitionOffline, ev.PartitionOnline, ev.LeaderChanged,
    ev.BrokerAdded, ev.BrokerRemoved, ev.BrokerChanged,
)  # fmt: skip
"""The events that somebody can have asked for."""

_STANDS: Final = frozenset({State.CONVERGED, State.PARTIALLY_CONVERGED})


def may_be_planned(event: ev.Event) -> bool:
    """Tell whether there can be an answer: not for a first sight, or where the cluster is not known."""
    return isinstance(event, LABELLED) and not event.initial and event.cluster_id is not None


@frozen
class Label:
    """The answer.

    Attributes:
        change_id: The change that explains the event; None: nobody had asked for it.
    """

    change_id: str | None

    @property
    def planned(self) -> bool:
        """Whether somebody had asked for it."""
        return self.change_id is not None


@frozen
class _Place:
    """Where a change may be at work: a broker or a partition, and whether it comes back there."""

    subject: str
    comes_back: bool
    partition: int | None = None
    topic_id: str | None = None

    def left_by(self, order: Order) -> bool:
        return order.broker_offline if self.partition is None else self.partition in order.offline

    def concerns(self, change: Change) -> bool:
        spec = change.spec
        kinds = {Kind.OFFLINE, Kind.ONLINE} if self.comes_back else {Kind.OFFLINE}
        named = self.partition is None or self.partition in spec.partitions
        return spec.kind in kinds and named and _same(spec.topic_id, self.topic_id)


class Plans:
    """All that was asked for, as last read. Immutable, so thread-safe."""

    def __init__(self, changes: Iterable[Change]) -> None:
        """Sort the changes, of whatever clusters; once for each reading."""
        by_subject = defaultdict[str, list[Change]](list)
        for change in changes:
            if change.number:
                by_subject[change.spec.subject].append(change)
        self._by_subject = {
            subject: sorted(found, key=lambda change: change.number) for subject, found in by_subject.items()
        }

    def label(self, event: ev.Event) -> Label | None:
        """Return what is to be said of an event as a poller stamped it; None: no label."""
        if not may_be_planned(event):
            return None
        change = self._growth(event) if isinstance(event, ev.PartitionsAdded) else self._work(event)
        return Label(None if change is None else change.change_id)

    # -- growth --------------------------------------------------------------------------------------

    def _growth(self, event: ev.PartitionsAdded) -> Change | None:
        """Return the last of the increases that lead from the old count to the new one."""
        asked = [
            change
            for change in self._by_subject.get(f"{event.cluster_id}|topic/{event.topic}", ())
            if change.spec.kind is Kind.INCREASE
            and _same(change.spec.topic_id, event.topic_id)
            and _held(change, _until_grown(change), event)
        ]
        begin, reached = len(event.old.partitions), len(event.new.partitions)
        last: Change | None = None
        while reached > begin:
            step = max(
                (c for c in asked if c.spec.to_count == reached and _begins(c, begin)),
                key=lambda change: change.number,
                default=None,
            )
            if step is None:
                return None
            last = last or step
            reached = begin if step.before.limit is not None else step.spec.from_count
        return last

    # -- work on brokers and partitions --------------------------------------------------------------

    def _work(self, event: ev.Event) -> Change | None:
        at_work = (change for place in _places(event) for change in self._at_work(place, event))
        return max(at_work, key=lambda change: change.number, default=None)

    def _at_work(self, place: _Place, event: ev.Event) -> Iterator[Change]:
        changes = self._by_subject.get(place.subject, [])
        for index, change in enumerate(changes):
            if place.concerns(change):
                end = change.finished_ms
                if change.spec.kind is Kind.OFFLINE and change.state in _STANDS:
                    end = _until_left_no_more(place, changes[index + 1 :])
                if _held(change, end, event):
                    yield change


def _places(event: ev.Event) -> Iterator[_Place]:
    def broker(id_: int | None, *, comes_back: bool) -> Iterator[_Place]:
        if id_ is not None:
            yield _Place(f"{event.cluster_id}|broker/{id_}", comes_back)

    match event:
        case ev.BrokerRemoved():
            yield from broker(event.old.id, comes_back=False)
        case ev.BrokerAdded() | ev.BrokerChanged():
            yield from broker(event.new.id, comes_back=True)
        case ev.PartitionOffline() | ev.PartitionOnline() | ev.LeaderChanged():
            yield from broker(event.old.leader, comes_back=False)
            yield from broker(event.new.leader, comes_back=True)
            subject = f"{event.cluster_id}|topic/{event.topic}"
            comes_back = not isinstance(event, ev.PartitionOffline)
            yield _Place(subject, comes_back, event.partition, event.topic_id)


def _begins(change: Change, count: int) -> bool:
    """Tell whether an increase begins there or later. With a limit in force it counts the used partitions."""
    return change.before.limit is not None or change.spec.from_count >= count


def _until_grown(change: Change) -> int | None:
    return change.finished_ms if change.observed_ms is None else change.observed_ms


def _until_left_no_more(place: _Place, later: Iterable[Change]) -> int | None:
    back = (change for change in later if change.observed_ms is not None and not place.left_by(change.order))
    return next((change.observed_ms for change in back), None)


def _held(change: Change, end_ms: int | None, event: ev.Event) -> bool:
    """Tell whether the event may have happened between the request and the end, None: not yet."""
    if change.requested_ms > 1_000 * event.wall_time.timestamp() + CLOCKS_DIFFER_MS:
        return False
    if end_ms is None or event.previous_at is None:
        return True
    return end_ms > 1_000 * event.previous_at.timestamp() - CLOCKS_DIFFER_MS


def _same(one: str | None, other: str | None) -> bool:
    """Tell whether two topic ids may be of one topic: not everybody can tell them."""
    return None in {one, other} or one == other
