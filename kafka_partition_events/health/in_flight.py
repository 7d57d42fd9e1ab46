"""Records in flight: by partition and handle, on the connections that they share. Pure.

With ``acks=all`` a record waits for its leader and for every in-sync replica, and a broker serves one
produce request of a connection at a time. So only the *oldest* unanswered record of a connection, its head,
waits for a broker; what was sent later stands behind it, whatever it needs itself. A client may have several
handles, each with connections of its own.
"""

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from attrs import define, field

from kafka_partition_events.metadata.events import Role

_LATELY_S = 1.0  # before a silence began: so many keys reach all partitions that are written

MAIN, STANDBY = 0, 1
"""Indices of a client's handles: the one that the application made, and the first of its standbys."""

SubjectId = int | tuple[str, int]


class Subject(NamedTuple):
    """What a record may wait for: a broker in a role, or its partition by itself, which has none."""

    role: Role | None
    id: SubjectId


def brokers_needed(leader: int | None, followers: frozenset[int]) -> tuple[Subject, ...]:
    """Return what a record needs where one broker leads and others follow; nothing without a leader."""
    if leader is None:
        return ()
    return (Subject(Role.LEADER, leader), *(Subject(Role.REPLICA, b) for b in followers))


@define(eq=False)
class InFlight:
    """The records of one partition that are in flight on one handle, and which brokers they need."""

    topic: str
    partition: int
    handle: int = MAIN
    leader: int | None = None
    followers: frozenset[int] = frozenset()
    sent_at: deque[float] = field(factory=deque)  # of each record, the oldest first
    moved_at: float = -math.inf  # when leader or followers changed last
    is_aside: bool = False  # counts against the partition: it takes nothing, its brokers answer for others
    brokers: tuple[Subject, ...] = field(init=False)  # that a record here needs, the leader first
    itself: Subject = field(init=False)  # the partition as a subject

    def __attrs_post_init__(self) -> None:
        """Name once what each record counts against."""
        self.itself = Subject(None, (self.topic, self.partition))
        self.move(self.leader, self.followers)

    def move(self, leader: int | None, followers: frozenset[int]) -> None:
        """Have another leader, or other followers."""
        self.leader, self.followers = leader, followers
        self.brokers = brokers_needed(leader, followers)

    @property
    def outstanding(self) -> int:
        """How many records are in flight."""
        return len(self.sent_at)


@define(eq=False)
class BrokerConnection:
    """One handle's connection to a broker. ``silent_from`` is in listened seconds, as in `BrokerState`."""

    handle: int
    broker: int
    waiting: dict[InFlight, int] = field(factory=dict)  # has records in flight; with its entry's number
    needs: Counter[Subject] = field(factory=Counter)  # how many of these need a broker
    asked_at: float = 0.0  # when this silence began: nothing that was sent since has been answered
    silent_from: float = 0.0
    answered_to: float = -math.inf  # when the latest record that was answered had been sent
    answered_in: float = 0.0  # how long that one took
    held_to: float = -math.inf  # when it was last seen to wait for a suspect
    excused: bool = False  # this silence was forgiven once, see `Circuits._give_benefit_of_doubt`
    given_up: InFlight | None = None  # whose head the client gave up; the broker still works on it
    sampled: dict[InFlight, float] = field(factory=dict)  # see `sampled_lately`; when the latest was sent
    _entries: int = 0
    _oldest: list[tuple[float, int, InFlight]] = field(factory=list)  # a heap; some are settled already

    @property
    def head(self) -> InFlight:
        """The partition whose record the broker works on, though the client may have given that up."""
        return self.given_up or self._first() or next(iter(self.waiting))

    def _first(self) -> InFlight | None:
        while self._oldest:
            sent_at, entry, it = self._oldest[0]
            if self.waiting.get(it) == entry and it.sent_at and it.sent_at[0] == sent_at:
                return it
            heapq.heappop(self._oldest)
        return None

    @property
    def sampled_lately(self) -> list[InFlight]:
        """The partitions any of which may be the head: records with a key went to all, untracked."""
        return [it for it, at in self.sampled.items() if at > self.asked_at - _LATELY_S]

    def heads(self, within: float) -> list[InFlight]:
        """Return the partitions that may be the head: a client sends batches in nearly the order of time."""
        if self.given_up is not None or (head := self._first()) is None:
            return [self.head]
        until = head.sent_at[0] + within
        return self._oldest_while(lambda sent_at: sent_at <= until)

    def _oldest_while(self, is_wanted: Callable[[float], bool]) -> list[InFlight]:
        """Return the partitions whose oldest record was sent at a wanted moment, up to the first not."""
        passed: list[tuple[float, int, InFlight]] = []
        while (it := self._first()) is not None and is_wanted(it.sent_at[0]):
            passed.append(heapq.heappop(self._oldest))
        for entry in passed:
            heapq.heappush(self._oldest, entry)
        return list(dict.fromkeys(it for *_, it in passed))

    def enter(self, it: InFlight) -> None:
        """Note that a partition has records in flight here."""
        if it not in self.waiting:
            self._entries += 1
            self.waiting[it] = self._entries
            self.needs.update(it.brokers)
            heapq.heappush(self._oldest, (it.sent_at[0], self._entries, it))

    def settle(self, it: InFlight, *, leaves: bool = False) -> None:
        """Take note that a partition's oldest record is done, or that the partition leaves the connection."""
        if it in self.waiting and (leaves or not it.sent_at):
            del self.waiting[it]
            self.needs.subtract(it.brokers)
            if not self.waiting:  # else it grows where each record is answered before the next one
                self._oldest.clear()
        elif it in self.waiting:
            heapq.heappush(self._oldest, (it.sent_at[0], self.waiting[it], it))

    def overtaken(self, patience: float) -> list[InFlight]:
        """Return the partitions whose oldest record waits, although one sent so much later was answered."""
        passed = self._oldest_while(lambda sent_at: self.answered_to > sent_at + patience)
        return [it for it in passed if self.answered_to > it.moved_at + patience]
