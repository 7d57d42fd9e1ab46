"""By which handle, and to which partition, the records of a key go, so that its order can be proven.

Order belongs to the key. While a broker is suspect, a record is to take a further handle, or another
partition; it may as soon as nothing of its key is outstanding. Until then it is *held*, and its successors
behind it. What leaves a partition names the last offset of its key there: see ``predecessors.py``.

While all is well nothing is counted for each record, all go home by the first handle, and their keys are
logged (``key_log.py``). Once a broker is suspect each record is *placed*, and counted until it is reported;
so are those of a key that is away. A key that is home again, by a record that was acknowledged there, is
forgotten.

Where stuck records get copies (``rescue="hedge"`` with keys that move) each record is placed at any time.
What waits for a suspect of a key, all of it, is *recalled*: held again, first of all, and sent again from
the place that the key has then. From then on only that counts: the former attempts' reports say nothing, and
a reader knows them by their id.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from attrs import define, field

from kafka_partition_events.clients.flight.key_log import (
    FAILED,
    NOTHING,
    PENDING,
    UNKNOWN,
    UNVOUCHED,
    KeyLog,
    Mark,
    as_bytes,
)
from kafka_partition_events.clients.flight.key_moves import KeyStats, MoveKeys, Place, is_well, stand_in
from kafka_partition_events.clients.flight.key_state import HeldRecords, KeyState, TopicKeys
from kafka_partition_events.clients.flight.predecessors import format_after
from kafka_partition_events.clients.flight.record import Attempt
from kafka_partition_events.routing.table import Route

FIRST: Final = 0
"""The number of the application's own handle."""

NONE: Final = ().__contains__
"""Says of every key that it is not counted."""

LOGGED = 65_536
"""How many keys of all topics together are remembered, roughly: those of 0.6 s at 100,000 records/s."""

LEAST_LOGGED = 512
"""How many of one topic are, where there are many topics."""


class _Next(NamedTuple):
    """A record that is to be placed."""

    topic: str
    key: bytes
    home: int  # the key's partition by its hash
    here: Place  # where the key is now
    route: Route | None
    handle: int  # for records that need no suspect


