"""The poller: asks the source, lets `step` decide, publishes what changed. The only thread that polls.

Others send it messages, and never wait for its lock: a delivery callback, a signal handler or the garbage
collector may run in a thread that holds a partitioner's lock, which the poller takes when it publishes.
Without a thread, the caller of `poll_once` reads the inbox first.
"""

import asyncio
import contextlib
import random
import threading
import traceback
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from datetime import datetime
from queue import SimpleQueue
from typing import Any, Self

from attrs import evolve

from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from kafka_partition_events.metadata.events import Event, MetadataUnavailable
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.registration import Registration
from kafka_partition_events.metadata.source import MetadataSource, Observation
from kafka_partition_events.metadata.state import JITTER, Health, PollState, StepResult, Timing, step
from kafka_partition_events.metadata.stream import event_stream
from kafka_partition_events.metadata.subscriptions import CAPACITY, Subscription, Subscriptions

_log = get_logger(__name__)


class MetadataPoller:
    """Polls the cluster's metadata, and publishes to partitioners and listeners what changed.

    Thread-safe. Use as a context manager, or call `start` and `close`; both are idempotent. A closed poller
    stays readable, and so does one in a forked child; what polls, registers or joins raises
    `PollerClosedError` on the one, and `ForkedError` on the other.
    """

    def __init__(
        self,
        source: MetadataSource,
        topics: Iterable[str] | None = None,
        interval: float = 30.0,
        *,
        fetch_timeout: float = 10.0,
        min_interval: float = 0.25,
        resume: tuple[Cluster, datetime] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make a poller; nothing is asked before `start` or `poll_once`.

        Args:
            source: What to ask. The poller closes it.
            topics: What to ask for; None asks for all topics, which is for watchers. What producers write is
                asked for, too.
            interval: Seconds between polls when all is well, give or take 10%.
            fetch_timeout: Seconds that one fetch may take.
            min_interval: Seconds between polls at the least.
            resume: A stored snapshot, of all topics unless ``topics`` names some, and when the poll that
                confirmed it last began, an aware time. The first good answer is published as what changed
                since, after a `MetadataRecovered`, and under the rules of the staleness gate, so a topic that
                is missing stays for a while. Until then it is not shown, and no record is routed by it: it
                may be hours old. One of another cluster is ignored. Named topics that it lacks may just not
                have been asked for: they are seen, not created.
            clock: For tests.

        Raises:
            ConfigurationError: an argument is out of range.
        """
        timing = Timing(interval, fetch_timeout, min_interval)
        if isinstance(topics, str):
            raise ConfigurationError(f"topics must be a list of names, not the text {topics!r}")
        self.source = source
        """What it asks."""
        self._polling = threading.Lock()  # one poll at a time, and the source is closed in none
        self._source_closed = False
        self._topics = None if topics is None else frozenset(topics)
        self._wanted = self._topics  # what the latest fetch asked for: these, and what producers write
        self._clock: Clock = clock or Clock()
        # Replaced under the lock; readers without it have all of one moment.
        self._state = PollState(timing=timing, since=self._clock.monotonic())
        if resume is not None:
            if resume[1].tzinfo is None:
                raise ConfigurationError(
                    f"resume needs the time of its snapshot as an aware one, not {resume[1]}"
                )
            self._state = self._state.resumed(*resume, self._wanted)
        self.inbox: SimpleQueue[Subscription | None] = SimpleQueue()
        """For this library: producers that were dropped; None only wakes the thread."""
        self.subscriptions = Subscriptions(self._clock, lambda: self._state, source)
        """For this library: everything that follows it."""
        self._last_closes = False
        self._thread: threading.Thread | None = None
        self._soon = False  # whether the next poll is due as soon as may be
        self._polled = threading.Condition()  # re-entrant: a signal handler may close the poller in there
        self._finished = 0  # the number of the latest poll that is finished

    @property
    def cluster(self) -> Cluster | None:
        """The snapshot in force; None until the first answer."""
        state = self._state
        return state.cluster if state.confirmed else None

    @property
    def health(self) -> Health:
        """How the poller is doing."""
        health = self._state.health
        return evolve(
            health,
            running=self._running,
            stale=health.stale and not self.subscriptions.closed,
            internal_errors=health.internal_errors + self.subscriptions.apply_errors,
        )

    @property
    def _running(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive() and not self.subscriptions.process.is_another

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """The handles of all listeners that are registered now, partitioners included. Takes no lock."""
        return self.subscriptions.registrations

    def register(
        self, listener: PartitionChangeListener, replay: bool = True, capacity: int = CAPACITY
    ) -> Registration:
        """Register a listener or a partitioner. Not in a signal handler: it may wait.

        A partitioner has its table when this returns, if there is a snapshot. A listener's worker delivers
        the current state with ``initial=True`` and then every later event, without a gap.

        Args:
            listener: What is to be informed.
            replay: Whether to deliver the current state first.
            capacity: How many undelivered events to hold before they collapse to one `Resync`.

        Raises:
            ConfigurationError: ``capacity`` is less than 1, or the listener is registered already; it has
                ``async def`` methods, and no loop runs here; it is a partitioner that another poller feeds.
        """
        with self.subscriptions.locked():
            return self.subscriptions.register(listener, replay=replay, capacity=capacity)

    def events(self, replay: bool = True, capacity: int = CAPACITY) -> AsyncGenerator[Event]:
        """Return the events as they come, for ``async for`` on one loop. Arguments as with `register`.

        They are registered like a listener when the iteration begins, with the same contract: order, at most
        once, a `Resync` in place of what a slow reader missed. The iteration ends when the poller is closed,
        after what was queued. Its end unregisters: by ``aclose``, by a cancelled wait, or when the last
        reference is gone.
        """
        return event_stream(self.subscriptions, replay=replay, capacity=capacity)

    def join(
        self,
        partitioner: PartitionChangeListener,
        topics: Callable[[], Iterable[str]],
        polled: Callable[[Mapping[str, TopicInfo]], None] = lambda _found: None,
        left: Callable[[], None] = lambda: None,
        *,
        last_closes: bool = False,
    ) -> Subscription:
        """Let a partitioner follow this poller for one producer, of any number that share it.

        Args:
            partitioner: It has its table when this returns, if there is a snapshot.
            topics: Returns what the producer writes; called before each fetch, under the lock. A topic that
                no producer writes any more is forgotten, and listeners get a `Resync`.
            polled: Called without the lock with what a fetch has found, before a partitioner has it.
            left: Called once, when the producer has left or was dropped; it must not block.
            last_closes: Whether the last producer that leaves, whichever it is, is to close the poller.

        Raises:
            ConfigurationError: the partitioner follows another poller.
        """
        with self.subscriptions.locked():
            self.subscriptions.check_open()
            if (registration := self.subscriptions.registration_of(partitioner)) is None:
                registration = self.subscriptions.register(partitioner, replay=True, capacity=CAPACITY)
                registration.ends_unused = True
            subscription = Subscription(registration, topics, polled, left, self)
            self.subscriptions.producers[subscription] = None
            self._last_closes = self._last_closes or last_closes
            return subscription

    def leave(self, subscription: Subscription, timeout: float = 1.0) -> None:
        """End a subscription; see `Subscription.leave`."""
        followers = self.subscriptions
        if followers.producers.pop(subscription, self) is self:  # atomic: one of two callers goes on
            return
        subscription.left()
        followers.when_free(lambda: followers.end_unused(subscription.registration))
        if self._last_closes and not followers.producers:
            self._close(timeout)  # on a loop it does not wait for hooks, which run there afterwards

    def emit(self, event: Event) -> None:
        """Stamp an event and deliver it to every listener, after an answer that is being taken in.

        Waits for nothing, neither listeners nor the cluster nor a lock; ignored after `close`.
        """
        self.subscriptions.when_free(lambda: self.subscriptions.publish_found((event,)))

    def ask_for(self, topic: str, subscription: Subscription) -> None:
        """Poll soon if a topic that a producer writes is not among those that are asked for."""
        lacking = self._wanted is not None and topic not in self._wanted
        if lacking and subscription in self.subscriptions.producers and not self.subscriptions.closed:
            with contextlib.suppress(PollerClosedError):
                self.refresh()

    # -- polling -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the polling thread; the first fetch begins at once."""
        with self.subscriptions.locked():
            self.subscriptions.check_open()
            if not self._running:
                thread = threading.Thread(target=self._run, name="kpe-poller", daemon=True)
                thread.start()
                self._thread = thread

    def refresh(self, wait: float | None = None) -> bool:
        """Ask for a poll soon. Requests that come before it begins are served by the same one.

        Without ``wait`` this waits for no lock. Without a running thread the first poll after `start` serves
        the request, or with ``wait`` the caller, here.

        Args:
            wait: Seconds to wait until a poll that began after this call is finished; None returns at once.

        Returns:
            Whether such a poll is known to be finished.

        Raises:
            RuntimeError: ``wait`` on a loop that listeners or the source need.
        """
        self.subscriptions.check_open()
        if wait is None:
            self._poll_soon()
            return False
        self.subscriptions.refuse_on_loop("refresh", "await asyncio.to_thread(poller.refresh, wait)")
        if self._running:
            with self._polled:
                wanted = self._state.health.polls + 1
                self._poll_soon()
                self._polled.wait_for(
                    lambda: self._finished >= wanted or self.subscriptions.closed,
                    min(wait, threading.TIMEOUT_MAX),
                )
                return self._finished >= wanted
        self.poll_once()
        return True

    def _poll_soon(self) -> None:
        # One message for all. A poll that begins takes the mark away: who finds it is served by the next one.
        if not self._soon:
            self._soon = True
            self.inbox.put(None)

    def poll_once(self) -> tuple[Event, ...]:
        """Fetch once, on this thread, and publish what follows. Not in a signal handler.

        Returns:
            The events that were published, none if the fetch failed and that was known.
        """
        self.subscriptions.check_open()  # before the lock, which a fork may have left taken
        try:
            with self._polling:
                events = self._poll()
        finally:
            self._close_source()
        for event in events:
            if isinstance(event, MetadataUnavailable):  # once; I/O, so after the lock
                _log.warning("metadata_unavailable", error=event.error, failures=self.health.failures)
        return events

    def _poll(self) -> tuple[Event, ...]:
        with self.subscriptions.locked():
            while not self.inbox.empty():  # the thread reads it, too, while it sleeps
                self._hear(0.0)
            self.subscriptions.check_open()
            self._soon = False
            topics = self._topics_now()
            started_at, began = self._clock.monotonic(), self._clock.now()
            self._note(last_attempt=started_at, polls=self._state.health.polls + 1)
        answer = self._fetch(topics)
        took = self._clock.monotonic() - started_at
        for subscription in tuple(self.subscriptions.producers):
            subscription.polled({} if isinstance(answer, BaseException) else answer.topics)
        with self.subscriptions.locked():
            events = self._take(answer, began, took)
        with self._polled:
            self._finished = self._state.health.polls
            self._polled.notify_all()
        return events

    def _fetch(self, topics: frozenset[str] | None) -> Observation | BaseException:
        try:
            return self.source.fetch(topics, timeout=self._state.timing.fetch_timeout)
        except BaseException as error:
            # A source is foreign code: any error means "no answer", on our own thread even what would end it.
            if not isinstance(error, Exception) and threading.current_thread() is not self._thread:
                raise
            return error

    def _hear(self, seconds: float) -> None:
        """Wait for a message: a producer that was dropped, which leaves by that, or None."""
        if (dropped := self._clock.get(self.inbox, seconds)) is not None:
            self.leave(dropped, 0.0)

    def _topics_now(self) -> frozenset[str] | None:
        """Return what to ask for, and forget topics that are not followed any more."""
        if self._topics is not None and self._wanted is not None:
            producers = tuple(self.subscriptions.producers)
            wanted = self._topics.union(*(one.topics() for one in producers))
            if dropped := self._wanted - wanted:
                self._publish(*self._state.without(dropped, self.subscriptions.moment()))
            self._wanted = wanted
        return self._wanted

    def _take(self, answer: Observation | BaseException, began: datetime, took: float) -> tuple[Event, ...]:
        """Publish what follows from an answer that took so long, or that there is none; under the lock."""
        if self.subscriptions.closed:
            return ()
        self._note(fetching=self._state.health.fetching.plus(took))
        if isinstance(answer, BaseException):
            return self._step(answer, began)
        try:
            return self._step(answer, began)
        except Exception as error:  # noqa: BLE001 - a bug here must not stop the poller
            _log.error("metadata_answer_not_understood", error=repr(error), exception=traceback.format_exc())
            self._note(internal_errors=self._state.health.internal_errors + 1)
            return self._step(error, began)

    def _step(self, answer: Observation | BaseException, began: datetime) -> tuple[Event, ...]:
        stored, jitter = self._state.known.cluster_id, random.uniform(*JITTER)
        state, result = step(self._state, answer, began, self.subscriptions.moment(), jitter)
        if result.foreign is not None:  # once, so under the lock
            _log.warning("stored_snapshot_ignored", stored=stored, cluster_id=result.foreign)
        return self._publish(state, result)

    def _publish(self, state: PollState, result: StepResult) -> tuple[Event, ...]:
        self._state = state  # first: a listener that gets an event and reads `cluster` finds what led to it
        return self.subscriptions.publish(result)

    def _note(self, **health: Any) -> None:
        self._state = self._state.with_health(**health)

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.subscriptions.closed:
            try:
                self.poll_once()
                self._sleep()
            except PollerClosedError:  # closed between the check and the poll
                break
            except Exception as error:  # noqa: BLE001 - only `close` ends the thread: nothing would start it again
                _log.critical("poll_abandoned", error=repr(error), exception=traceback.format_exc())
                with self.subscriptions.locked():
                    self._note(internal_errors=self._state.health.internal_errors + 1)
                self._hear(self._state.timing.floor)
        self._close_source()

    def _sleep(self) -> None:
        began = self._clock.monotonic()
        while not self.subscriptions.closed:
            now = self._clock.monotonic()
            due = began + (self._state.timing.floor if self._soon else self._state.health.next_delay)
            if now >= due:
                return
            self._hear(due - now)

    def close(self, timeout: float = 5.0) -> None:
        """Stop polling, deliver what is queued, close listeners and source. Idempotent.

        Allowed inside a listener's callback and in a signal handler. A fetch that hangs or a listener that is
        stuck is left behind on its daemon thread; the source is closed when its fetch returns. In a forked
        child it does nothing.

        Args:
            timeout: Seconds that all of this may take.

        Raises:
            RuntimeError: called on a loop that listeners or the source need.
        """
        if not self.subscriptions.closed:
            self.subscriptions.refuse_on_loop("close", "await poller.aclose()")
            self._close(timeout)

    async def aclose(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - as `close`
        """Close like `close`, while the loop goes on; cancelled, that goes on in its thread."""
        await asyncio.to_thread(self.close, timeout)

    def _close(self, timeout: float) -> None:
        if self.subscriptions.closed or self.subscriptions.process.is_another:
            return
        thread, deadline = self._thread, self._clock.monotonic() + min(timeout, threading.TIMEOUT_MAX / 2)
        registrations = self.subscriptions.close()
        while not self.inbox.empty():  # of producers that were dropped a moment ago
            self._hear(0.0)
        self.inbox.put(None)
        with self._polled:
            self._polled.notify_all()
        for registration in registrations:  # first let all of them begin, then wait for each
            registration.close(drain=True)
        for registration in registrations:
            registration.close(wait=max(0.0, deadline - self._clock.monotonic()))
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - self._clock.monotonic()))
        self._close_source()

    def _close_source(self) -> None:
        """Close the source once the poller is closed; if a poll goes on now, that does it at its end."""
        if self.subscriptions.closed and self._polling.acquire(blocking=False):
            try:
                if not self._source_closed:
                    self._source_closed = True
                    self.source.close()
            except Exception as error:  # noqa: BLE001 - a source is foreign code
                _log.warning("source_close_failed", error=repr(error))
            finally:
                self._polling.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
