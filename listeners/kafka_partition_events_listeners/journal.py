"""The journal: every event into an outbox, together with the snapshot that the events led to.

Nothing is lost on the way, whatever the moment at which the process dies. Events and snapshot are written in
one transaction, so the stored snapshot is always the one that the stored events lead to. What was seen and
not written yet differs from the stored snapshot, and the next poller, resumed from it, finds it again::

    poller = MetadataPoller(source, resume=load_snapshot(outbox))
    poller.register(JournalListener(outbox))  # before the first answer, which becomes events of what changed
    poller.start()

An event that came twice by that has the same id, as far as Kafka's metadata identifies it (`to_cloudevent`).

The snapshot lies in the outbox's small states: ``topic/NAME`` for each topic, and ``nodes`` for the rest.
After a broker loss its topics take a third of the time of a write, so a partition is a row of values there.

What one poll finds for one cause is one entry (`fold`): the loss of a broker among 200,000 partitions is
8,000 transitions, and 800 of those.
"""

import contextlib
import json
import traceback
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve, frozen

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.events.names import name_of
from kafka_partition_events.events.snapshot_json import Snapshot, decode_snapshot, encode_snapshot
from kafka_partition_events.json_text import json_in
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Resync
from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events_listeners.cloudevents_listener import Labels, ObservingListener

NODES: Final = "nodes"
TOPIC: Final = "topic/"
MAX_WAITING: Final = 100_000
"""How many events wait at most after a write that failed. The oldest go."""
PAUSE_S: Final = 5.0

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False)

_log = get_logger(__name__)


@frozen(kw_only=True)
class JournalStats:
    """What became of the events so far.

    Attributes:
        written: Events that the outbox took.
        waiting: Events that it has not taken yet.
        lost: Events that had to go while it took none.
        last_error: Why the last write failed; None if it did not.
        holds_to: When the latest poll began of which the outbox has everything; None before the first.
    """

    written: int = 0
    waiting: int = 0
    lost: int = 0
    last_error: str | None = None
    holds_to: datetime | None = None


class JournalListener(ObservingListener):
    """Writes every event to an outbox, and the snapshot: one write for each batch of events.

    While the outbox can't be written (a full disk, say), events wait in memory and the write is tried again
    at the next poll, but not more often than every 5 s. Polls that bring no news renew the time of the stored
    snapshot as often, so that a resumed poller knows for how long there was no poll.

    Register it before the poller's first answer. In place of a backlog that its mailbox dropped, it finds out
    by itself what had changed. One poller at a time, in the process that made it.
    `stats` may be read from any thread.
    """

    def __init__(
        self,
        outbox: SqliteOutbox,
        *,
        observer: str | None = None,
        labels: Labels | None = None,
        values: Mapping[str, bytes] = MappingProxyType({}),
        clock: Clock | None = None,
    ) -> None:
        """Make a listener.

        Args:
            outbox: Where to write; it stays yours to close.
            observer: The name of this observer, for ``data.observer``; useful when there are several.
            labels: What else to say of each event, see `ObservingListener`.
            values: Small states of yours that are stored together with each snapshot.
            clock: For tests.
        """
        super().__init__(observer=observer, labels=labels, clock=clock)
        self._outbox, self._beside = outbox, values
        self._observed: list[Observed] = []
        self._waiting: list[Entry] = []
        self._cluster: Cluster = EMPTY  # what the events so far lead to
        self._polled_at: datetime | None = None
        self._stored: Cluster | None = None  # what the outbox holds; None: not known yet
        self._tried_at = float("-inf")
        self._written = 0
        self._lost = 0
        self._last_error: str | None = None
        self._holds_to: datetime | None = None

    @property
    def stats(self) -> JournalStats:
        """What became of the events so far."""
        return JournalStats(
            written=self._written,
            waiting=len(self._waiting),
            lost=self._lost,
            last_error=self._last_error,
            holds_to=self._holds_to,
        )

    def on_observed(self, observed: Observed) -> None:
        """Keep the event until all that belongs to it has come."""
        self._observed.append(observed)

    def _fold(self) -> None:
        """Make entries of what a poll has found; what none can be made of is lost, and the rest is not."""
        found, self._observed = self._observed, []
        try:
            self._waiting += fold(found, observer=self._observer)
        except Exception as error:  # noqa: BLE001 - a bug: it must not cost a whole poll, which others then miss
            _log.error(
                "poll_not_folded", events=len(found), error=repr(error), exception=traceback.format_exc()
            )
            for observed in found:
                try:
                    self._waiting += fold([observed], observer=self._observer)
                except Exception as alone:  # noqa: BLE001 - the same
                    _log.error("event_not_journalled", name=name_of(observed.event), error=repr(alone))
                    self._lost += 1

    def on_resync(self, event: Resync) -> None:
        """Journal that events were dropped, and what they must have been, as far as the snapshot shows."""
        self.on_event(event)
        if self._cluster.generation == 0:
            self._resume(event.cluster)
        self._blind_from = self._polled_at
        missed = diff(
            self._cluster,
            event.cluster,
            observed_at=event.observed_at,
            wall_time=event.wall_time,
            previous_at=self._polled_at,
            initial=self._cluster.generation == 0,
        )
        for change in missed:
            self.on_event(evolve(change, sequence=event.sequence))

    def _resume(self, cluster: Cluster) -> None:
        """Go on from the stored snapshot: the first answer, which shows what changed since, was dropped, too.

        Not if that is of another cluster, or was stored with other `values`: of other topics, say.
        """
        with contextlib.suppress(OutboxError):  # all that there is passes for the state at the start then
            beside = {name: self._outbox.values(name).get(name) for name in self._beside}
            stored = load_snapshot(self._outbox) if beside == self._beside else None
            if stored is not None and stored[0].cluster_id == cluster.cluster_id:
                self._cluster, self._polled_at = stored

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        """Write the events that have come, if there are any or the stored time is old."""
        self._cluster, self._polled_at = cluster, polled_at
        self._fold()
        news = self._waiting and self._last_error is None
        if news or self._clock.monotonic() - self._tried_at >= PAUSE_S:
            self._write()
        if not self._waiting and self._last_error is None:
            self._holds_to = polled_at

    def close(self) -> None:
        """Write what is left. The outbox stays open."""
        self._fold()
        self._write()
        if self._waiting:
            _log.error("journal_abandoned", events=len(self._waiting), error=self._last_error)

    def _write(self) -> None:
        self._tried_at = self._clock.monotonic()
        try:
            self._outbox.write(tuple(self._waiting), values=self._values())
        except Exception as error:  # noqa: BLE001 - a bug must not let events pile up unseen
            self._fail(str(error) if isinstance(error, OutboxError) else repr(error))
            return
        if self._last_error is not None:
            _log.warning("journal_written_again", events=len(self._waiting), lost_ever=self._lost)
        self._last_error = None
        self._written += len(self._waiting)
        self._waiting = []
        if self._polled_at is not None:
            self._stored = self._cluster

    def _fail(self, error: str) -> None:
        if self._last_error is None:
            _log.error("journal_not_written", error=error, waiting=len(self._waiting))
        self._last_error = error
        kept = self._waiting[-MAX_WAITING:]
        self._lost += len(self._waiting) - len(kept)
        self._waiting = kept

    def _values(self) -> dict[str, bytes | None]:
        if self._polled_at is None:  # no good poll yet: what is stored stays
            return {}
        rest = Snapshot(evolve(self._cluster, by_topic={}), self._polled_at)
        return {**self._changed_topics(), **self._beside, NODES: _json(encode_snapshot(rest))}

    def _changed_topics(self) -> dict[str, bytes | None]:
        if self._stored is not None:
            return _differences(self._stored, self._cluster)
        # The first time, what an earlier process left is brought in line.
        stored = self._outbox.values(TOPIC)
        whole = _differences(EMPTY, self._cluster)
        changed = {name: value for name, value in whole.items() if stored.get(name) != value}
        return {**dict.fromkeys(stored.keys() - whole.keys()), **changed}


