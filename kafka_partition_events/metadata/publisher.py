"""Who is told, and in which order: every table first, then every mailbox.

The poller's lock covers both, and the new snapshot that comes before them, so whoever registers sees either
all of a change or none of it. No user code and no I/O runs under it (but for the log line of a contained
bug). Lock order: this lock, then a mailbox's.
"""

import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import define, evolve

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.diff import changed_partitions, diff
from kafka_partition_events.metadata.dispatch import Batch, Mailbox
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.metadata.listener import ClusterAdopter, Registrable, name_of
from kafka_partition_events.metadata.state import Moment, News, State

_log = get_logger(__name__)

CAPACITY = 1024
"""How many undelivered events a listener may have before they collapse to one `Resync`."""


@define
class _Replay:
    """What tells a listener that comes late how things stand; all that come between two looks share it.

    That is safe: it is made, found and forgotten under the poller's lock, and what a mailbox gets of it
    never changes. It is used only if nothing has been told since it was made, which snapshot and sequence
    prove; so whoever gets it is told the same next.
    """

    cluster: Cluster
    sequence: int
    events: tuple[Event, ...]
    _changed: Mapping[TopicPartition, PartitionInfo] | None = None

    @property
    def changed(self) -> Mapping[TopicPartition, PartitionInfo]:
        """All partitions, for who overrides `on_partitions_change`; not made for others, for it is large."""
        if self._changed is None:
            self._changed = changed_partitions(self.events)
        return self._changed


_feeders: "weakref.WeakKeyDictionary[ClusterAdopter, weakref.ref[Publisher]]" = weakref.WeakKeyDictionary()
"""Whose snapshots each partitioner adopts."""


def check_feeder(partitioner: ClusterAdopter, wanted: "Publisher | None") -> None:
    """Raise if a partitioner follows another poller: each would overwrite what the other one has told.

    Raises:
        ConfigurationError: it does.
    """
    reference = _feeders.get(partitioner)
    feeder = None if reference is None else reference()
    if feeder is None or feeder is wanted or feeder.closed:
        return
    if feeder.mailbox_of(partitioner) is not None:
        raise ConfigurationError(
            f"{name_of(partitioner)} already follows another poller. Give the producers that share it one "
            "poller, too, or each producer a partitioner of its own"
        )


