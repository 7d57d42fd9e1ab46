"""What is wrong with the observed cluster, kept up to date: since when each state has stood."""

import threading
from collections.abc import Callable, Mapping
from typing import Final

from attrs import field, frozen

from kafka_partition_events.diagnose.replicas import UNEXPOSED, Exposure, exposure_of
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.observe.alerts import BLIND, RECREATED_S, Alert, Cause, Wrong, alerts, wrong_in
from kafka_partition_events_listeners.prometheus.listener import was_refused

_BLIND: Final = Cause(BLIND)


@frozen(kw_only=True)
class Board:
    """What fires now.

    Attributes:
        alerts: What fires.
        complete: Whether all else is over; False while the cluster is not seen.
        wrong: What is wrong, before any hold-down; since when, on the poller's clock, is in `since`.
    """

    alerts: tuple[Alert, ...]
    complete: bool
    wrong: Mapping[Cause, Wrong] = field(factory=dict)
    since: Mapping[Cause, float] = field(factory=dict)


class AlertBoard(PartitionChangeListener):
    """Reads the poller's snapshot whenever it is asked. Thread-safe. A restart begins hold-downs again."""

    name = "alerts"

    def __init__(
        self,
        poller: MetadataPoller,
        *,
        cluster: Callable[[], str],
        silent_after: float,
        holds: Mapping[str, float],
        known: Cluster | None,
        clock: Clock,
    ) -> None:
        """Make a board.

        Args:
            poller: Whose snapshot it is.
            cluster: Returns what the cluster is called.
            silent_after: Seconds after the last good answer from which on the cluster is not seen.
            holds: Hold-downs in seconds, by setting.
            known: The snapshot of an earlier process: topics with a safe alternative there had one before.
            clock: The poller's.
        """
        self._poller, self._cluster, self._silent_after = poller, cluster, silent_after
        self._holds, self._clock = holds, clock
        self._lock = threading.Lock()
        self._since: dict[Cause, float] = {}
        self._recreated: dict[str, float] = {}
        self._exposure = UNEXPOSED if known is None else exposure_of(known)
        self._were_safe = _safe(self._exposure, frozenset())
        self._last: tuple[Cluster, frozenset[str], dict[Cause, Wrong]] | None = None

    def on_topic_recreated(self, event: ev.TopicRecreated) -> None:
        """Remember it for ten minutes: the snapshot does not show it."""
        with self._lock:
            self._recreated[event.topic] = self._clock.monotonic()

    def wrong(self) -> Mapping[Cause, Wrong]:
        """Return what is wrong now, before any hold-down; what is not seen is withheld."""
        with self._lock:
            return self._check(self._clock.monotonic())[0]

    def read(self) -> Board:
        """Return what fires now."""
        with self._lock:
            now = self._clock.monotonic()
            wrong, complete = self._check(now)
            posted = wrong if complete else {cause: wrong[cause] for cause in wrong if cause == _BLIND}
            fires = alerts(self._cluster(), posted, self._since, now, self._holds)
            return Board(alerts=fires, complete=complete, wrong=wrong, since={**self._since})

    # -- with the lock held ----------------------------------------------------------------------------

    def _check(self, now: float) -> tuple[Mapping[Cause, Wrong], bool]:
        """Return what is wrong, and whether the last poll said so.

        What stood goes on standing while polls fail, or answers are refused, as far as is known: one that
        fails must not restart a wait. But only what was just seen is posted: another observer may see that
        it is over.
        """
        health, cluster = self._poller.health, self._poller.cluster
        answered = health.last_success
        silent = cluster is None or answered is None or now - answered > self._silent_after
        seen = not (health.failures or was_refused(health))
        if silent or not seen:
            self._since.setdefault(_BLIND, now)
        if cluster is None or silent:
            return {_BLIND: Wrong(value=1)}, False
        wrong = self._wrong(cluster, now)
        if seen:
            self._since = {cause: self._since.get(cause, now) for cause in wrong}
        return wrong, seen

    def _wrong(self, cluster: Cluster, now: float) -> dict[Cause, Wrong]:
        self._recreated = {name: at for name, at in self._recreated.items() if now - at < RECREATED_S}
        recreated = frozenset(self._recreated)
        if self._last is None or self._last[0] is not cluster or self._last[1] != recreated:
            if self._exposure.cluster.cluster_id not in {None, cluster.cluster_id}:
                self._exposure, self._were_safe = UNEXPOSED, frozenset()  # what was stored is of another one
            old, new = self._exposure.cluster.by_topic, cluster.by_topic
            self._were_safe = frozenset(  # what is gone, or was recreated, has no past
                name
                for name in self._were_safe & new.keys()
                if len({old[name].topic_id, new[name].topic_id} - {None}) < 2
            )
            self._exposure = exposure_of(cluster, self._exposure)
            found = wrong_in(cluster, self._exposure, self._were_safe, sorted(recreated))
            self._were_safe = _safe(self._exposure, self._were_safe)
            self._last = cluster, recreated, found
        return self._last[2]


def _safe(exposure: Exposure, known: frozenset[str]) -> frozenset[str]:
    """Return the known topics, and those that have a safe alternative by all of their replicas.

    One without a leader in one poll is not blocked, nor are {2} and {3} of {1, 2} and {1, 3} while 1 is out
    of sync. Both are no alternative when all is well again.
    """
    topics = exposure.cluster.by_topic
    return known.union(
        name
        for name in topics.keys() - exposure.by_topic.keys() - known
        if all(p.leader is not None and set(p.isr) >= set(p.replicas) for p in topics[name].partitions)
    )
