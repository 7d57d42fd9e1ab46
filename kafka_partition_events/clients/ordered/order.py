"""Which record a member of a group may hand out, so that each key keeps its order across partitions. Pure.

A record waits until all that its header ``kpe-after`` names has been processed. No two records wait for each
other: a producer names only what was acknowledged before it sent the record. So whatever a record waits for,
and whatever stands before that in its partition, was written before the record; among all that waits, the one
that was written first waits for nothing that waits. Only who names what is not written yet can close a ring
(headers of others, or a log that was truncated and has grown past the named offset): that ends by the limit.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

from attrs import define, frozen

from kafka_partition_events.clients.flight.predecessors import parse_after
from kafka_partition_events.clients.flight.rescue import ID_HEADER

Place = tuple[str, int]
"""A topic and a partition of it."""

Headers = Sequence[tuple[str, object]] | None

_NEVER: Final = float("-inf")
_LOG_AFTER_S: Final = 1.0  # that a record has waited before it is asked whether what it names is gone
_LOG_EVERY_S: Final = 5.0  # for each partition

GONE_AFTER_S: Final = 45.0
"""So long a log must have ended before an offset that is named, for the record there to count as gone.

A leader shows what it has acknowledged (``acks=1``) only when its followers have it, or after
``replica.lag.time.max.ms`` (30 s) without them."""


REMEMBERED: Final = 100_000
"""Ids, at least; twice as many at most, in about 35 MB."""

_LONGEST = 64  # bytes of an id: others write headers, too


class NextRecord(Enum):
    """What is to become of a partition's next record."""

    GIVE = auto()
    DROP = auto()
    WAIT = auto()


@define(eq=False)
class Head:
    """The first record of a partition whose records wait, and the offsets that it waits for."""

    offset: int
    after: dict[Place, int]
    since: float
    is_copy: bool = False  # it waits for its original, and is dropped
    raised: float = _NEVER  # when the application had its exception last


@frozen
class Question:
    """What to find out: which offsets the group has committed, and from where to where one log reaches."""

    asked: float
    committed: Sequence[Place]
    log: Place | None


@frozen
class EnquiryAnswer:
    """What was found out; what could not be is left out."""

    committed: dict[Place, int]  # the next offset of the group by partition; negative where it has none
    log: tuple[int, int] | None = None  # its first offset, and after its last; 0 and 0: there is no partition


