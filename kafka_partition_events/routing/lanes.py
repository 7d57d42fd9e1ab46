"""Where records wait: in lanes, one for each partition, which share a connection for each broker. Pure.

With ``acks=all`` a record waits for its leader and for every in-sync replica, and a broker serves one produce
request of a connection at a time. So the *oldest* unanswered record of a connection, its head, is the one
that really waits for somebody; what was sent later to the same broker only stands behind it, whomever it
needs itself. The clients of this library may have two ways to a broker, each with connections of its own.
"""

import math
from collections import deque
from typing import NamedTuple

from attrs import define, field

from kafka_partition_events.metadata.events import Role

MAIN, STANDBY = 0, 1
"""A client's ways to the brokers: its own connections, and those of a second handle; and so on."""


class Subject(NamedTuple):
    """Somebody whom records may wait for: a broker in a role, or a partition by itself, which has none."""

    role: Role | None
    id: int | tuple[str, int]


@define(eq=False)
class Connection:
    """One way to a broker. Moments are of the caller's clock; ``silent_from`` is listened time."""

    way: int
    broker: int
    lanes: dict["Lane", None] = field(factory=dict)  # those that something is outstanding on
    asked_at: float = 0.0  # when the oldest silence began: nothing sent since then has been answered
    silent_from: float = 0.0
    answered_to: float = -math.inf  # when the latest record that it has answered was sent
    held_to: float = -math.inf  # when it was last seen to wait for somebody bad
    excused: bool = False  # whether a silence was forgiven, and goes on
    given_up: "Lane | None" = None  # whose head the client gave up; the broker still waits for it
    _head: "Lane | None" = None  # as long as nothing was answered

    @property
    def head(self) -> "Lane":
        """The lane of the record that the broker is at; there must be one.

        When the client gives the oldest record up, that frees nothing: the broker has its request, and looks
        at no other until it is answered.
        """
        if self.given_up is not None:
            return self.given_up
        if self._head is None:
            self._head = min(self.lanes, key=lambda lane: lane.sent_at[0])
        return self._head

    def move_on(self, lane: "Lane") -> None:
        """Note that a lane's oldest record is done, or that the lane leaves."""
        self._head = None
        if not lane.sent_at:
            self.lanes.pop(lane, None)

    def let_go(self, lane: "Lane") -> None:
        """Forget a lane, whatever is outstanding on it."""
        self._head = None
        self.lanes.pop(lane, None)


@define(eq=False)
class Lane:
    """The records of one partition on one way, and whom they need."""

    topic: str
    partition: int
    way: int = MAIN
    leader: int | None = None
    followers: frozenset[int] = frozenset()
    sent_at: deque[float] = field(factory=deque)  # of each record outstanding, the oldest first
    moved_at: float = -math.inf  # when it was told last whom it needs
    aside: bool = False  # the partition itself is to blame: what waits here says nothing of brokers

    @property
    def outstanding(self) -> int:
        """How many records are on their way."""
        return len(self.sent_at)

    @property
    def own(self) -> Subject:
        """The partition as a subject."""
        return Subject(None, (self.topic, self.partition))

    @property
    def brokers(self) -> tuple[Subject, ...]:
        """The brokers that a record here needs; none without a leader."""
        if self.leader is None:
            return ()
        followers = [Subject(Role.REPLICA, broker) for broker in self.followers]
        return (Subject(Role.LEADER, self.leader), *followers)
