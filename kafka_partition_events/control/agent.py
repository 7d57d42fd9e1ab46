"""The agent: beside a poller, it holds and opens gates, and tells the tracker what this process does."""

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog
from attrs import evolve

from kafka_partition_events.control.codec import Skipped, decode_or_skip, encode, key_of
from kafka_partition_events.control.duties import Duties
from kafka_partition_events.control.link import ControlLink
from kafka_partition_events.control.records import Ack, Change, Lease
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import PartitionsAdded, Resync, TopicAdded, TopicRecreated
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

BUSY_S: Final = 2.0
"""How long after a look the next one comes while a change of this process's topics is open."""

READ_LIMIT_S: Final = 2.0
START_LIMIT_S: Final = 5.0
_RETRY_S: Final = 10.0
_ADOPTING_S: Final = 0.25

_log = structlog.get_logger(__name__)


class InstanceAgent(PartitionChangeListener):
    """Follows changes for one poller, and for all partitioners that are registered there.

    It is made after the producer that is to be gated::

        agent = InstanceAgent(producer.poller, link, lease)
        agent.start()  # before the first record

    It looks at ``kpe.changes`` every 30 s or so, every 2 s while a change of its topics is open, and at once
    when its poller sees a topic grow. Each look costs one request if there is nothing new. It never makes
    ``send`` wait or fail, and without the control topics the application runs as if it were not there: with a
    line in the log, again when they are back.

    Thread-safe. A forked child is an instance of its own, with its process id behind the instance id.
    """

    def __init__(
        self,
        poller: MetadataPoller,
        link: ControlLink,
        lease: Lease,
        *,
        duties: Callable[[Lease], Duties] = Duties,
        clock: Clock | None = None,
    ) -> None:
        """Make an agent; nothing is asked before `start`.

        Args:
            poller: Whose partitioners are told what to do.
            link: Reaches the control topics; the agent closes it.
            lease: What to say of this process; what changes with time is filled in.
            duties: Makes what decides, for policies of the application: see `Duties`.
            clock: For tests.
        """
        self.skipped = Skipped()
        """Records of ``kpe.changes`` that were not understood."""
        self.last_error: str | None = None
        """Why the control topics could not be read the last time; None when they could."""
        self._poller = poller
        self._link = link
        self._instance_id = lease.instance_id
        self._duties = duties(evolve(lease, incarnation=uuid.uuid4().hex))
        self._clock = clock or SystemClock()
        self._running = False
        self._start_afresh()
        reset_in_children(self)

    def _start_afresh(self) -> None:
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._woken = False
        self._reached = False
        self._looks = 0
        self._awaited = 0
        # What became of published records: appended on any thread, taken by ours.
        self._heard: deque[tuple[Ack | None, int | None]] = deque()

    def reset_after_fork(self) -> None:
        """Be another process: the poller's `Resync` starts the thread there."""
        self._start_afresh()
        instance_id = f"{self._instance_id}/{os.getpid()}"
        fresh = evolve(self._duties.lease, instance_id=instance_id, lease_seq=0, born_ms=None)
        self._duties.begin_again(evolve(fresh, incarnation=uuid.uuid4().hex))

    # -- life ----------------------------------------------------------------------------------------

    def start(self, limit: float = START_LIMIT_S) -> bool:
        """Start the thread, and wait until what holds now is known and done.

        Args:
            limit: Seconds to wait at most.

        Returns:
            Whether the control topics could be read. If not, nothing is held until they can be.

        Raises:
            PollerClosedError: the poller has been closed.
            ConfigurationError: the agent was started before.
        """
        self._poller.register(self, replay=False)
        self._running = True
        self._wake()
        with self._condition:
            self._condition.wait_for(lambda: self._looks > 0, limit)
            return self._looks > 0 and self.last_error is None

    def close(self) -> None:
        """Stop, and say so; the poller's `close` calls it. Idempotent.

        What holds for partitioners stays: whoever goes on producing without an agent does not open a gate.
        """
        with self._condition:
            if not self._running:
                return
            thread, self._thread, self._running = self._thread, None, False
            self._condition.notify_all()
        if thread is not None:
            thread.join(READ_LIMIT_S + 1.0)
        last = self._duties.last_lease()
        self._link.publish("leases", key_of(last), encode(last), lambda _at_ms: None)
        self._link.close()

    def on_topic_added(self, event: TopicAdded) -> None:
        """Look for changes of a topic that is written from now on."""
        self._wake()

    def on_topic_recreated(self, event: TopicRecreated) -> None:
        """Look what still holds."""
        self._wake()

    def on_partitions_added(self, event: PartitionsAdded) -> None:
        """Look whether somebody has asked for the growth."""
        self._wake()

    def on_resync(self, event: Resync) -> None:
        """Look at everything."""
        self._wake()

    def _wake(self) -> None:
        with self._condition:
            self._woken = True
            self._condition.notify_all()
            if self._thread is None and self._running:
                self._thread = threading.Thread(target=self._run, name="kpe-agent", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._thread is threading.current_thread():
            with self._condition:
                self._woken = False
            try:
                again_at = self._look()
            except Exception as error:  # noqa: BLE001 - a bug must not end the agent: gates would stay held
                _log.error("agent_failed", error=repr(error))
                again_at = self._clock.monotonic() + BUSY_S
            with self._condition:
                self._looks += 1
                self._condition.notify_all()
                while self._thread is threading.current_thread() and not self._woken:
                    left = again_at - self._clock.monotonic()
                    if left <= 0:
                        break
                    self._clock.wait(self._condition, left)

    # -- a look --------------------------------------------------------------------------------------

    def _look(self) -> float:
        """Read, set limits, report; return when to look again."""
        self._read()
        if not self._reached:
            # A record for a topic that is not there might create it, and not as it should be.
            return self._clock.monotonic() + _RETRY_S
        self._take_deliveries()
        now, cluster = self._clock.monotonic(), self._poller.cluster
        used = self._limit(cluster, now)
        if used is None:
            return now + _ADOPTING_S
        reports = self._duties.reports(cluster, used, now)
        for ack in reports.acks:
            self._link.publish("acks", key_of(ack), encode(ack), self._noting(ack))
        if (lease := reports.lease) is not None:
            self._link.publish("leases", key_of(lease), encode(lease), self._noting(None))
        return min(reports.again_at, now + BUSY_S) if reports.busy else reports.again_at

    def _read(self) -> None:
        try:
            appended = self._link.read_changes(READ_LIMIT_S if self._reached else START_LIMIT_S)
        except ControlTopicError as error:
            if self.last_error is None:
                _log.warning("control_topics_unreachable", error=str(error))
            self.last_error = str(error)
            return
        self._reached = True
        if self.last_error is not None:
            _log.info("control_topics_reachable")
            self.last_error = None
        for key, value in appended:
            if value is None:
                self._duties.ledger.take_tombstone(key.decode(errors="replace").rpartition("|")[2])
            elif (change := decode_or_skip(Change, value, self.skipped)) is not None:
                self._duties.ledger.take_change(change)

    def _limit(self, cluster: Cluster | None, now: float) -> dict[str, int] | None:
        """Set the limits; return how many partitions of each topic the most modest partitioner uses.

        None while one is about to adopt the snapshot: it would seem to be capped.
        """
        limits = self._duties.limits(cluster, now)
        used: dict[str, int] = {}
        for registration in self._poller.registrations:
            partitioner = registration.listener
            if not isinstance(partitioner, Partitioner):
                continue
            for event in partitioner.limit(limits):
                self._poller.emit(event)
            if cluster is None or partitioner.generation is None:
                continue
            if partitioner.generation != cluster.generation != self._awaited:
                self._awaited = cluster.generation  # once: it may have failed to
                return None
            for topic in cluster.by_topic:
                if (route := partitioner.route(topic)) is not None:
                    used[topic] = min(len(route.admitted), used.get(topic, len(route.admitted)))
        return used

    def _noting(self, ack: Ack | None) -> Callable[[int | None], None]:
        return lambda at_ms: self._heard.append((ack, at_ms))

    def _take_deliveries(self) -> None:
        while self._heard:
            ack, at_ms = self._heard.popleft()
            if ack is None and at_ms is not None:
                self._duties.was_born(at_ms)
            elif ack is not None and at_ms is None:
                self._duties.was_lost(ack, self._clock.monotonic())