class Order:
    """One member's records: what it has handed out and what waits. Not thread-safe.

    The position of a partition is the first offset that has not been processed: what was handed out counts
    when the application asks for more (`settle`). Of partitions that this member has read nothing of, it is
    what the group has committed.
    """

    def __init__(self, max_wait: float) -> None:
        self.heads: dict[Place, Head] = {}  # what waits, by partition
        self.moved = _NEVER  # when a record was last seen whose key had been elsewhere before
        self._max_wait = max_wait
        self._ids = RecentIds()
        self._handed: dict[Place, int] = {}
        self._own: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}
        self._begins: dict[Place, int] = {}
        self._short: dict[Place, float] = {}  # logs that end before a named offset, and since when
        self._asked: dict[Place, float] = {}

    def judge(self, place: Place, offset: int, headers: Headers, now: float) -> NextRecord:
        """Decide on a partition's next record. What is given is handed out by that."""
        if place not in self._handed:
            self._own[place] = offset
        if not headers:
            self.heads.pop(place, None)
            self._handed[place] = offset + 1
            return NextRecord.GIVE
        head = self.heads.get(place)
        if head is None or head.offset != offset:
            head = Head(offset, _named(place, headers), now)
        if head.after:
            self.moved = now
        id_ = _id(headers)
        original = None if id_ is None else self._ids.original(id_, place, offset)
        if original is not None and not head.is_copy:
            # It was handed out, but may be to come again: after a seek, or if this member is gone before it
            # is processed. What follows the copy here follows the original, too.
            head.is_copy, head.after = True, dict([original])
        if self._awaited(head):
            self.heads[place] = head
            return NextRecord.WAIT
        self.heads.pop(place, None)
        self._handed[place] = offset + 1
        if head.is_copy:
            return NextRecord.DROP
        if id_ is not None:
            self._ids.add(id_, place, offset)
        return NextRecord.GIVE

    def reached(self, place: Place, offset: int) -> None:
        """Note that a partition has nothing below an offset that was not handed out."""
        self._handed[place] = offset

    def settle(self) -> None:
        """Take what was handed out as processed: the application asks for more."""
        self._own.update(self._handed)
        self._handed.clear()

    def is_blocked(self, place: Place) -> bool:
        """Return whether a partition's next record was to wait, and still is."""
        head = self.heads.get(place)
        return head is not None and self._awaited(head)

    def awaited(self) -> set[Place]:
        """Return the partitions that are waited for."""
        return {place for head in self.heads.values() for place in self._after(head)}

    def starts(self, place: Place, offset: int | None) -> None:
        """Forget what waits of a partition. It is read from an offset on; None: from what is committed."""
        for known in (self.heads, self._handed, self._own):
            known.pop(place, None)
        if offset is not None:  # after a seek even what a copy waits for may lie behind it
            self._ids.forget(place)
            self._own[place] = offset

    def forget(self, places: Iterable[Place]) -> None:
        """Forget partitions that are this member's no more, and what was found out: a topic may be new."""
        for place in places:
            self.starts(place, None)
        for known in (self._committed, self._begins, self._short, self._asked):
            known.clear()

    def question(self, now: float) -> Question | None:
        """Return what to find out; None where nothing waits that an answer could help."""
        waiting = [(head, place) for head in self.heads.values() for place in self._after(head)]
        foreign = {place for _, place in waiting if place not in self._own}
        logs = [
            place
            for head, place in waiting
            if now - head.since >= _LOG_AFTER_S and now - self._asked.get(place, _NEVER) >= _LOG_EVERY_S
        ]
        if not foreign and not logs and not self.overdue(now):
            return None
        log = min(logs, key=lambda place: self._asked.get(place, _NEVER), default=None)
        if log is not None:
            self._asked[log] = now
        return Question(now, tuple(foreign), log)

    def learn(self, question: Question, answer: EnquiryAnswer) -> None:
        """Take an answer in."""
        self._committed.update(answer.committed)
        if (log := question.log) is None or answer.log is None:
            return
        self._begins[log], end = answer.log
        # What was found out before a record began to wait says nothing of what it names.
        cut = [h for h in self.heads.values() if h.after.get(log, -1) >= end and h.since <= question.asked]
        if not cut:
            self._short.pop(log, None)
        for head in cut:  # each for itself: the log may have been short once before
            if question.asked - max(self._short.setdefault(log, question.asked), head.since) >= GONE_AFTER_S:
                head.after[log] = end - 1  # what is left of the log comes first all the same

    def overdue(self, now: float) -> list[tuple[Place, Head]]:
        """Return what waits, and had waited beyond the limit at a moment (when a question was asked)."""
        limit = now - self._max_wait
        late = [(place, it) for place, it in self.heads.items() if max(it.since, it.raised) <= limit]
        return [(place, head) for place, head in late if self._awaited(head)]

    def _after(self, head: Head) -> list[Place]:
        return [place for place, offset in head.after.items() if self._position(place) <= offset]

    def _awaited(self, head: Head) -> bool:
        return any(self._position(place) <= offset for place, offset in head.after.items())

    def _position(self, place: Place) -> int:
        own = self._own.get(place)
        return max(self._committed.get(place, 0) if own is None else own, self._begins.get(place, 0))


class RecentIds:
    """The places of the latest records that were handed out, by id, in two generations."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._new: dict[bytes, tuple[Place, int, int]] = {}
        self._old: dict[bytes, tuple[Place, int, int]] = {}
        self._begun: Counter[Place] = Counter()  # how often each partition was begun

    def original(self, id_: bytes, place: Place, offset: int) -> tuple[Place, int] | None:
        """Return from where else the record was handed out; where it is read again it is no copy."""
        was = self._new.get(id_) or self._old.get(id_)
        if was is None or was[:2] == (place, offset) or was[2] != self._begun[was[0]]:
            return None
        return was[:2]

    def forget(self, place: Place) -> None:
        """Forget a partition's records: they may come again, and what was a copy of them before them."""
        self._begun[place] += 1

    def add(self, id_: bytes, place: Place, offset: int) -> None:
        """Remember where a record was that is handed out."""
        if len(id_) > _LONGEST:
            return
        self._new[id_] = place, offset, self._begun[place]
        if len(self._new) >= self._remembered:
            self._old, self._new = self._new, {}


def _named(place: Place, headers: Headers) -> dict[Place, int]:
    """Return the offsets that a record comes after; in its own partition it does so anyhow."""
    topic, partition = place
    return {(topic, each): offset for each, offset in parse_after(headers).items() if each != partition}


def _id(headers: Headers) -> bytes | None:
    found = (value for name, value in headers or () if name == ID_HEADER)
    return next((value for value in found if isinstance(value, bytes)), None)
