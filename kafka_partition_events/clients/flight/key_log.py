"""What is known of records that were not followed one by one: a log of their keys, with marks.

While all is well every keyed record goes to its home by the first handle, and only its key is *logged*, once
the client has taken it. A record that the failure detector follows (one in 1 ms) has a `Mark` instead, which
is logged before it is handed over and learns what became of it. So all that is before a mark was handed over
before the mark's record, whichever threads did it; and its report vouches for them, those of its partition,
as far as the client keeps a partition's order: with idempotence always. The first delivered mark from a key's
last entry on says that the key's records are finished, and names an offset that is not before their last.

A mark vouches for no other one: two threads may hand theirs over in the other order. So what a mark that is
let go of has said, or will say, is kept for its partition: the highest offset, and those without a report.
The key of one that was delivered at no known offset is logged again: what is marked after that is behind it.

Appending is one atomic step. The log is read, into an index by key, when a broker has become suspect.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from attrs import define

NOTHING: Final = -1
"""In place of an offset: no record of the key was acknowledged."""

PENDING: Final = -2
"""There is no report yet."""

FAILED: Final = -3
"""A marked record was given up, not sent, or delivered at no known offset: no report of it says more."""

UNVOUCHED: Final = -4
"""A record may be outstanding, and no report is to come that shows when it is not."""

UNKNOWN: Final = 2**63
"""In place of an offset: nothing is outstanding, and the last offset is not known."""

_SPARE: Final = 32  # for threads that have read the short cut before it was closed
_MOST_MARKS: Final = 4096  # of one partition; a later mark says the same of a key, with a later offset


def as_bytes(key: Any) -> bytes:
    """Return a key as it is sent: text is UTF-8, and what is like bytes is bytes."""
    if type(key) is bytes:
        return key
    return key.encode() if isinstance(key, str) else bytes(memoryview(key))  # a number is no key


@define(eq=False)
class Mark:
    """A record that is followed, in the log. One thread at a time reports it."""

    key: Any  # as the application gave it
    partition: int
    offset: int = PENDING  # or `FAILED`
    sequence: int = 0  # its place in the index
    before: int | None = None  # that of its key's entry before, if there is one


class KeyLog:
    """The log of one topic. All but ``append`` and ``extend`` is for one thread at a time."""

    def __init__(self, room: int) -> None:
        """Keep so many entries at the most; what is older is forgotten."""
        self._room = room
        self._entries: deque[Any] = deque(maxlen=room + _SPARE)
        self.append = self._entries.append  # takes a key, or a mark, in one step
        self.extend = self._entries.extend  # takes the keys of a batch
        self._sequence = 0
        self._gone = 0  # what was before this sequence is forgotten
        self._last: dict[bytes, int] = {}
        self._marks: dict[int, list[Mark]] = {}
        self._kept: dict[int, int] = {}  # how many were left of a partition's the last time
        self._highest: dict[int, int] = {}  # offset of marks that were let go of, by partition
        self._late: dict[int, list[Mark]] = {}  # those that had no report then
        self._reading = False  # which a signal handler of the same thread finds

    @property
    def has_unmarked(self) -> bool:
        """Whether the latest entry is no mark; False where it was read already. For any thread."""
        try:
            return type(self._entries[-1]) is not Mark
        except IndexError:
            return False

    def earlier(self, key: bytes, partition: int, *, recalled: bool = False) -> int:
        """Return an offset that is not before a key's last record in a partition, on the first handle.

        Or `NOTHING`; or `PENDING` or `UNVOUCHED` as long as one may be outstanding. ``recalled``: what is
        outstanding counts as given up.
        """
        if self._reading:  # by what this one, a signal handler, has interrupted
            return UNVOUCHED
        if self._entries:
            self._reading = True
            try:
                self._read()
            except BaseException:  # a signal's: an entry may be lost, and the index is half made
                self._forget()
                raise
            finally:
                self._reading = False
        late, marks = self._let_go(partition, self._late.pop(partition, ())), self._marks.get(partition, ())
        if not recalled and any(as_bytes(mark.key) == key for mark in late):
            return PENDING
        if (sequence := self._last_sent(key, marks, (FAILED, PENDING) if recalled else (FAILED,))) is None:
            if not self._gone:
                return NOTHING
            sequence = self._gone
        for at in range(bisect_left(marks, sequence, key=_sequence), len(marks)):
            if (offset := marks[at].offset) >= 0:
                return max(offset, self._highest.get(partition, NOTHING))
            if offset == PENDING:
                return PENDING
        return UNVOUCHED

    def _last_sent(self, key: bytes, marks: Sequence[Mark], skipped: Collection[int]) -> int | None:
        """Return a key's last entry, but for marks of which there is nothing to wait for."""
        sequence = self._last.get(key)
        while sequence is not None:
            at = bisect_left(marks, sequence, key=_sequence)
            if at == len(marks) or marks[at].sequence > sequence or marks[at].offset not in skipped:
                break
            sequence = marks[at].before
        return sequence

    def _read(self) -> None:
        """Bring the entries into the index."""
        entries, last = self._entries, self._last
        sequence = self._sequence
        while entries:
            if len(entries) >= self._room:  # older ones may be gone, just now even, so that there are gaps
                self._clear()
                self._gone = sequence = sequence + 1
            entry, sequence = entries.popleft(), sequence + 1
            mark = entry if type(entry) is Mark else None
            try:
                key = as_bytes(entry if mark is None else mark.key)
            except (TypeError, ValueError):  # no client takes it, so that its record was not sent
                continue
            before = last.pop(key, None)  # the order of the dictionary is that of the last time
            last[key] = sequence
            if mark is not None:
                mark.sequence, mark.before = sequence, before
                marks = self._marks.setdefault(mark.partition, [])
                marks.append(mark)
                if len(marks) > max(_MOST_MARKS, 2 * self._kept.get(mark.partition, 0)):
                    older = marks[: len(marks) // 2 + 1]
                    # What is outstanding may be recalled; the last one before it says what that follows.
                    kept = [it for it, after in pairwise(older) if PENDING in (it.offset, after.offset)]
                    self._let_go(mark.partition, [it for it in older if it.offset != PENDING])
                    marks[: len(older) - 1] = kept
                    self._kept[mark.partition] = len(marks)
        self._sequence = sequence
        if len(last) > self._room:
            for key in list(last)[: len(last) - self._room // 2]:
                self._gone = last.pop(key) + 1
            for partition, marks in self._marks.items():
                at = bisect_left(marks, self._gone, key=_sequence)
                self._let_go(partition, marks[:at])
                del marks[:at]

    def _forget(self) -> None:
        """Let the index begin again, behind all sequences that were given."""
        self._gone = self._sequence = self._sequence + 2 * self._room + _SPARE
        self._clear()

    def _clear(self) -> None:
        self._last.clear()
        for partition, marks in self._marks.items():
            self._let_go(partition, marks)
        self._marks.clear()

    def _let_go(self, partition: int, marks: Iterable[Mark]) -> Sequence[Mark]:
        """Keep what marks say that leave the index; return those that say nothing yet."""
        late = [mark for mark in marks if mark.offset == PENDING]
        for mark in marks:
            self._highest[partition] = max(mark.offset, self._highest.get(partition, NOTHING))
        if late:
            self._late.setdefault(partition, []).extend(late)
        return late


def _sequence(mark: Mark) -> int:
    return mark.sequence
