"""The poller: asks the source, lets the gate decide, publishes what changed. The only thread that polls."""

import contextlib
import os
import random
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Self

from attrs import evolve

import kafka_partition_events.metadata.forking  # noqa: F401 - its hook must run before the one below
from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.dispatch import Mailbox
from kafka_partition_events.metadata.events import Event, MetadataUnavailable
from kafka_partition_events.metadata.health import Health
from kafka_partition_events.metadata.intake import Intake
from kafka_partition_events.metadata.listener import PartitionChangeListener, Registration
from kafka_partition_events.metadata.pacing import Pacing
from kafka_partition_events.metadata.publisher import CAPACITY, Publisher, check_feeder
from kafka_partition_events.metadata.source import MetadataSource, Observation

__all__ = ["Health", "MetadataPoller"]

LEAST_MAX_AGE_S = 300.0
MAX_AGE_INTERVALS = 10

_log = get_logger(__name__)


class MetadataPoller:
    """Looks at the cluster's metadata and tells partitioners and listeners what changed.

    Thread-safe. Use as a context manager, or call `start` and `close`; both are idempotent. A closed poller
    stays readable. In a forked child the thread is started anew.
    """

    def __init__(
        self,
        source: MetadataSource,
        topics: Iterable[str] | None = None,
        interval: float = 30.0,
        *,
        max_age: float | None = None,
        fetch_timeout: float = 10.0,
        min_interval: float = 0.25,
        resume: Cluster | None = None,
        resume_at: datetime | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make a poller; nothing is asked before `start` or `poll_once`.

        Args:
            source: Whom to ask. The poller closes it.
            topics: What to ask for; None asks for all topics, which is for watchers: inside a producer,
                name the producer's own (or `track` them).
            interval: Seconds between polls when all is well, give or take 10%.
            max_age: Seconds after which a snapshot is not trusted any more (`MetadataStale`); None: ten
                intervals, and at least 300.
            fetch_timeout: Seconds that one fetch may take.
            min_interval: Seconds between polls at the least.
            resume: A stored snapshot, of all topics unless ``topics`` names some. The first good answer is
                told as what changed since, after a `MetadataRecovered`; under the rules of the staleness
                gate, so a topic that is missing stays for a while. Until then nobody sees the stored
                snapshot: it may be hours old, and no record is routed by it. One of another cluster is
                ignored. Named topics that it lacks may just not have been asked for: they are seen, not
                created.
            resume_at: When the look that confirmed ``resume`` last began, an aware time.
            clock: For tests.
            rng: Source of the jitter, for tests.

        Raises:
            ConfigurationError: an argument is out of range.
        """
        if max_age is None:
            max_age = max(LEAST_MAX_AGE_S, MAX_AGE_INTERVALS * interval)
        seconds = {"interval": interval, "fetch_timeout": fetch_timeout, "min_interval": min_interval}
        for name, value in seconds.items():
            if not value > 0:
                raise ConfigurationError(f"{name} must be more than 0 seconds, not {value}")
        if not max_age >= interval:
            raise ConfigurationError(
                f"max_age must be at least the interval of {interval} seconds, not {max_age}: "
                "the snapshot would turn stale between any two polls"
            )
        if isinstance(topics, str):
            raise ConfigurationError(f"topics must be a list of names, not the text {topics!r}")
        self._source = source
        self._topics = None if topics is None else frozenset(topics)
        self._wanted = self._topics  # with what the followers write; what the latest fetch asked for
        self._followers: tuple[Follower, ...] = ()
        stored = _stored(resume, resume_at, self._topics)
        self._fetch_timeout = fetch_timeout
        self._clock: Clock = clock or SystemClock()
        self._news = Publisher(self._clock)
        self._pacing = Pacing(interval, min_interval, rng or random.Random())
        self._intake = Intake(self._news, self._pacing, self._clock, max_age, stored)
        self._thread: threading.Thread | None = None
        self._source_closed = False
        self._last_closes = False
        self._in_flight = 0  # fetches, on any thread
        self._wake = False
        self._refresh_reason: str | None = None
        self._begun = 0  # fetches begun
        self._done = 0  # the latest of them that is finished
        _pollers.add(self)

    @property
    def _lock(self) -> threading.Condition:
        return self._news.lock  # one lock for state and news; see publisher.py

    # -- reading -------------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster | None:
        """The snapshot in force; None until the first answer."""
        cluster = self._news.cluster
        return None if cluster.generation == 0 else cluster

    @property
    def source(self) -> MetadataSource:
        """Whom it asks."""
        return self._source

    @property
    def health(self) -> Health:
        """How the poller is doing."""
        stale = not self._news.trusted and not self._news.closed
        internal_errors = self._news.internal_errors
        return evolve(
            self._intake.health,
            running=self._running,
            stale=stale,
            internal_errors=internal_errors,
            refresh_reason=self._refresh_reason,
        )

    @property
    def _running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    # -- listeners -----------------------------------------------------------------------------------

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """The handles of everybody who is registered now, partitioners included. Takes no lock."""
        return self._news.mailboxes

    def register(
        self, listener: PartitionChangeListener, replay: bool = True, capacity: int = CAPACITY
    ) -> Registration:
        """Register a listener or a partitioner.

        A partitioner has its table when this returns (if there is a snapshot). A listener's worker then
        delivers the current state with ``initial=True``, and every later event, without a gap.

        Args:
            listener: Who wants to know.
            replay: Whether to deliver the current state first.
            capacity: How many undelivered events to hold before they collapse to one `Resync`.

        Raises:
            PollerClosedError: the poller has been closed.
            ConfigurationError: ``capacity`` is less than 1, or the listener is registered already.
        """
        if capacity < 1:
            raise ConfigurationError(f"capacity must be at least 1 event, not {capacity}")
        with self._lock:
            self._check_open()
            return self._news.register(listener, replay=replay, capacity=capacity)

    def join(
        self,
        partitioner: PartitionChangeListener,
        topics: Callable[[], Iterable[str]],
        looked: Callable[[], None] = lambda: None,
        *,
        last_closes: bool = False,
    ) -> "Follower":
        """Let a partitioner follow this poller for one producer, of any number that share it.

        Args:
            partitioner: Who has its table when this returns, if there is a snapshot.
            topics: Returns the topics that the producer writes; asked before each fetch, under a lock. One
                that nobody writes any more is forgotten, and listeners get a `Resync`.
            looked: Called after each fetch, without the lock, on the thread that made it.
            last_closes: Whether the poller is to be closed by the last producer that leaves, whichever it is.

        Raises:
            PollerClosedError: the poller has been closed.
            ConfigurationError: the partitioner follows another poller.
        """
        with self._lock:
            self._check_open()
            follower = Follower(self, self._news.join(partitioner), topics, looked)
            self._last_closes = self._last_closes or last_closes
            self._followers = (*self._followers, follower)
            return follower

    def _leave(self, follower: "Follower", mailbox: Mailbox, timeout: float) -> None:
        with self._lock:
            self._followers = tuple(other for other in self._followers if other is not follower)
        if not self._news.leave(mailbox) and self._last_closes:
            self.close(timeout)

    def emit(self, event: Event) -> None:
        """Stamp an event and deliver it to every listener.

        Never waits for a listener or for the cluster; ignored after `close`.
        """
        self._news.emit(event)

    def track(self, *topics: str) -> None:
        """Ask for these topics too, beginning at once. No effect when all topics are asked for."""
        with self._lock:
            if self._topics is None or self._topics.issuperset(topics):
                return
            self._topics |= frozenset(topics)
        self.refresh("topics tracked")

    # -- polling -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the polling thread; the first fetch begins at once.

        Raises:
            PollerClosedError: the poller has been closed.
        """
        with self._lock:
            self._check_open()
            if not self._running:
                thread = threading.Thread(target=self._run, name="kpe-poller", daemon=True)
                thread.start()
                self._thread = thread

    def refresh(self, reason: str, wait: float | None = None) -> bool:
        """Ask for a poll soon. Requests that come before it begins are served by the same one.

        Without a running thread there is nobody to poll soon: with ``wait`` the poll is made here, by the
        caller; without it, the first poll after `start` serves the request.

        Args:
            reason: Why, for `health`.
            wait: Seconds to wait until a poll that began after this call is finished; None returns at once.

        Returns:
            Whether such a poll is known to be finished.

        Raises:
            PollerClosedError: the poller has been closed.
        """
        with self._lock:
            self._check_open()
            running = self._running
            target = self._begun + 1
            self._wake, self._refresh_reason = True, reason
            self._lock.notify_all()
            if wait is None:
                return False
            if running:
                return self._lock.wait_for(lambda: self._done >= target or self._news.closed, wait) and (
                    self._done >= target
                )
        self.poll_once()
        return True

    def poll_once(self) -> tuple[Event, ...]:
        """Fetch once, on this thread, and publish what follows. `start` makes a thread that loops on it.

        Returns:
            The events that were published, none if the fetch failed and that was known.

        Raises:
            PollerClosedError: the poller has been closed.
        """
        with self._lock:
            self._check_open()
            topics = self._topics_now()
            self._wake = False
            self._begun += 1
            self._in_flight += 1
            ticket = self._begun
            started_at, began = self._intake.begin()
        try:
            try:
                answer: Observation | BaseException = self._source.fetch(
                    topics, started_at=started_at, timeout=self._fetch_timeout
                )
            except BaseException as error:
                # A source is foreign code: any error means "no answer", and on our own thread so does what
                # would end it. The caller of `poll_once` gets his interrupt.
                if not isinstance(error, Exception) and threading.current_thread() is not self._thread:
                    raise
                answer = error
            took = self._clock.monotonic() - started_at
            with self._lock:
                events, trouble = self._intake.take(answer, began, took)
                if not events:
                    self._news.settle()
        finally:
            with self._lock:
                self._in_flight -= 1
                self._done = max(self._done, ticket)
                self._lock.notify_all()
            self._close_idle_source()
        for follower in self._followers:
            follower.looked()
        if any(isinstance(event, MetadataUnavailable) for event in events):  # once; I/O, so after the lock
            _log.warning("metadata_unavailable", error=str(trouble), failures=self.health.failures)
        return events

    def _topics_now(self) -> frozenset[str] | None:
        """Return what to ask for, and forget what nobody wants to know any more."""
        if self._topics is not None and self._wanted is not None:
            wanted = self._topics.union(*(follower.topics() for follower in self._followers))
            self._intake.forget(self._wanted - wanted)
            self._wanted = wanted
        return self._wanted

    def _run(self) -> None:
        while not self._news.closed:
            try:
                self.poll_once()
                self._sleep()
            except PollerClosedError:  # closed between the check and the poll
                break
            except Exception as error:  # noqa: BLE001 - only `close` ends the thread: nobody would start it again
                _log.critical("poll_abandoned", error=repr(error), exception=traceback.format_exc())
                with self._lock:
                    self._news.internal_errors += 1
                    self._clock.wait(self._lock, self._pacing.floor)
        self._close_idle_source()

    def _sleep(self) -> None:
        with self._lock:
            began = self._clock.monotonic()
            while not self._news.closed:
                waited = self._clock.monotonic() - began
                due = self._pacing.floor if self._wake else self._intake.health.next_delay
                if waited >= due:
                    return
                # At the latest when the snapshot turns stale, even if the next poll is far away.
                self._clock.wait(self._lock, min(due - waited, self._intake.check_age()))

    # -- the end -------------------------------------------------------------------------------------

    def close(self, timeout: float = 5.0) -> None:
        """Stop polling, deliver what is queued, close listeners and source. Idempotent.

        Allowed inside a listener's callback. A fetch that hangs or a listener that is stuck is left behind
        on its daemon thread; the source is then closed when its fetch returns.

        Args:
            timeout: Seconds that all of this may take.
        """
        with self._lock:
            if self._news.closed:
                return
            thread, deadline = self._thread, self._clock.monotonic() + timeout
            self._news.closed = True
            self._lock.notify_all()
        self._news.close(deadline)
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        if not self._running:
            self._close_idle_source()

    def _close_idle_source(self) -> None:
        """Close the source, once, if the poller is closed and no fetch is in flight; none begins any more."""
        with self._lock:
            if not self._news.closed or self._in_flight or self._source_closed:
                return
            self._source_closed = True
        try:
            self._source.close()
        except Exception as error:  # noqa: BLE001 - a source is foreign code
            _log.warning("source_close_failed", error=repr(error))

    def __enter__(self) -> Self:
        """Start polling."""
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def _check_open(self) -> None:
        if self._news.closed:
            raise PollerClosedError("this MetadataPoller has been closed; make a new one")

    def after_fork_in_child(self) -> None:
        """Make the poller work in a forked child, where only the forking thread exists."""
        was_running, self._thread = self._thread is not None, None
        if self._last_closes:  # it was made for a producer, and that does not work in a child process
            self._news.closed, was_running = True, False
        self._wake, self._begun, self._done, self._in_flight = False, 0, 0, 0
        self._news.reset_after_fork()
        if was_running and not self._news.closed:
            self.start()


def _stored(
    resume: Cluster | None, resume_at: datetime | None, topics: frozenset[str] | None
) -> tuple[Cluster, datetime] | None:
    """Return what to resume from, without topics that nobody asks for any more: they would never change."""
    if resume is None and resume_at is None:
        return None
    if resume is None or resume_at is None or resume_at.tzinfo is None:
        raise ConfigurationError("resume and resume_at go together: a snapshot, and an aware time")
    if topics is not None:
        known = {name: info for name, info in resume.by_topic.items() if name in topics}
        resume = evolve(resume, by_topic=known)
    return resume, resume_at


def check_free(partitioner: PartitionChangeListener, poller: MetadataPoller | None) -> None:
    """Raise if a partitioner follows another poller than this one.

    Raises:
        ConfigurationError: it does.
    """
    check_feeder(partitioner, None if poller is None else poller._news)  # noqa: SLF001 - of this file


class Follower:
    """One producer's use of a poller. Thread-safe."""

    def __init__(
        self,
        poller: MetadataPoller,
        mailbox: Mailbox,
        topics: Callable[[], Iterable[str]],
        looked: Callable[[], None],
    ) -> None:
        self._poller: MetadataPoller | None = poller
        self._mailbox = mailbox
        self._lock = threading.RLock()
        self.topics = topics
        """Returns the topics that the producer writes."""
        self.looked = looked
        """Is to be called after each fetch."""

    def is_over(self) -> bool:
        """Tell whether the poller is closed, or was left."""
        poller = self._poller
        return poller is None or poller._news.closed  # noqa: SLF001 - of this file

    def look_for(self, topic: str) -> None:
        """Let a topic be looked for that the producer has begun to write."""
        poller = self._poller
        if poller is not None and poller._wanted is not None and topic not in poller._wanted:  # noqa: SLF001
            with contextlib.suppress(PollerClosedError):
                poller.refresh(f"topic {topic} is written")

    def leave(self, timeout: float = 1.0) -> None:
        """Use it no more; the last one to do so may close the poller, within so many seconds. Idempotent.

        A fetch that hangs ends by itself then, and touches no producer any more.
        """
        with self._lock:
            poller, self._poller = self._poller, None
        if poller is not None:
            poller._leave(self, self._mailbox, timeout)  # noqa: SLF001 - of this file


_pollers: "weakref.WeakSet[MetadataPoller]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for poller in list(_pollers):
        poller.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
