"""The poller: asks the source, lets `step` decide, has told what changed. The only thread that polls.

One lock covers the state, which is only ever put in place of the one before, and everybody who is told of it:
first the snapshot, then every table, then every mailbox.
"""

import contextlib
import os
import random
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Self

from attrs import evolve

import kafka_partition_events.metadata.forking  # noqa: F401 - its hook must run before the one below
from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.dispatch import Mailbox
from kafka_partition_events.metadata.events import Event, MetadataUnavailable
from kafka_partition_events.metadata.listener import ClusterAdopter, Registrable, Registration
from kafka_partition_events.metadata.publisher import CAPACITY, Publisher, check_feeder
from kafka_partition_events.metadata.source import MetadataSource, Observation
from kafka_partition_events.metadata.state import JITTER, Health, News, State, Timing, step

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
        timing = Timing(interval, fetch_timeout, min_interval, max_age)
        if isinstance(topics, str):
            raise ConfigurationError(f"topics must be a list of names, not the text {topics!r}")
        self._source = source
        self._rng = rng or random.Random()
        self._topics = None if topics is None else frozenset(topics)
        self._wanted = self._topics  # with what the followers write; what the latest fetch asked for
        self._followers: tuple[Follower, ...] = ()
        self._clock: Clock = clock or SystemClock()
        # Who holds the lock puts a new one in its place; who reads it without has all of one moment.
        self._state = State(timing=timing, since=self._clock.monotonic())
        if resume is not None and resume_at is not None and resume_at.tzinfo is not None:
            self._state = self._state.resumed(resume, resume_at, self._topics)
        elif resume is not None or resume_at is not None:
            raise ConfigurationError("resume and resume_at go together: a snapshot, and an aware time")
        self._lock = threading.Condition()
        self._news = Publisher(self._lock, self._clock)
        self._thread: threading.Thread | None = None
        self._source_closed = False
        self._last_closes = False
        self._in_flight = 0  # fetches, on any thread
        self._wake = False
        self._refresh_reason: str | None = None
        self._begun = 0  # fetches begun
        self._done = 0  # the latest of them that is finished
        _pollers.add(self)

    # -- reading -------------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster | None:
        """The snapshot in force; None until the first answer."""
        state = self._state
        return state.cluster if state.confirmed else None

    @property
    def source(self) -> MetadataSource:
        """Whom it asks."""
        return self._source

    @property
    def health(self) -> Health:
        """How the poller is doing."""
        health = self._state.health
        return evolve(
            health,
            running=self._running,
            stale=health.stale and not self._news.closed,
            internal_errors=health.internal_errors + self._news.adoption_errors,
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

    def register(self, listener: Registrable, replay: bool = True, capacity: int = CAPACITY) -> Registration:
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
            return self._news.register(self._state, listener, replay=replay, capacity=capacity)

    def join(
        self,
        partitioner: ClusterAdopter,
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
            follower = Follower(self, self._news.join(self._state, partitioner), topics, looked)
            self._last_closes = self._last_closes or last_closes
            self._followers = (*self._followers, follower)
            return follower

    def _leave(self, follower: "Follower", mailbox: Mailbox, timeout: float) -> None:
        with self._lock:
            self._followers = tuple(other for other in self._followers if other is not follower)
            in_use = self._news.leave(mailbox)
        if not in_use and self._last_closes:
            self.close(timeout)

    def emit(self, event: Event) -> None:
        """Stamp an event and deliver it to every listener.

        Never waits for a listener or for the cluster; ignored after `close`.
        """
        with self._lock:
            if not self._news.closed:
                self._news.emit(self._state, event)

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
            started_at, began = self._clock.monotonic(), self._clock.now()
            self._note(last_attempt=started_at, polls=self._state.health.polls + 1)
        try:
            try:
                answer: Observation | BaseException = self._source.fetch(
                    topics, started_at=started_at, timeout=self._state.timing.fetch_timeout
                )
            except BaseException as error:
                # A source is foreign code: any error means "no answer", and on our own thread so does what
                # would end it. The caller of `poll_once` gets his interrupt.
                if not isinstance(error, Exception) and threading.current_thread() is not self._thread:
                    raise
                answer = error
            took = self._clock.monotonic() - started_at
            with self._lock:
                events = self._take(answer, began, took)
                if not events:
                    self._news.settle(self._state)
        finally:
            with self._lock:
                self._in_flight -= 1
                self._done = max(self._done, ticket)
                self._lock.notify_all()
            self._close_idle_source()
        for follower in self._followers:
            follower.looked()
        for event in events:
            if isinstance(event, MetadataUnavailable):  # once; I/O, so after the lock
                _log.warning("metadata_unavailable", error=event.error, failures=self.health.failures)
        return events

    def _topics_now(self) -> frozenset[str] | None:
        """Return what to ask for, and forget what nobody wants to know any more."""
        if self._topics is not None and self._wanted is not None:
            wanted = self._topics.union(*(follower.topics() for follower in self._followers))
            if dropped := self._wanted - wanted:
                self._tell(*self._state.without(dropped, self._news.moment()))
            self._wanted = wanted
        return self._wanted

    def _take(self, answer: Observation | BaseException, began: datetime, took: float) -> tuple[Event, ...]:
        """Publish what an answer tells, or that there is none, after so many seconds; under the lock."""
        if self._news.closed:
            return ()
        self._note(fetching=self._state.health.fetching.plus(took))
        if isinstance(answer, BaseException):
            return self._step(answer, began)
        came = self._clock.monotonic()
        try:
            return self._step(answer, began)
        except Exception as error:  # noqa: BLE001 - a bug here must not stop the poller
            _log.error("metadata_answer_not_understood", error=repr(error), exception=traceback.format_exc())
            self._note(internal_errors=self._state.health.internal_errors + 1)
            return self._step(error, began)
        finally:
            self._note(taking_in=self._state.health.taking_in.plus(self._clock.monotonic() - came))

    def _step(self, answer: Observation | BaseException, began: datetime) -> tuple[Event, ...]:
        stored, jitter = self._state.known.cluster_id, self._rng.uniform(*JITTER)
        while True:
            before, at = self._state, self._news.moment()
            state, news = step(before, answer, began, at, jitter)
            if self._state is before:  # else a signal handler has polled in there, in this thread
                break
        # It, or the garbage collector, may have emitted something.
        news = news.later(self._news.sequence - at.sequence)
        if news.foreign is not None:  # once, so under the lock
            _log.warning("stored_snapshot_ignored", stored=stored, cluster_id=news.foreign)
        return self._tell(state, news)

    def _tell(self, state: State, news: News) -> tuple[Event, ...]:
        self._state = state  # first: whoever hears of it and reads `cluster` finds what he heard of
        return self._news.tell(state, news)

    def _note(self, **health: Any) -> None:
        self._state = self._state.with_health(**health)

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
                    self._note(internal_errors=self._state.health.internal_errors + 1)
                    self._clock.wait(self._lock, self._state.timing.floor)
        self._close_idle_source()

    def _sleep(self) -> None:
        with self._lock:
            began = self._clock.monotonic()
            while not self._news.closed:
                waited = self._clock.monotonic() - began
                due = self._state.timing.floor if self._wake else self._state.health.next_delay
                if waited >= due:
                    return
                # At the latest when the snapshot turns stale, even if the next poll is far away.
                self._tell(*self._state.aged(self._news.moment()))
                stale_in = self._state.until_stale(self._clock.monotonic())
                self._clock.wait(self._lock, min(due - waited, stale_in))

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
            mailboxes, self._news.closed = self._news.mailboxes, True
            self._tell(*self._state.closed())
            self._lock.notify_all()
        for mailbox in mailboxes:  # first let all of them begin, then wait for each
            mailbox.close(drain=True)
        for mailbox in mailboxes:
            mailbox.close(wait=max(0.0, deadline - self._clock.monotonic()))
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
            self._state, _ = self._state.closed()
        self._wake, self._begun, self._done, self._in_flight = False, 0, 0, 0
        # Who held the lock may have been anywhere in a step; the state is whole, the one before or after it.
        self._lock = threading.Condition()
        self._news.reset_after_fork(self._state, self._lock)
        if was_running and not self._news.closed:
            self.start()


def check_free(partitioner: ClusterAdopter, poller: MetadataPoller | None) -> None:
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