def load_snapshot(outbox: SqliteOutbox) -> tuple[Cluster, datetime] | None:
    """Return the snapshot that a `JournalListener` stored last, and when the poll began that confirmed it.

    None if there is none, or (logged) none that this version can read.

    Raises:
        OutboxError: the outbox can't be read.
    """
    rest = outbox.values(NODES).get(NODES)
    if rest is None:
        return None
    try:
        snapshot = decode_snapshot(json_in(rest))
        seen: dict[tuple[Any, ...], tuple[int, ...]] = {}
        topics = [_from_rows(json_in(topic), seen) for topic in outbox.values(TOPIC).values()]
    except (ValueError, TypeError, KeyError) as error:
        _log.error("stored_snapshot_unreadable", error=str(error))
        return None
    if snapshot.taken_at is None:
        return None
    return evolve(snapshot.cluster, by_topic=topics), snapshot.taken_at


def _differences(old: Cluster, new: Cluster) -> dict[str, bytes | None]:
    """Return the topics that differ, None for those that are gone, by the names of their small states."""
    gone = {TOPIC + name: None for name in old.by_topic.keys() - new.by_topic.keys()}
    changed = {
        TOPIC + name: _json(_to_rows(info))
        for name, info in new.by_topic.items()
        if old.by_topic.get(name) is not info  # unchanged topics keep their object
    }
    return {**gone, **changed}


def _to_rows(info: TopicInfo) -> dict[str, Any]:
    rows = [(p.leader, p.leader_epoch, p.replicas, p.isr) for p in info.partitions]
    return {"name": info.name, "topic_id": info.topic_id, "partitions": rows}


def _from_rows(document: Any, seen: dict[tuple[Any, ...], tuple[int, ...]]) -> TopicInfo:
    """Return a stored topic, in a tenth of the time of `decode_snapshot`: a restart waits for 200,000 rows.

    Args:
        document: What `_to_rows` made, as JSON gives it back.
        seen: The lists of brokers so far, which few partitions have for themselves.

    Raises:
        ValueError, TypeError, KeyError: it is something else.
    """
    name, topic_id = document["name"], document["topic_id"]
    if not (isinstance(name, str) and isinstance(topic_id, str | None)):
        raise TypeError(f"{name!r} is no topic's name, or {topic_id!r} no topic id")

    def brokers(found: Any) -> tuple[int, ...]:
        ids = tuple(found)
        if ids not in seen:
            if not all(type(each) is int for each in ids):
                raise TypeError(f"{found!r} are no broker ids")
            seen[ids] = ids
        return seen[ids]

    partitions = []
    for number, (leader, leader_epoch, replicas, isr) in enumerate(document["partitions"]):
        if not (isinstance(leader, int | None) and isinstance(leader_epoch, int | None)):
            raise TypeError(f"{leader!r} is no leader of {name}, or {leader_epoch!r} no epoch")
        both = brokers(replicas), brokers(isr)
        partitions.append(PartitionInfo(name, number, leader, *both, leader_epoch=leader_epoch))
    return TopicInfo(name, tuple(partitions), topic_id)


def _json(document: Mapping[str, object]) -> bytes:
    return _ENCODER.encode(document).encode()
