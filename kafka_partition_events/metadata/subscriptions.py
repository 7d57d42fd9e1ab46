"""What follows a poller, and in which order it gets what is new: every table first, then every mailbox.

One lock covers the snapshot, the tables and the mailboxes, so a registration sees either all of a change or
none of it. While it is held, partitioners apply a snapshot, which takes *their* locks. So code that may run
inside of a partitioner must not wait for it: a delivery callback, a signal handler, the garbage collector. It
leaves what it wants in a queue, whose `put` needs no lock, and the lock's holder works that off:

    emitter:  put; is the lock free?  no: return        yes: take it, work off, let go, is the queue empty?
    holder:                        ... let go; is the queue empty?  no: is the lock free? ...

If the emitter found the lock taken, its `put` came before the holder let go, so the holder's check sees it.
If both find the queue filled, one takes the lock, and works off the other one's item, too.
"""

import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from attrs import define, evolve

from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, TopicInfo
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener, name_of, overrides
from kafka_partition_events.metadata.loop import refuse_on
from kafka_partition_events.metadata.registration import Batch, Registration
from kafka_partition_events.metadata.state import Moment, PollState, StepResult
from kafka_partition_events.process import OwnProcess

if TYPE_CHECKING:
    from kafka_partition_events.metadata.poller import MetadataPoller

_log = get_logger(__name__)

CAPACITY = 1024
"""How many undelivered events a listener may have before they collapse to one `Resync`."""


@define(eq=False)
class Subscription:
    """One producer's use of a poller. Thread-safe, and safe in signal handlers."""

    registration: Registration  # the registration of the producer's partitioner
    topics: Callable[[], Iterable[str]]  # which the producer writes
    polled: Callable[[Mapping[str, TopicInfo]], None]  # called with what a fetch has found
    left: Callable[[], None]  # called once, when the producer uses the poller no more
    _poller: "MetadataPoller"

    def ask_for(self, topic: str) -> None:
        """Have the poller ask for a topic that the producer has begun to write."""
        self._poller.ask_for(topic, self)

    def leave(self, timeout: float = 1.0) -> None:
        """Use the poller no more; the last one may close it, within so many seconds. Idempotent.

        A fetch that hangs ends by itself then, and touches no producer any more.
        """
        self._poller.leave(self, timeout)

    def drop(self) -> None:
        """Leave from within a finalizer: this only puts a message, which the poller's thread reads."""
        self._poller.inbox.put(self)
        if self._poller.subscriptions.closed:  # no one reads that any more
            self.leave(0.0)


_feeders: "weakref.WeakKeyDictionary[PartitionChangeListener, weakref.ref[Subscriptions]]"
_feeders = weakref.WeakKeyDictionary()  # whose snapshots each partitioner applies


def check_feeder(partitioner: PartitionChangeListener, wanted: "Subscriptions | None") -> None:
    """Raise if a partitioner can't follow a poller: it follows another, or that was made before a fork.

    Each would overwrite what the other has published. None is a poller that is yet to be made.
    """
    if wanted is not None:
        wanted.process.check()
    reference = _feeders.get(partitioner)
    feeder = None if reference is None else reference()
    if feeder is None or feeder is wanted or feeder.closed or feeder.registration_of(partitioner) is None:
        return
    raise ConfigurationError(
        f"{name_of(partitioner)} already follows another poller. Give the producers that share it one "
        "poller, too, or each producer a partitioner of its own"
    )


