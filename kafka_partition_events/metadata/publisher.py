"""Who is told, and in which order: the snapshot first, then every table, then every mailbox.

One lock covers all three steps, so whoever registers sees either all of a change or none of it. No user code
and no I/O runs under it (but for the log line of a contained bug). Lock order: this lock, then a mailbox's.
"""

import threading
import traceback
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from attrs import define, evolve

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.diff import changed_partitions, diff
from kafka_partition_events.metadata.dispatch import Batch, Mailbox
from kafka_partition_events.metadata.events import Event, Resync, TopicEvent
from kafka_partition_events.metadata.listener import ClusterAdopter, PartitionChangeListener, name_of

_log = get_logger(__name__)

CAPACITY = 1024
"""How many undelivered events a listener may have before they collapse to one `Resync`."""

AnyEvent = TypeVar("AnyEvent", bound=Event)


@define
class _Replay:
    """What tells a listener that comes late how things stand; all that come between two looks share it.

    That is safe: it is made, found and forgotten under the publisher's lock, and what a mailbox gets of it
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


_feeders: "weakref.WeakKeyDictionary[PartitionChangeListener, weakref.ref[Publisher]]" = (
    weakref.WeakKeyDictionary()
)
"""Whose snapshots each partitioner adopts."""


def check_feeder(partitioner: PartitionChangeListener, wanted: "Publisher | None") -> None:
    """Raise if a partitioner follows another poller: each would overwrite what the other one has told.

    Raises:
        ConfigurationError: it does.
    """
    reference = _feeders.get(partitioner)
    feeder = None if reference is None else reference()
    if feeder is None or feeder is wanted or feeder.closed:
        return
    if any(mailbox.listener is partitioner for mailbox in feeder.mailboxes):
        raise ConfigurationError(
            f"{name_of(partitioner)} already follows another poller. Give the producers that share it one "
            "poller, too, or each producer a partitioner of its own"
        )


class Publisher:
    """The snapshot in force and everybody who follows it.

    `register`, `forget`, `emit` and `close` take the lock themselves; the other methods are for the poller,
    which holds it.
    """

    def __init__(self, clock: Clock) -> None:
        self.cluster = EMPTY
        self.previous_at: datetime | None = None  # when the last good look began
        self.trusted = True
        self.internal_errors = 0
        self.closed = False
        self._clock = clock
        self._sequence = 0
        self.mailboxes: tuple[Mailbox, ...] = ()
        self._users: Counter[Mailbox] = Counter()  # how many producers use each partitioner
        self._joined: set[Mailbox] = set()  # those that were registered for a producer
        self._kept_replay: _Replay | None = None
        self.lock = threading.Condition()

    # -- who is told ---------------------------------------------------------------------------------

    def register(self, listener: PartitionChangeListener, *, replay: bool, capacity: int) -> Mailbox:
        """Add a listener: its table, its replay and its place in the list in one step, hence no gap."""
        mailbox = Mailbox(listener, capacity=capacity, clock=self._clock, on_closed=self.forget)
        with self.lock:
            if self._mailbox_of(listener) is not None:
                raise ConfigurationError(f"{mailbox.name} is registered with this poller already")
            if isinstance(listener, ClusterAdopter):
                check_feeder(listener, self)
                _feeders[listener] = weakref.ref(self)
            follow_ups = self._adopt_one(mailbox, self._usable)
            if replay and self.cluster.generation:
                mailbox.put(self._replay(mailbox))
            self.mailboxes = (*self.mailboxes, mailbox)
            self.tell([self.stamped(event) for event in follow_ups])
        return mailbox

    def forget(self, mailbox: Mailbox) -> None:
        """Remove a listener; a partitioner must not trust a table that nobody renews."""
        with self.lock:
            if mailbox not in self.mailboxes:
                return
            self.mailboxes = tuple(known for known in self.mailboxes if known is not mailbox)
            self._adopt_one(mailbox, None)

    def _mailbox_of(self, listener: object) -> Mailbox | None:
        return next((known for known in self.mailboxes if known.listener is listener), None)

    def join(self, partitioner: PartitionChangeListener) -> Mailbox:
        """Count one more producer that uses a partitioner, which is registered if it is not yet."""
        with self.lock:
            mailbox = self._mailbox_of(partitioner)
            if mailbox is None:
                mailbox = self.register(partitioner, replay=True, capacity=CAPACITY)
                self._joined.add(mailbox)
            self._users[mailbox] += 1
            return mailbox

    def leave(self, mailbox: Mailbox) -> bool:
        """Count one producer less; return whether any is left.

        The last one that uses a partitioner ends its registration, unless that is the application's own.
        """
        with self.lock:
            self._users[mailbox] -= 1
            if self._users[mailbox] <= 0:
                del self._users[mailbox]
                if mailbox in self._joined:
                    self._joined.discard(mailbox)
                    mailbox.close()
            return bool(self._users)

    def emit(self, event: Event) -> None:
        """Stamp one event and tell it."""
        with self.lock:
            if not self.closed:
                self.tell([self.stamped(event)])

    # -- what is told (under the lock) ---------------------------------------------------------------

    def advance(
        self, cluster: Cluster, newly_asked: frozenset[str], doubted: Mapping[str, datetime | None]
    ) -> tuple[Event, ...]:
        """Make a snapshot the one in force; return the changes, not told yet.

        Args:
            cluster: The snapshot.
            newly_asked: Topics that no look before this one asked for: they are seen, not created, now.
            doubted: Topics of which the answers before this one were not believed, or not in all, and when
                the last look before those began: what is believed now may have happened since then.
        """
        found = diff(
            self.cluster,
            cluster,
            first_sequence=self._sequence + 1,
            observed_at=self._clock.monotonic(),
            wall_time=self._clock.now(),
            previous_at=self.previous_at,
            initial=self.cluster.generation == 0,
        )
        self._sequence += len(found)
        self.cluster = cluster
        return tuple(_bounded(event, newly_asked, doubted) for event in found)

    def forget_topics(self, topics: frozenset[str]) -> None:
        """Drop topics that nobody follows any more. They may well exist: no event tells of an end."""
        known = {name: info for name, info in self.cluster.by_topic.items() if name not in topics}
        if len(known) < len(self.cluster.by_topic):
            self.cluster = evolve(self.cluster, by_topic=known, generation=self.cluster.generation + 1)
            follow_ups = self.adopt(trusted=self.trusted)
            self.tell([self.stamped(Resync(cluster=self.cluster)), *follow_ups])

    def adopt(self, *, trusted: bool) -> list[Event]:
        """Let every partitioner adopt the snapshot, or drop its table; return what they found out."""
        self.trusted = trusted
        usable = self._usable
        return [self.stamped(e) for mailbox in self.mailboxes for e in self._adopt_one(mailbox, usable)]

    @property
    def _usable(self) -> Cluster | None:
        return self.cluster if self.trusted and not self.closed and self.cluster.generation else None

    def _adopt_one(self, mailbox: Mailbox, cluster: Cluster | None) -> Sequence[Event]:
        if not isinstance(mailbox.listener, ClusterAdopter):
            return ()
        try:
            return mailbox.listener.adopt(cluster)
        except Exception as error:  # noqa: BLE001 - one partitioner's trouble must not reach the others
            self.internal_errors += 1
            _log.error(
                "adoption_failed",
                partitioner=mailbox.name,
                error=repr(error),
                exception=traceback.format_exc(),
            )
            return ()

    def stamped(self, event: AnyEvent) -> AnyEvent:
        """Return the event with the next sequence number and the common fields of this moment."""
        self._sequence += 1
        return self._marked(event, self._sequence)

    def _marked(self, event: AnyEvent, sequence: int) -> AnyEvent:
        return evolve(
            event,
            sequence=sequence,
            cluster_id=self.cluster.cluster_id,
            generation=self.cluster.generation,
            observed_at=self._clock.monotonic(),
            wall_time=self._clock.now(),
            previous_at=self.previous_at,
        )

    def tell(self, events: Iterable[Event], changes: Sequence[Event] = ()) -> None:
        """Put stamped events into every mailbox; ``changes`` are those of them that `advance` returned."""
        told = tuple(events)
        if not told:
            return
        self._kept_replay = None
        wanted = changes and any(mailbox.wants_changes for mailbox in self.mailboxes)
        changed = changed_partitions(changes) if wanted else None
        self._put_to_all(Batch(self.cluster, told, changed, self.previous_at))

    def settle(self) -> None:
        """Let who overrides `on_settled` know that a look had nothing to tell."""
        self._kept_replay = None  # so none outlives a look: its events bear the moment at which it was made
        quiet = Batch(self.cluster, (), looked_at=self.previous_at)
        for mailbox in self.mailboxes:
            if mailbox.wants_settled:
                mailbox.put(quiet)

    def _put_to_all(self, batch: Batch) -> None:
        for mailbox in self.mailboxes:
            mailbox.put(batch)

    def _replay(self, mailbox: Mailbox) -> Batch:
        replay = self._kept_replay
        if replay is None or replay.cluster is not self.cluster or replay.sequence != self._sequence:
            now, wall_time = self._clock.monotonic(), self._clock.now()
            state = diff(EMPTY, self.cluster, observed_at=now, wall_time=wall_time, initial=True)
            events = tuple(evolve(event, sequence=self._sequence) for event in state)
            replay = self._kept_replay = _Replay(self.cluster, self._sequence, events)
        changed = replay.changed if mailbox.wants_changes else None
        return Batch(self.cluster, replay.events, changed, self.previous_at)

    # -- the end -------------------------------------------------------------------------------------

    def close(self, deadline: float) -> None:
        """Deliver what is queued and close every listener, until the deadline (the clock's seconds)."""
        with self.lock:
            self.closed = True
            mailboxes = self.mailboxes
            self.tell(self.adopt(trusted=False))
        for mailbox in mailboxes:  # first let all of them begin, then wait for each
            mailbox.close(drain=True)
        for mailbox in mailboxes:
            mailbox.close(wait=max(0.0, deadline - self._clock.monotonic()))

    def reset_after_fork(self) -> None:
        """Start afresh in a forked child: whoever held a lock or ran a worker exists in the parent only."""
        self.lock = threading.Condition()
        self.mailboxes = tuple(mailbox for mailbox in self.mailboxes if mailbox.reset_after_fork())
        # The fork may have come between `advance` and the last adoption, or the last mailbox, or within a
        # callback: nobody knows what was told in this process, so everybody starts from the snapshot.
        resync = self._marked(Resync(cluster=self.cluster), self._sequence)
        follow_ups = self.adopt(trusted=self.trusted)
        if self.cluster.generation:
            changed = changed_partitions(diff(EMPTY, self.cluster))
            self._put_to_all(Batch(self.cluster, (resync,), changed, self.previous_at))
        self.tell(follow_ups)


def _bounded(event: Event, newly_asked: frozenset[str], doubted: Mapping[str, datetime | None]) -> Event:
    if not isinstance(event, TopicEvent):
        return event
    if event.topic in newly_asked:
        return evolve(event, initial=True, previous_at=None)
    if event.topic in doubted:
        return evolve(event, previous_at=doubted[event.topic])
    return event
