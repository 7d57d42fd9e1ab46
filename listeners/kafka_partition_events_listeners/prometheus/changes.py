"""A collector of ``prometheus_client`` for the tracker of changes."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import Metric

from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.control.tracker.status import SKIPPED, TrackerStatus
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.families import Family, Part, Reading, Scraper, single

MOST_CHANGES: Final = 100
"""Of how many open changes there are series, the oldest first. There is one for each topic."""


class ChangeCollector:
    """Exposes a tracker and its open changes to Prometheus; register it with a registry.

    Scrapes come from any thread. A tracker that stands by shows no changes.
    """

    def __init__(self, read: Callable[[], TrackerStatus]) -> None:
        """Make a collector.

        Args:
            read: Returns how the tracker stands; called once for each scrape.
        """
        self._read = read
        self._scraper = Scraper()

    def describe(self) -> list[Metric]:
        """Return all families without series."""
        return [family.metric() for family in (*fam.TRACKER, *fam.OPEN_CHANGE)]

    def collect(self) -> list[Metric]:
        """Return the families and their series as they are now."""
        status = self._read()
        parts: list[Part] = [lambda: tracker_readings(status), lambda: change_readings(status)]
        return self._scraper.run(parts, status.cluster_id or "unknown")


def tracker_readings(found: TrackerStatus) -> Iterable[Reading]:
    """Return the readings of the tracker; all words are there at 0 before they occur."""
    states = Counter(change.state for change in found.changes.values())
    yield single(fam.TRACKER_ELECTED, found.elected)
    yield single(fam.TRACKER_SETBACKS, found.setbacks)
    yield fam.CHANGES, {(str(state),): states[state] for state in State} if found.elected else {}
    yield single(fam.COMMANDS_REFUSED, found.refused)
    yield fam.CONTROL_SKIPPED, {(reason,): found.skipped.get(reason, 0) for reason in SKIPPED}
    yield fam.INSTANCES, {(role,): count for role, count in found.instances.items()}


def change_readings(found: TrackerStatus) -> Iterable[Reading]:
    """Return the readings of each open change."""
    waiting = sorted(
        (change for change in found.changes.values() if not change.state.final),
        key=lambda change: change.requested_ms,
    )[:MOST_CHANGES]
    now_ms = found.now_ms or 0

    def each(family: Family, value: Callable[[Change], float]) -> Reading:
        return family, {(change.change_id,): value(change) for change in waiting}

    yield fam.CHANGE_INFO, {_info(change): 1 for change in waiting}
    yield each(fam.CHANGE_AGE, lambda change: _seconds(change.requested_ms, now_ms))
    yield (
        fam.CHANGE_DEADLINE,
        {
            (change.change_id,): change.deadline_ms / 1_000
            for change in waiting
            if change.deadline_ms is not None
        },
    )
    yield each(fam.CHANGE_GATE_HELD, lambda change: _held(change, now_ms))
    yield each(fam.CHANGE_PENDING, lambda change: change.totals.pending + change.totals.held)
    yield each(fam.CHANGE_APPLIED, lambda change: change.totals.applied)
    yield each(fam.CHANGE_CAPPED, lambda change: change.totals.capped)
    yield each(fam.CHANGE_UNCOVERED, lambda change: len(change.uncovered_groups))


def _info(change: Change) -> tuple[str, ...]:
    return change.change_id, change.spec.topic, str(change.state)


def _held(change: Change, now_ms: int) -> float:
    waits = change.observed_ms is not None and change.holds
    return _seconds(change.observed_ms or 0, now_ms) if waits else 0.0


def _seconds(since_ms: int, now_ms: int) -> float:
    return max(0, now_ms - since_ms) / 1_000