@define(eq=False)
class KeyOrder:
    """The keys of one producer's records. Thread-safe.

    A client may have a short cut for records while all is well: `open` opens it, and it is closed here::

        short cut:  is the key counted? -> place; else hand over, then log the key
        place:      close the short cut, read the log, count the key

    Records of a key have an order only where each is sent after the one before was taken: by one thread, or
    by threads that wait for each other. So when a record is placed all earlier ones of its key are in the
    log, or counted; and when one comes by the short cut, and its key is counted, the short cut is closed, or
    knows.

    The lock is re-entrant for a signal handler that produces; records of one key from a handler and from what
    it interrupts have no order.
    """

    _close: Callable[[str], object]  # closes a topic's short cut
    moves: MoveKeys | None = None  # how keys move to other partitions; None: they stay
    _may_move: Callable[[str], bool] | None = None  # whether a topic's keys may; None: all may
    _probe: Callable[[str, Route, int], int | None] = lambda *_: None  # `DeliveryTracker.take_keyed_probe`
    recalls: bool = field(default=False, kw_only=True)  # `recall` is used: each record is placed
    waiting: int = field(default=0, init=False)  # how many records are held
    _lock: threading.RLock = field(factory=threading.RLock, init=False)
    _topics: dict[str, TopicKeys] = field(factory=dict, init=False)
    _ready: dict[tuple[str, bytes], None] = field(factory=dict, init=False)  # whose first record may go
    _awaiting: dict[tuple[str, bytes], int] = field(factory=dict, init=False)  # the log; when last asked
    _reports: int = field(default=0, init=False)  # so many have come in, roughly
    _displaced: int = field(default=0, init=False)  # keys that are away from home

    def __attrs_post_init__(self) -> None:
        """Recall nothing where keys stay."""
        self.recalls = self.recalls and self.moves is not None

    # -- while all go home by the first handle -------------------------------------------------------

    def open(
        self, topic: str, short_cut: Callable[[Callable[[Any], bool], Callable[[Any], None]], object]
    ) -> None:
        """Open a topic's short cut: give it what says whether a key is counted, and what logs one."""
        with self._lock:
            of = self._of(topic)
            short_cut(of.counts if of.keys or of.held else NONE, of.log.append)

    def log(self, topic: str, key: Any) -> None:
        """Log the key of a record that went home by the first handle, once that has taken it."""
        self._of(topic).log.append(key)

    def log_all(self, topic: str, keys: Iterable[Any]) -> None:
        """Log the keys of a batch, once the first handle has taken it."""
        self._of(topic).log.extend(keys)

    def mark(self, attempt: Attempt, key: Any) -> None:
        """Log a record that is followed, and will be `reported`, before it is handed over."""
        attempt.mark = Mark(key, attempt.partition)
        self._of(attempt.topic).log.append(attempt.mark)

    def has_untracked(self, topic: str) -> bool:
        """Return whether records of a topic were logged after the latest one that was marked."""
        return (of := self._topics.get(topic)) is not None and of.log.has_unmarked

    def must_place(self, topic: str, key: Any, route: Route | None) -> bool:
        """Return whether a key's next record must be placed even if no broker is suspect."""
        of = self._topics.get(topic)
        return (of is not None and of.counts(key)) or self.places_all(route)

    def places_all(self, route: Route | None) -> bool:
        """Return whether each record is placed: it may be recalled, or has to leave an offline partition."""
        if self.recalls:
            return True
        return self.moves is not None and route is not None and len(route.online) < route.count

    def home(self, topic: str, key: Any, default: int) -> int:
        """Return the home of a key that is counted, or has records that are held; else ``default``."""
        if (of := self._topics.get(topic)) is None or not of.counts(key):
            return default
        with self._lock:
            state, held = of.keys.get(data := as_bytes(key)), of.held.get(data)
            if state is not None:
                return state.home
            return default if held is None else held.records[0].home

    def counts_some(self, topic: str) -> bool:
        """Return whether any key of a topic is counted."""
        return (of := self._topics.get(topic)) is not None and bool(of.keys or of.held)

    # -- while a broker is suspect -------------------------------------------------------------------

    def place(
        self, attempt: Attempt, key: bytes, route: Route | None, *, held: bool = False, recalled: bool = False
    ) -> bool:
        """Have an attempt go where its record may, and count it there until it is `reported`; False: hold it.

        It is for the record's home, by the handle for records that need no suspect. ``held``: it is the first
        of those that are held. ``recalled``: it was sent before; then it is no probe.
        """
        topic, home, handle = attempt.topic, attempt.partition, attempt.handle
        with self._lock:
            of = self._of(topic)
            if not held and key in of.held:
                return False
            if (state := of.keys.get(key)) is None:
                self._close(topic)
            here = Place(home, FIRST) if state is None else state.place
            it = _Next(topic, key, home, here, route, handle)
            is_idle = state is None or not state.outstanding
            place = self._wanted(of, it, is_idle=is_idle, may_probe=not recalled)
            if place is None:
                return False
            last = NOTHING
            leaves = place.partition != here.partition
            if leaves and (last := of.last(key, state, home)) == UNKNOWN:
                place = Place(home, FIRST) if here.partition == home else here
            counted = KeyState(home, here) if state is None else state
            # No call from here to `_move`: no signal handler comes between.
            if (of.keys[key] if key in of.keys else None) is not state:  # noqa: SIM401 - one has, before
                return self.place(attempt, key, route, held=held, recalled=recalled)
            of.keys[key] = counted
            counted.outstanding += 1
            attempt.key = key
            self._move(of, counted, place, home, last)
            attempt.partition, attempt.handle = place
            if place == (home, FIRST):
                self.mark(attempt, key)
            if counted.after:
                attempt.after = format_after(counted.after)
            return True

    def _wanted(self, of: TopicKeys, it: "_Next", *, is_idle: bool, may_probe: bool) -> Place | None:
        """Return where a record goes, if its key's last offset is known; None: not yet."""
        home, here, route = it.home, it.here, it.route
        wanted, waits_here = Place(home, it.handle), False
        if route is None:  # no poller follows the topic: only the first handle is sure to be there
            wanted = Place(here.partition, FIRST)
        elif not is_well(route, home):
            wanted = self._away(it, route)
            if wanted.partition == home and route.is_online(home) and home not in route.held_up:
                # Its leader is suspect, so that by no handle its records are in the way of others. Should it
                # be a mistake, they show that by the further one: on the first they may stand behind others.
                waits_here, wanted = True, Place(home, it.handle if is_idle else here.handle)
            elif is_idle and may_probe and (by := self._probe(it.topic, route, home)) is not None:
                wanted = Place(home, FIRST if by == FIRST else it.handle)
        if wanted == here:
            return here
        if not is_idle:
            return None
        if here == (home, FIRST):  # what was logged counts, too
            earlier = of.log.earlier(it.key, home)
            if earlier < NOTHING:
                return here if waits_here or earlier == UNVOUCHED else None
        return wanted

    def _away(self, it: "_Next", route: Route) -> Place:
        """Return where a key goes whose home is not well."""
        home, here = it.home, it.here
        may_move = self._may_move is None or self._may_move(it.topic)
        if self.moves is None or not may_move or not (route.online if route.safe is None else route.safe):
            return Place(home, FIRST)
        if here.partition != home and here.partition < route.count and is_well(route, here.partition):
            return Place(here.partition, it.handle)
        if here.partition == home and self._displaced >= self.moves.most_displaced:
            return Place(home, FIRST)
        return Place(stand_in(route, it.key), it.handle)

    def _move(self, of: TopicKeys, state: KeyState, place: Place, home: int, last: int) -> None:
        """Let a key of which nothing is outstanding go to another place; its home may be another by now."""
        was = state.place.partition
        if was != place.partition:
            after = {was: last} if last != NOTHING else {**state.after}
            last = after.pop(place.partition, NOTHING)  # no call from here on
            state.after, state.last = after, last
            of.moved += was == state.home
        change = (place.partition != home) - (was != state.home)
        of.displaced += change
        self._displaced += change
        state.home, state.place = home, place

    def reported(self, attempt: Attempt, offset: int | None) -> None:
        """Note that a record is delivered, at an offset (negative: unknown), failed or not taken (None)."""
        if (mark := attempt.mark) is not None:
            if offset is not None and offset < 0 and (attempt.key is not None or not self.recalls):
                self.log(attempt.topic, mark.key)  # what is marked from now on is behind it
            mark.offset = FAILED if offset is None or offset < 0 else offset
            self._reports += 1
        with self._lock:
            of = self._of(attempt.topic)
            if (key := attempt.key) is None:  # recalled, or only marked; or a signal handler was quicker
                return
            state = of.keys[key]
            attempt.key = None  # no call from here to `_settle`: no signal handler comes between
            state.outstanding -= 1
            self._reports += 1
            if offset is not None:
                if offset < 0:
                    state.last = UNKNOWN
                elif state.last == UNKNOWN or state.last < offset:
                    state.last = offset
                state.after = {}
            try:
                self._settle(attempt.topic, of, key)
            except BaseException:  # a signal's
                self._settle(attempt.topic, of, key)
                raise

    def recall(
        self,
        attempts: Sequence[Attempt],
        route: Route,
        handle: int,
        again: Callable[[int], Sequence[Any]],
        withdraw: Callable[[Sequence[Attempt]], object],
    ) -> bool:
        """Have records of one key held again, in their order, if another place takes them; return whether.

        Nothing is done but with all ``attempts`` that are outstanding of the key, oldest first. ``again`` is
        given the key's home; it returns what is to be held, or nothing if that can't be. ``withdraw`` ends
        the attempts elsewhere.
        """
        first = attempts[0]
        with self._lock:
            topic, key, of = first.topic, first.key, self._of(first.topic)
            if key is None or any(it.key is None for it in attempts):
                return False  # a report has just come in
            state, held = of.keys.get(key), of.held.get(key)
            is_sent = held is not None and held.released_at is not None
            if state is None or state.outstanding != len(attempts) or is_sent:
                return False  # a record of it can't be recalled, or is just sent
            it = _Next(topic, key, state.home, state.place, route, handle)
            if not self._may_recall(of, state, it, route):
                return False
            # A report that comes in now finds a key that is None, and the record withdrawn.
            if not (records := again(state.home)):
                return False
            if state.place.partition == state.home and not state.after and state.last != NOTHING:
                of.keep_delivered(key, state.home, state.last, LOGGED)  # the log may not have it
            added = HeldRecords()
            for attempt, record in zip(reversed(attempts), reversed(records), strict=True):
                if attempt.key is None:  # a signal handler was quicker
                    continue
                attempt.key = None  # no call from here on: no signal handler comes between
                if attempt.mark is not None and attempt.mark.offset == PENDING:
                    attempt.mark.offset = FAILED
                state.outstanding -= 1
                if key not in of.held:
                    of.held[key] = added
                self._ready[topic, key] = None
                self.waiting += 1
                of.held[key].records.appendleft(record)
            withdraw(attempts)
            return True

    def _may_recall(self, of: TopicKeys, state: KeyState, it: _Next, route: Route) -> bool:
        """Return whether another place takes what is outstanding, and it is known what that follows."""
        place = Place(it.home, it.handle) if is_well(route, it.home) else self._away(it, route)
        if place == it.here or not is_well(route, place.partition):
            return False
        if place.partition == it.here.partition:
            return True
        return of.last(it.key, state, it.home, recalled=True) != UNKNOWN

    def _settle(self, topic: str, of: TopicKeys, key: bytes) -> None:
        """Let go of a key that is home and finished, and of the first record that waits for it."""
        if (state := of.keys.get(key)) is None or state.outstanding:
            return
        if key in of.held:
            self._ready[topic, key] = None
        if state.place.partition == state.home and not state.after:
            if self.moves is not None and state.place.handle != FIRST and state.last != NOTHING:
                of.keep_delivered(key, state.home, state.last, LOGGED)
            # A signal handler may have placed a record, or settled this, meanwhile.
            if key in of.keys and of.keys[key] is state and not state.outstanding:
                del of.keys[key]

    # -- what is held --------------------------------------------------------------------------------

    def hold(self, topic: str, key: bytes, record: Any) -> None:
        """Keep a record that `place` has returned None for, behind those of its key that wait."""
        with self._lock:
            of = self._of(topic)
            if key not in of.held:
                self._close(topic)  # it may have been opened since `place`, when nothing of it was counted
                held = HeldRecords()
                self._await(topic, key, -1)
                if key not in of.held:  # nor has a signal handler held one meanwhile
                    of.held[key] = held
            of.held[key].records += (record,)  # no call from here on: no signal handler comes between
            self.waiting += 1

    def _await(self, topic: str, key: bytes, asked: int) -> None:
        """Have a key asked about again: once its last record is reported, or after any report."""
        state = self._of(topic).keys.get(key)
        if state is None or not state.outstanding:
            self._awaiting[topic, key] = asked

    def take_ready(self, *, ask_again: bool) -> list[tuple[str, bytes]]:
        """Return the keys whose first record may go by now; ``ask_again``: those that the log held, too."""
        if not self.waiting:
            return []
        with self._lock:
            ready, reports = [], self._reports
            with contextlib.suppress(KeyError):  # one step each: a signal handler may come in between
                while True:
                    ready.append(self._ready.popitem()[0])
            if ask_again:
                ready += [key for key, asked in tuple(self._awaiting.items()) if asked != reports]
                for key in ready:
                    self._awaiting.pop(key, None)
            return ready

    def begin_release(self, topic: str, key: bytes) -> Any | None:
        """Return the first record of a key that waits, for one thread at a time; None: none, or not now."""
        me = threading.get_ident()  # here, as a signal handler may run at a call
        with self._lock:
            held = self._of(topic).held.get(key)
            if held is None or not held.records or held.released_at is not None:
                return None
            held.released_at, held.released_by = self._reports, me
            return held.records[0]

    def end_release(self, topic: str, key: bytes, *, released: bool, again: bool = False) -> None:
        """Note whether a record is gone: handed over, or refused for good; else it goes on waiting.

        ``again``: it is to be tried the next time in any case.
        """
        with self._lock:
            of = self._of(topic)
            held = of.held[key]
            asked = held.released_at
            if released:
                del held.records[0]  # no call: no signal handler comes between
                self.waiting -= 1
            held.released_at = None
            if not held.records:
                if key in of.held and of.held[key] is held:
                    del of.held[key]
                if key in of.keys:  # recalled, and not sent again
                    self._settle(topic, of, key)
            elif again:
                self._ready[topic, key] = None
            elif not released:
                self._await(topic, key, -1 if asked is None else asked)

    def held(self, *, interrupted: bool = False) -> list[Any]:
        """Return all records that wait, and have each be asked about again.

        ``interrupted``: this thread was, while it handed some over; it does not any more.
        """
        with self._lock:
            held = {(topic, key): it for topic, of in self._topics.items() for key, it in of.held.items()}
            for it in held.values() if interrupted else ():
                if it.released_by == threading.get_ident():
                    it.released_at = None
            self._ready |= dict.fromkeys(held)
            return [record for it in held.values() for record in it.records]

    def forget(self, topic: str) -> None:
        """Forget the log of a topic that is not written any more; where keys move it says where they were."""
        with self._lock:
            of = self._topics.get(topic)
            if of is not None and not (of.keys or of.held) and self.moves is None:
                del self._topics[topic]

    @property
    def stats(self) -> KeyStats:
        """What has become of keyed records so far."""
        moved = sum(of.moved for of in self._topics.copy().values())
        return KeyStats(displaced=self._displaced, moved=moved, waiting=self.waiting)

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """By topic: how many keys are away from home, and how often one has left it."""
        return {topic: (of.displaced, of.moved) for topic, of in self._topics.copy().items() if of.moved}

    def _of(self, topic: str) -> TopicKeys:
        if (of := self._topics.get(topic)) is None:
            with self._lock:
                room = max(LEAST_LOGGED, LOGGED // (1 + len(self._topics)))
                of = self._topics.setdefault(topic, TopicKeys(KeyLog(room)))
        return of
