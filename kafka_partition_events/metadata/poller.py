"""The poller: asks the source, lets the gate decide, publishes what changed. The only thread that polls."""

import os
import random
import threading
import weakref
from collections.abc import Iterable
from typing import Self

import structlog
from attrs import evolve, frozen

from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import (
    Event,
    MetadataRecovered,
    MetadataRejected,
    MetadataStale,
    MetadataUnavailable,
)
from kafka_partition_events.metadata.listener import PartitionChangeListener, Registration
from kafka_partition_events.metadata.pacing import Pacing
from kafka_partition_events.metadata.publisher import Publisher
from kafka_partition_events.metadata.reconcile import Memory, Refusal, reconcile
from kafka_partition_events.metadata.source import MetadataSource, Observation

_log = structlog.get_logger(__name__)


@frozen(kw_only=True)
class Health:
    """How the poller is doing. Times are seconds of its monotonic clock.

    Attributes:
        running: Whether the polling thread is alive.
        last_attempt: When the last fetch began; None before the first.
        last_success: When the last good answer came; None before the first.
        failures: Failed fetches in a row.
        last_error: The last fetch's error, None when it succeeded.
        polls: Fetches so far.
        refused: What the staleness gate refused so far.
        stale: Whether the snapshot is too old to be trusted.
        internal_errors: Bugs of this library that were contained; please report what the log says.
        next_delay: Seconds between the last answer and the next fetch, as planned.
    """

    running: bool = False
    last_attempt: float | None = None
    last_success: float | None = None
    failures: int = 0
    last_error: str | None = None
    polls: int = 0
    refused: int = 0
    stale: bool = False
    internal_errors: int = 0
    next_delay: float = 0.0


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
        max_age: float = 300.0,
        fetch_timeout: float = 10.0,
        min_interval: float = 0.25,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make a poller; nothing is asked before `start` or `poll_once`.

        Args:
            source: Whom to ask. The poller closes it.
            topics: What to ask for; None asks for all topics, which is for watchers: inside a producer,
                name the producer's own (or `track` them).
            interval: Seconds between polls when all is well, give or take 10%.
            max_age: Seconds after which a snapshot is not trusted any more (`MetadataStale`).
            fetch_timeout: Seconds that one fetch may take.
            min_interval: Seconds between polls at the least.
            clock: For tests.
            rng: Source of the jitter, for tests.

        Raises:
            ConfigurationError: an argument is out of range.
        """
        for name, value in (("interval", interval), ("max_age", max_age), ("fetch_timeout", fetch_timeout)):
            if value <= 0:
                raise ConfigurationError(f"{name} must be more than 0 seconds, not {value}")
        if isinstance(topics, str):
            raise ConfigurationError(f"topics must be a list of names, not the text {topics!r}")
        self._source = source
        self._topics = None if topics is None else frozenset(topics)
        self._max_age = max_age
        self._fetch_timeout = fetch_timeout
        self._clock: Clock = clock or SystemClock()
        self._pacing = Pacing(interval, min_interval, rng or random.Random())

        self._news = Publisher(self._clock)
        self._memory = Memory()
        self._health = Health()
        self._blind_since = self._clock.monotonic()
        self._thread: threading.Thread | None = None
        self._source_closed = False
        self._wake = False
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
    def health(self) -> Health:
        """How the poller is doing."""
        thread = self._thread
        running = thread is not None and thread.is_alive()
        stale = not self._news.trusted and not self._news.closed
        return evolve(self._health, running=running, stale=stale, internal_errors=self._news.internal_errors)

    # -- listeners -----------------------------------------------------------------------------------

    def register(
        self, listener: PartitionChangeListener, replay: bool = True, capacity: int = 1024
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

    def emit(self, event: Event) -> None:
        """Stamp an event and deliver it to every listener. Never blocks; ignored after `close`."""
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
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kpe-poller", daemon=True)
                self._thread.start()

    def refresh(self, reason: str, wait: float | None = None) -> bool:
        """Ask for a poll soon. Requests that come before it begins are served by the same one.

        Without a running thread the poll is made here, by the caller.

        Args:
            reason: Why, for the log.
            wait: Seconds to wait until a poll that began after this call is finished; None returns at once.

        Returns:
            Whether such a poll is known to be finished.

        Raises:
            PollerClosedError: the poller has been closed.
        """
        _log.debug("metadata_refresh_requested", reason=reason)
        with self._lock:
            self._check_open()
            running = self._thread is not None
            target = self._begun + 1
            self._wake = True
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
            self._wake = False
            self._begun += 1
            ticket, topics = self._begun, self._topics
            started_at, began = self._clock.monotonic(), self._clock.now()
            self._health = evolve(self._health, last_attempt=started_at, polls=self._health.polls + 1)
        try:
            answer: Observation | Exception = self._source.fetch(
                topics, started_at=started_at, timeout=self._fetch_timeout
            )
        except Exception as error:  # noqa: BLE001 - a source is foreign code; any error means "no answer"
            answer = error
        with self._lock:
            try:
                if self._news.closed:
                    return ()
                if isinstance(answer, Exception):
                    return self._failed(answer)
                events = self._answered(answer)
                self._news.previous_at = began
                return events
            finally:
                self._done = max(self._done, ticket)
                self._lock.notify_all()

    def _run(self) -> None:
        try:
            while not self._news.closed:
                self.poll_once()
                self._sleep()
        except PollerClosedError:
            pass  # closed between the check and the poll
        except BaseException as error:
            _log.critical("poller_died", error=repr(error), exc_info=True)
            raise
        finally:
            with self._lock:
                self._news.adopt(trusted=False)  # a dead poller's tables must not be trusted
                self._lock.notify_all()
            if self._news.closed:
                self._close_source()

    def _sleep(self) -> None:
        with self._lock:
            began = self._clock.monotonic()
            while not self._news.closed:
                waited = self._clock.monotonic() - began
                due = self._pacing.floor if self._wake else self._health.next_delay
                if waited >= due:
                    return
                self._news.tell(self._staleness())
                # At the latest when the snapshot turns stale, even if the next poll is far away.
                self._clock.wait(self._lock, max(0.0, min(due - waited, self._until_stale())))

    # -- answers (all of this under the lock) --------------------------------------------------------

    def _answered(self, observation: Observation) -> tuple[Event, ...]:
        now = self._clock.monotonic()
        before = self._news.cluster
        try:
            outcome = reconcile(before, observation, self._memory, now)
        except Exception as error:  # noqa: BLE001 - a bug here must not stop the poller
            return self._not_understood(error)
        self._memory = outcome.memory
        changed = outcome.cluster is not before
        events = self._recovery(now)
        changes = self._news.advance(outcome.cluster) if changed else ()
        events += changes
        if changed or not self._news.trusted:
            events += self._news.adopt(trusted=True)
        events += [self._news.stamped(_rejected(r)) for r in outcome.refusals if _worth_telling(r)]
        self._health = evolve(
            self._health,
            last_success=now,
            failures=0,
            last_error=None,
            refused=self._health.refused + len(outcome.refusals),
            next_delay=self._pacing.after_answer(
                changed=changed, urgent=bool(outcome.refusals) or _any_offline(outcome.cluster)
            ),
        )
        self._news.tell(events, changes)
        return tuple(events)

    def _not_understood(self, error: Exception) -> tuple[Event, ...]:
        self._news.internal_errors += 1
        _log.error("metadata_answer_not_understood", error=repr(error), exc_info=error)
        return self._failed(error)

    def _failed(self, error: Exception) -> tuple[Event, ...]:
        text = str(error) or repr(error)
        failures = self._health.failures + 1
        self._health = evolve(
            self._health,
            failures=failures,
            last_error=text,
            next_delay=self._pacing.after_failure(failures),
        )
        _log.warning("metadata_unavailable", error=text, failures=failures)
        events: list[Event] = []
        if failures == 1:
            events.append(self._news.stamped(MetadataUnavailable(error=text)))
        events += self._staleness()
        self._news.tell(events)
        return tuple(events)

    def _recovery(self, now: float) -> list[Event]:
        if not self._health.failures:
            return []
        blind = now - (self._blind_since if self._health.last_success is None else self._health.last_success)
        return [self._news.stamped(MetadataRecovered(attempts=self._health.failures, blind_s=blind))]

    def _staleness(self) -> list[Event]:
        if self._until_stale() > 0:
            return []
        event = MetadataStale(age_s=self._max_age - self._until_stale(), limit_s=self._max_age)
        return [self._news.stamped(event), *self._news.adopt(trusted=False)]

    def _until_stale(self) -> float:
        last = self._health.last_success
        if last is None or not self._news.trusted:
            return float("inf")
        return last + self._max_age - self._clock.monotonic()

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
        if thread is None:
            self._close_source()
        elif thread is not threading.current_thread():
            thread.join(max(0.0, deadline - self._clock.monotonic()))

    def _close_source(self) -> None:
        with self._lock:
            already, self._source_closed = self._source_closed, True
        if not already:
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
        self._news.reset_after_fork()
        was_running, self._thread = self._thread is not None, None
        self._wake, self._begun, self._done = False, 0, 0
        if was_running and not self._news.closed:
            self.start()


def _worth_telling(refusal: Refusal) -> bool:
    return refusal.strike & (refusal.strike - 1) == 0  # strikes 1, 2, 4, 8, ...


def _any_offline(cluster: Cluster) -> bool:
    return any(not p.online for info in cluster.by_topic.values() for p in info.partitions)


def _rejected(refusal: Refusal) -> MetadataRejected:
    return MetadataRejected(
        reason=refusal.reason,
        topic=refusal.topic,
        partition=refusal.partition,
        kept=refusal.kept,
        offered=refusal.offered,
        strike=refusal.strike,
    )


_pollers: "weakref.WeakSet[MetadataPoller]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for poller in list(_pollers):
        poller.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