class Publisher:
    """Everybody who follows a poller.

    Not thread-safe: the poller calls it under its lock, and says each time how things stand. Only `forget`
    takes that lock itself, for mailboxes call it.
    """

    def __init__(self, lock: threading.Condition, clock: Clock) -> None:
        self.mailboxes: tuple[Mailbox, ...] = ()
        self.closed = False  # nobody is told any more
        self.sequence = 0  # the number of the last event
        self.adoption_errors = 0  # each is a bug
        self._lock = lock
        self._clock = clock
        self._users: Counter[Mailbox] = Counter()  # how many producers use each partitioner
        self._joined: set[Mailbox] = set()  # those that were registered for a producer
        self._kept_replay: _Replay | None = None

    # -- who is told ---------------------------------------------------------------------------------

    def register(self, state: State, listener: Registrable, *, replay: bool, capacity: int) -> Mailbox:
        """Add a listener: its table, its replay and its place in the list in one step, hence no gap."""
        mailbox = Mailbox(listener, capacity=capacity, clock=self._clock, on_closed=self.forget)
        if self.mailbox_of(listener) is not None:
            raise ConfigurationError(f"{mailbox.name} is registered with this poller already")
        if isinstance(listener, ClusterAdopter):
            check_feeder(listener, self)
            _feeders[listener] = weakref.ref(self)
        found = self._adopt(mailbox, state.usable)
        if replay and state.confirmed:
            mailbox.put(self._replay(state, mailbox))
        self.mailboxes = (*self.mailboxes, mailbox)
        self.emit(state, *found)
        return mailbox

    def forget(self, mailbox: Mailbox) -> None:
        """Remove a listener; a partitioner must not trust a table that nobody renews. Thread-safe."""
        with self._lock:
            if mailbox not in self.mailboxes:
                return
            self.mailboxes = tuple(known for known in self.mailboxes if known is not mailbox)
            self._adopt(mailbox, None)

    def mailbox_of(self, listener: object) -> Mailbox | None:
        """Return the mailbox of a listener that is registered."""
        return next((known for known in self.mailboxes if known.listener is listener), None)

    def join(self, state: State, partitioner: ClusterAdopter) -> Mailbox:
        """Count one more producer that uses a partitioner, which is registered if it is not yet."""
        mailbox = self.mailbox_of(partitioner)
        if mailbox is None:
            mailbox = self.register(state, partitioner, replay=True, capacity=CAPACITY)
            self._joined.add(mailbox)
        self._users[mailbox] += 1
        return mailbox

    def leave(self, mailbox: Mailbox) -> bool:
        """Count one producer less; return whether any is left.

        The last one that uses a partitioner ends its registration, unless that is the application's own.
        """
        self._users[mailbox] -= 1
        if self._users[mailbox] <= 0:
            del self._users[mailbox]
            if mailbox in self._joined:
                self._joined.discard(mailbox)
                mailbox.close()
        return bool(self._users)

    # -- what is told --------------------------------------------------------------------------------

    def moment(self) -> Moment:
        """Return what a step has to know of this moment."""
        return Moment(self._clock.monotonic(), self._clock.now(), self.sequence)

    def tell(self, state: State, news: News) -> tuple[Event, ...]:
        """Tell everybody what a step has found out; return it, with what partitioners find out by it."""
        self.sequence += len(news.events)
        found = self._adopt_all(state.usable) if news.adopt else ()
        rest = self._stamped(state, (*found, *news.rest), news.previous_at)
        told = (*news.events, *rest)
        self._put_to_all(state, told, news.changes)
        return told

    def emit(self, state: State, *events: Event) -> None:
        """Stamp events that nobody looked for, and tell them."""
        self._put_to_all(state, self._stamped(state, events, state.previous_at))

    def settle(self, state: State) -> None:
        """Let who overrides `on_settled` know that a look had nothing to tell."""
        self._kept_replay = None  # so none outlives a look: its events bear the moment at which it was made
        quiet = Batch(state.cluster, (), looked_at=state.previous_at)
        for mailbox in self.mailboxes:
            if mailbox.wants_settled:
                mailbox.put(quiet)

    def _adopt_all(self, cluster: Cluster | None) -> Sequence[Event]:
        return [event for mailbox in self.mailboxes for event in self._adopt(mailbox, cluster)]

    def _adopt(self, mailbox: Mailbox, cluster: Cluster | None) -> Sequence[Event]:
        """Let a partitioner adopt a snapshot, or drop its table; return what it found out."""
        if not isinstance(mailbox.listener, ClusterAdopter):
            return ()
        try:
            return mailbox.listener.adopt(cluster)
        except Exception as error:  # noqa: BLE001 - one partitioner's trouble must not reach the others
            self.adoption_errors += 1
            _log.error(
                "adoption_failed",
                partitioner=mailbox.name,
                error=repr(error),
                exception=traceback.format_exc(),
            )
            return ()

    def _stamped(
        self, state: State, events: Sequence[Event], previous_at: datetime | None
    ) -> tuple[Event, ...]:
        marked = self.moment().stamp(events, state.cluster, previous_at)
        self.sequence += len(marked)
        return marked

    def _put_to_all(self, state: State, events: tuple[Event, ...], changes: Sequence[Event] = ()) -> None:
        """Put stamped events into every mailbox; ``changes`` are those of which KIP-34's map is made."""
        if not events:
            return
        self._kept_replay = None
        wanted = changes and any(mailbox.wants_changes for mailbox in self.mailboxes)
        changed = changed_partitions(changes) if wanted else None
        batch = Batch(state.cluster, events, changed, state.previous_at)
        for mailbox in self.mailboxes:
            mailbox.put(batch)

    def _replay(self, state: State, mailbox: Mailbox) -> Batch:
        replay = self._kept_replay
        if replay is None or replay.cluster is not state.cluster or replay.sequence != self.sequence:
            now, wall_time = self._clock.monotonic(), self._clock.now()
            found = diff(EMPTY, state.cluster, observed_at=now, wall_time=wall_time, initial=True)
            events = tuple(evolve(event, sequence=self.sequence) for event in found)
            replay = self._kept_replay = _Replay(state.cluster, self.sequence, events)
        changed = replay.changed if mailbox.wants_changes else None
        return Batch(state.cluster, replay.events, changed, state.previous_at)

    # -- in a forked child ---------------------------------------------------------------------------

    def reset_after_fork(self, state: State, lock: threading.Condition) -> None:
        """Start afresh in a forked child: whoever held a lock or ran a worker exists in the parent only."""
        self._lock = lock
        self.mailboxes = tuple(mailbox for mailbox in self.mailboxes if mailbox.reset_after_fork())
        # The fork may have come between the new snapshot and the last adoption, or the last mailbox, or
        # within a callback: nobody knows what was told in this process, so all start from the snapshot.
        last = evolve(self.moment(), sequence=self.sequence - 1)
        resync = last.stamp((Resync(cluster=state.cluster),), state.cluster, state.previous_at)
        found = self._adopt_all(state.usable)
        if state.confirmed:
            self._put_to_all(state, resync, diff(EMPTY, state.cluster))
        self.emit(state, *found)