class Subscriptions:
    """Everything that follows a poller, and the poller's lock.

    Methods under "needs the lock" are called with it; the others wait for no lock of the poller, and are safe
    in signal handlers.
    """

    def __init__(self, clock: Clock, state: Callable[[], PollState], source: object = None) -> None:
        self.process = OwnProcess("MetadataPoller")  # where the poller was made
        self.producers: dict[Subscription, None] = {}
        self.closed = False  # whether nothing is published any more
        self.sequence = 0  # the number of the last event
        self.apply_errors = 0  # times that a partitioner could not apply a snapshot; each is a bug
        self._clock = clock
        self._source = source
        self._state = state  # returns the poller's, which is replaced under the lock only
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[Callable[[], object]] = SimpleQueue()  # work that needs the lock
        self._registrations: dict[Registration, None] = {}

    # -- the lock ------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. Not for callbacks, signal handlers and finalizers, nor where it is held already."""
        self.process.check()
        try:
            with self._lock:
                self._work_off()
                yield
        finally:
            self._try_to_work_off()

    def when_free(self, work: Callable[[], object]) -> None:
        """Do something under the lock: now, or as soon as its holder lets go. Must not raise."""
        self._waiting.put(work)
        self._try_to_work_off()

    def _try_to_work_off(self) -> None:
        while not self._waiting.empty() and self._lock.acquire(blocking=False):
            try:
                self._work_off()
            finally:
                self._lock.release()

    def _work_off(self) -> None:
        while not self._waiting.empty():
            self._waiting.get()()

    # -- safe everywhere -----------------------------------------------------------------------------

    @property
    def registrations(self) -> tuple[Registration, ...]:
        """All registrations, in the order of registration."""
        return tuple(self._registrations)

    def registration_of(self, listener: object) -> Registration | None:
        """Return the registration of a listener that is registered."""
        return next((known for known in self.registrations if known.listener is listener), None)

    def forget(self, registration: Registration) -> None:
        """Remove a listener; a partitioner must not trust a table that is not renewed any more."""
        if self._registrations.pop(registration, self) is None:  # atomic: one of two callers goes on
            self.when_free(partial(self._take_table_from, registration))

    def close(self) -> tuple[Registration, ...]:
        """Publish nothing any more, and take every table away; return the registrations, to be closed."""
        self._try_to_work_off()
        self.closed = True
        for registration in self.registrations:
            self.when_free(partial(self._take_table_from, registration))
        return self.registrations

    def check_open(self) -> None:
        """Raise `PollerClosedError` if nothing is published any more, `ForkedError` in a child."""
        self.process.check()
        if self.closed:
            raise PollerClosedError("this MetadataPoller has been closed; make a new one")

    def refuse_on_loop(self, call: str, instead: str) -> None:
        """Raise `RuntimeError` on a loop that a listener, or the source (its ``loop``), needs meanwhile."""
        needed = [getattr(self._source, "loop", None), *(each.loop for each in self.registrations)]
        refuse_on(needed, call, instead)

    # -- needs the lock: who is there ------------------------------------------------------------------

    def register(
        self,
        listener: PartitionChangeListener,
        *,
        replay: bool,
        capacity: int,
        kind: type[Registration] = Registration,
    ) -> Registration:
        """Add a listener: its table, its replay and its place in the list in one step, hence no gap."""
        self.check_open()
        if capacity < 1:
            raise ConfigurationError(f"capacity must be at least 1 event, not {capacity}")
        state = self._state()
        registration = kind(listener, capacity=capacity, clock=self._clock, on_closed=self.forget)
        if self.registration_of(listener) is not None:
            raise ConfigurationError(f"{registration.name} is registered with this poller already")
        if overrides(listener, "apply_snapshot"):
            check_feeder(listener, self)
            _feeders[listener] = weakref.ref(self)
        found = self._apply(registration, state.usable)
        if replay and state.confirmed and not registration.is_deaf:
            registration.put(self._replay(state))
        self._registrations[registration] = None
        self.publish_found(found)
        if self.closed:  # meanwhile, by one who did not see this registration
            registration.close()
        return registration

    def end_unused(self, registration: Registration) -> None:
        """End a registration with the last producer that it was made for."""
        used = {producer.registration for producer in tuple(self.producers)}
        if registration.ends_unused and registration not in used:
            registration.close()

    # -- needs the lock: what they get -----------------------------------------------------------------

    def moment(self) -> Moment:
        """Return what a step has to know of this moment."""
        return Moment(self._clock.monotonic(), self._clock.now(), self.sequence)

    def publish(self, result: StepResult) -> tuple[Event, ...]:
        """Publish what a step has found; return it, with what partitioners find out by it."""
        state = self._state()
        self.sequence += len(result.events)
        applying = self.registrations if result.apply else ()
        found = [event for registration in applying for event in self._apply(registration, state.usable)]
        marked = self.moment().stamp((*found, *result.rest), state.cluster, result.previous_at)
        self.sequence += len(marked)
        batch = Batch(state.cluster, (*result.events, *marked), state.previous_at)
        for registration in self.registrations:
            if batch.events or registration.wants_settled:
                registration.put(batch)
        return batch.events

    def publish_found(self, events: Sequence[Event]) -> None:
        """Stamp and publish events that no poll has found."""
        if events and not self.closed:
            self.publish(StepResult(rest=tuple(events), previous_at=self._state().previous_at))

    def _apply(self, registration: Registration, cluster: Cluster | None) -> Sequence[Event]:
        """Let a partitioner apply a snapshot, or drop its table; return what it found out."""
        try:
            return registration.listener.apply_snapshot(None if self.closed else cluster)
        except Exception as error:  # noqa: BLE001 - one partitioner's trouble must not reach the others
            self.apply_errors += 1
            text = traceback.format_exc()
            _log.error("adoption_failed", partitioner=registration.name, error=repr(error), exception=text)
            return ()

    def _take_table_from(self, registration: Registration) -> None:
        """Take a partitioner's table away, unless it was registered again before the lock was free."""
        listener = registration.listener
        feeder = _feeders.get(listener) if overrides(listener, "apply_snapshot") else None
        last = self.registration_of(listener) in {None, registration}
        if last and feeder is not None and feeder() is self:
            self._apply(registration, None)

    def _replay(self, state: PollState) -> Batch:
        """Return what brings a late listener up to date: all have the number of the last event."""
        at = self.moment()
        found = diff(EMPTY, state.cluster, **at.marks(None), initial=True)
        events = tuple(evolve(event, sequence=at.sequence) for event in found)
        return Batch(state.cluster, events, state.previous_at)
