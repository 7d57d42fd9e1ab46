"""The thread that derives the second lane from the journal."""

import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Final, Self

from attrs import evolve, field, frozen

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.events.cloudevents import TYPE_PREFIX
from kafka_partition_events.incidents.decisions import DECISIONS, decode_decision
from kafka_partition_events.incidents.handover import Opened, decode_opened, encode_opened
from kafka_partition_events.incidents.inputs import happenings_of
from kafka_partition_events.incidents.outputs import INCIDENT, Notice, to_entry
from kafka_partition_events.incidents.reducer import Reducer, Standing, Suppressed
from kafka_partition_events.incidents.rules import Rules
from kafka_partition_events.incidents.silences import PREFIX, Silence, decode_silence
from kafka_partition_events.incidents.state import decode, encode
from kafka_partition_events.incidents.understood import Understood
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events.outbox import Entry, Journal, Stream, Write

READER: Final = "incidents"
"""The reader's name in the outbox, and that of its state."""

BATCH: Final = 1_000
TICK_S: Final = 1.0
GRACE: Final = timedelta(seconds=1)
"""How long what happened may be on its way into the journal. What time brings about is told so much later: an
answer that says that something is back must not be overtaken by the end of its hold-down."""

STEP: Final = timedelta(seconds=10)
"""By how much a clock must go back for what is held down to be told at once, rather than so much later."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)

_log = get_logger(__name__)


@frozen(eq=False)
class _TakeOver:
    """That this observer has been elected, and has yet to go on with what the former leader has told.

    Attributes:
        after_seq: What it told behind this place of the outbox reaches the sinks through nobody else.
    """

    after_seq: int


@frozen(kw_only=True)
class IncidentStats:
    """How the second lane is doing.

    Attributes:
        standing: How many incidents are open, and the like.
        suppressed: How much was not told, and why: every reason, since the state was first made.
        unreadable: Entries of the journal that could not be understood, in this process; they are dead
            letters of this reader's.
        refused: Silences, decisions and what former leaders have told that could not be understood, in this
            process.
        failures: How often a round failed, as when the outbox can't be written, in this process.
        told_open: What was told as opened and not as closed, as `handover` has it: name -> value; None while
            another observer leads.
        read_to: Up to when all that the journal holds has been read; None before the first round.
        told_to: Up to when all that time brings about has been told, too: not later than the cluster was
            looked at.
    """

    standing: Standing = field(factory=Standing)
    suppressed: Mapping[Suppressed, int] = field(factory=lambda: dict.fromkeys(Suppressed, 0))
    unreadable: int = 0
    refused: int = 0
    failures: int = 0
    told_open: Mapping[str, bytes] | None = None
    read_to: datetime | None = None
    told_to: datetime | None = None


class IncidentReader:
    """Reads the journal, and writes what is worth attention as entries of ``Stream.INCIDENTS``.

    What it tells, its own state and how far it has read become durable together: a process that dies forgets
    no incident and tells none under two ids. An entry that can't be understood is set aside, and the next one
    goes on. Silences are read from the outbox each second, so another
    process may add and remove them.

    One per outbox, and in one process: a forked child's is closed. Use as a context manager, or call `start`
    and `close`. `stats` may be read on any thread.
    """

    def __init__(
        self,
        outbox: Journal,
        rules: Rules | None = None,
        *,
        clock: Clock | None = None,
        type_prefix: str = TYPE_PREFIX,
        looked_to: Callable[[], datetime | None] = lambda: None,
        is_unassigned: Callable[[int], bool] = lambda _broker: False,
        told_by_others: Callable[[], Mapping[str, bytes] | None] = dict,
    ) -> None:
        """Make a reader; it goes on where the last one on this outbox stopped.

        Args:
            outbox: Where to read and write. It stays yours to close, after the reader.
            rules: When something is worth attention.
            clock: Tells when a hold-down is over; the system's by default.
            type_prefix: What comes before the name in the CloudEvents ``type``.
            looked_to: Returns up to when the cluster was looked at. Nothing is known to be down for longer,
                so no hold-down is over later: a process that was frozen, or has just begun, would tell what
                came back while it did not look. None: time alone counts.
            is_unassigned: Tells of a broker that is not listed whether no partition is assigned to it, which
                ends what waits for it.
            told_by_others: Returns what a former leader has told as open, as `IncidentStats.told_open` has
                it; None as long as nobody knows. See `lead`.

        Raises:
            OutboxError: the outbox can't be read.
        """
        self._outbox = outbox
        self._rules = rules or Rules()
        self._clock: Clock = clock or SystemClock()
        self._type_prefix = type_prefix
        self._looked_to, self._is_unassigned = looked_to, is_unassigned
        self._told_by_others = told_by_others
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._restarted = True  # since the state was written; until the first round is done
        self._leads = False
        self._take_over: _TakeOver | None = None
        self._taken_in_at: datetime | None = None
        self._ticked_to = _NEVER
        self._hearing: Entry | None = None  # the entry that the reducer is at
        self._silences, self._decisions = Understood(decode_silence), Understood(decode_decision)
        self._opened = Understood(decode_opened)
        outbox.subscribe(READER, Stream.EVENTS)
        self._reducer, self._state = self._restored()
        self._stats = IncidentStats()
        self._count()
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Be closed in a forked child: the parent goes on."""
        self._condition = threading.Condition()
        self._thread, self._closed = None, True

    @property
    def alive(self) -> bool:
        """Whether its thread runs, or is not to."""
        return self._thread is None or self._closed or self._thread.is_alive()

    @property
    def stats(self) -> IncidentStats:
        """How it is doing, as of the last round."""
        return self._stats

    def start(self) -> None:
        """Start the thread. Idempotent."""
        with self._condition:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name="kpe-incidents", daemon=True)
                thread.start()
                self._thread = thread  # not before it runs: somebody may ask meanwhile whether it lives

    def lead(self, after_seq: int) -> None:
        """Tell what is open as the leader from the next round on: go on with what the former one has told.

        Args:
            after_seq: The place in the outbox up to which what was told here may have been passed over by the
                sinks, since the former leader has told it. What is told behind it reaches them, or has.
        """
        with self._condition:
            self._leads, self._take_over = True, _TakeOver(after_seq)
        self._outbox.wake(READER)

    def stand_by(self) -> None:
        """Be one that does not lead from now on."""
        with self._condition:
            self._leads, self._take_over = False, None
            self._stats = evolve(self._stats, told_open=None)

    def close(self, timeout: float = 5.0) -> None:
        """Stop; what has not been read yet is read by the next reader. Idempotent.

        Args:
            timeout: Seconds to wait for the round that is under way.
        """
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            thread = self._thread
        self._outbox.wake(READER)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def run_once(self) -> bool:
        """Read a batch, and write what follows from it; `start` makes a thread that loops on it.

        Time counts only when the journal is read to its end: what lies in it happened before now.

        Returns:
            Whether there is more to be read.

        Raises:
            OutboxError: the outbox can't be read or written; what was not written is done again.
        """
        now = self._clock.now().astimezone(UTC)
        self._reducer.silences = self._silences_now()
        # Before the journal is read: what was found up to then is in it.
        looked_to = self._looked_to()
        entries = self._outbox.read(READER, BATCH)
        more = len(entries) == BATCH
        up_to = None if more else min(now - GRACE, looked_to or now)
        while (bad := self._first_odd(entries, now, up_to)) is not None:
            entries = [entry for entry in entries if entry.seq > bad.seq]
        self._count()
        if not more:
            told_to = None if self._ticked_to == _NEVER else self._ticked_to
            self._stats = evolve(self._stats, told_to=told_to, read_to=now - GRACE)
        return more

    # -- inside ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            try:
                if not self.run_once():
                    self._outbox.wait(READER, TICK_S)
            except Exception as error:  # noqa: BLE001 - whatever it is, incidents must go on being told
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._stats = evolve(self._stats, failures=self._stats.failures + 1)
        trace = None if isinstance(error, OutboxError) else traceback.format_exc()
        _log.error("incidents_delayed", error=str(error) or repr(error), exception=trace)
        try:
            self._restore()
        except Exception as still:  # noqa: BLE001 - as in `_run`
            _log.error("incidents_delayed", error=str(still) or repr(still))
        with self._condition:
            if not self._closed:
                self._clock.wait(self._condition, TICK_S)

    def _take_in(self, entries: Sequence[Entry], now: datetime, up_to: datetime | None) -> None:
        reducer, ticked_to, take_over = self._reducer, self._ticked_to, self._take_over
        theirs = None if take_over is None else self._told_by_the_former(now)
        # Before anything is told: what it has told is not opened a second time.
        reducer.adopt(theirs or ())
        told = self._as_entries(reducer.observer_restarted(now), now) if self._restarted else []
        was_set_back = self._taken_in_at is not None and now < self._taken_in_at - STEP
        if was_set_back:
            _log.warning("clock_set_back", now=now.isoformat(), before=str(self._taken_in_at))
            ticked_to = _NEVER
        for self._hearing in entries:
            told += self._heard(self._hearing, now)
        self._hearing = None
        if was_set_back or self._restarted:
            reducer.forget_the_future(now - GRACE, now + STEP)
        done: _TakeOver | None = None
        if up_to is not None:
            if take_over is not None and theirs is not None:
                # Before it, for what somebody has closed is not to be told anew.
                told += self._decided(now)
                # Not before the journal is read: it may have the beginning of what they have told.
                told += self._taken_over(take_over, theirs, told, now)
                done = take_over
            told += self._as_entries(reducer.unassigned(self._is_unassigned, now), now)
            if up_to >= ticked_to:
                told += self._as_entries(reducer.tick(up_to), now)
                ticked_to = up_to
        told += self._decided(now)
        if entries or told or done:  # what time alone has changed, and nobody is told, it would change again
            self._write(entries, told)
        with self._condition:
            if self._take_over is done:  # else `lead` has been called again since
                self._take_over = None
        self._restarted, self._taken_in_at, self._ticked_to = False, now, ticked_to

    def _decided(self, now: datetime) -> list[Entry]:
        decisions = self._decisions.of(self._outbox.values(DECISIONS))
        notices = (notice for each in decisions for notice in self._reducer.decide(each, now))
        return self._as_entries(notices, now)

    def _told_by_the_former(self, now: datetime) -> Sequence[Opened] | None:
        values = self._told_by_others()
        if values is None:
            return None
        # Its clock may be ahead; then updates would wait until that time comes.
        return [evolve(each, opened_at=min(each.opened_at, now)) for each in self._opened.of(values)]

    def _taken_over(
        self, take_over: _TakeOver, theirs: Iterable[Opened], told: Sequence[Entry], now: datetime
    ) -> list[Entry]:
        names: dict[str, set[str]] = {}  # of what was told here, by the incident's id
        here = self._outbox.history(Stream.INCIDENTS, names=("incident.*",), after_seq=take_over.after_seq)
        for entry in chain(here, told):
            names.setdefault(str(entry.subject).removeprefix(INCIDENT), set()).add(entry.name)
        still = [opened for opened in theirs if "incident.closed" not in names.get(opened.id, ())]
        return self._as_entries(self._reducer.take_over(still, names, now), now)

    def _first_odd(self, entries: Sequence[Entry], now: datetime, up_to: datetime | None) -> Entry | None:
        """Take entries in; if one raises, those before it, set it aside and return it."""
        try:
            self._take_in(entries, now, up_to)
        except OutboxError:
            raise
        except Exception as error:
            if (bad := self._hearing) is None:
                raise
            self._restore()
            if before := [entry for entry in entries if entry.seq < bad.seq]:
                self._take_in(before, now, None)
            self._outbox.refuse(READER, bad, "not_understood")
            _log.error("journal_entry_not_understood", id=bad.id, name=bad.name, error=repr(error))
            self._stats = evolve(self._stats, unreadable=self._stats.unreadable + 1)
            return bad
        return None

    def _restore(self) -> None:
        """Go back to what is written: the reducer is ahead of it, or half changed."""
        self._hearing = None
        self._reducer, self._state = self._restored()
        self._reducer.silences = self._silences_now()

    def _restored(self) -> tuple[Reducer, bytes | None]:
        state = self._outbox.values(READER).get(READER)
        if state is None:
            return Reducer(rules=self._rules), None
        try:
            return decode(state, self._rules), state
        except OutboxError as error:
            _log.critical("incidents_forgotten", error=str(error))
            return Reducer(rules=self._rules), None

    def _heard(self, entry: Entry, now: datetime) -> Iterator[Entry]:
        for happening in happenings_of(entry):
            if happening.at > now + STEP:  # by a clock that has been set back since
                happening = evolve(happening, at=now - GRACE, prev_at=None)  # noqa: PLW2901
            notices, passes = self._reducer.hear(happening)
            yield from self._as_entries(notices, now)
            if passes:
                yield evolve(entry, stream=Stream.INCIDENTS, seq=0)

    def _as_entries(self, notices: Iterable[Notice], now: datetime) -> list[Entry]:
        return [to_entry(notice, self._reducer.cluster, now, self._type_prefix) for notice in notices]

    def _write(self, entries: Sequence[Entry], told: Sequence[Entry]) -> None:
        state = encode(self._reducer)
        self._outbox.write(
            Write(
                entries=told,
                cursors={READER: entries[-1].seq} if entries else {},
                values={} if state == self._state else {READER: state},
            )
        )
        self._state = state

    def _silences_now(self) -> tuple[Silence, ...]:
        return tuple(self._silences.of(self._outbox.values(PREFIX)))

    def _count(self) -> None:
        suppressed = {reason: self._reducer.suppressed[reason] for reason in Suppressed}
        with self._condition:
            told_open = None
            if self._leads and self._take_over is None:
                told_open = {opened.key: encode_opened(opened) for opened in self._reducer.told_open}
            self._stats = evolve(
                self._stats,
                standing=self._reducer.standing,
                suppressed=suppressed,
                told_open=told_open,
                refused=self._silences.refused + self._decisions.refused + self._opened.refused,
            )
