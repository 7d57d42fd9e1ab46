"""Which change, if any, explains an event: had someone asked for what happened? Pure.

`PartitionsAdded` is explained by a change of that topic id, from and to these counts, or by several that lead
there one after the other. All other events, and what is ``initial``, have no label.

A change holds from its request on, until the tracker has seen the growth, or has ended the change without it
(cancelled, expired, rejected). Kafka can't shrink a topic, so a growth from 6 to 12 happens once. What was
refused at once never held.

An event happened after ``previous_at`` and no later than ``wall_time``; it is explained if it *may* have
happened while the change held. These are moments of the observer's clock, those of changes are the brokers':
`CLOCKS_DIFFER_MS` is granted at both ends.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, TypeGuard

from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.metadata import events as ev

CLOCKS_DIFFER_MS: Final = 5_000
"""By how much the clocks of observer and brokers may differ."""


def may_be_planned(event: ev.Event) -> TypeGuard[ev.PartitionsAdded]:
    """Return whether there can be an answer: not for a first sight, or where the cluster is not known."""
    return isinstance(event, ev.PartitionsAdded) and not event.initial and event.cluster_id is not None


class Plans:
    """All that was asked for, as last read. Immutable, so thread-safe."""

    def __init__(self, changes: Iterable[Change]) -> None:
        """Sort the changes, of whatever clusters; once for each reading."""
        self._by_subject = defaultdict[tuple[str, str], list[Change]](list)
        for change in changes:
            if not change.refused_at_once:
                self._by_subject[change.spec.cluster_id, change.spec.topic].append(change)

    def change_of(self, event: ev.PartitionsAdded) -> Change | None:
        """Return the change that explains a growth: the last of those that lead there from the old count."""
        asked = [
            change
            for change in self._by_subject.get((event.cluster_id or "", event.topic), ())
            if _same(change.spec.topic_id, event.topic_id) and _held(change, _until_grown(change), event)
        ]
        begin, reached = len(event.old.partitions), len(event.new.partitions)
        last: Change | None = None
        while reached > begin:
            step = max(
                (c for c in asked if c.spec.to_count == reached and c.spec.from_count >= begin),
                key=lambda change: change.requested_ms,
                default=None,
            )
            if step is None:
                return None
            last = last or step
            reached = step.spec.from_count
        return last


def _until_grown(change: Change) -> int | None:
    return change.finished_ms if change.observed_ms is None else change.observed_ms


def _held(change: Change, end_ms: int | None, event: ev.Event) -> bool:
    """Return whether the event may have happened between the request and the end, None: not yet."""
    if change.requested_ms > 1_000 * event.wall_time.timestamp() + CLOCKS_DIFFER_MS:
        return False
    if end_ms is None or event.previous_at is None:
        return True
    return end_ms > 1_000 * event.previous_at.timestamp() - CLOCKS_DIFFER_MS


def _same(one: str | None, other: str | None) -> bool:
    """Return whether two topic ids may be of one topic; None: not known."""
    return None in {one, other} or one == other
