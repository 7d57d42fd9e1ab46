"""One change and everybody whom it concerns, as a story: what happens, and the state that it leads to."""

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, evolve, field

from kafka_partition_events import ControlTopicError
from kafka_partition_events.control.changes.commands import obey
from kafka_partition_events.control.changes.evidence import ClusterView, Evidence, Status, evidence
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.changes.transitions import step
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import Answer, Change, Command, Given, Lease, TopicUse
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State, Verb

START_MS = 1_700_000_000_000
TOPIC, TOPIC_ID, CLUSTER = "orders", "topic-id-1", "c-1"
NEW = frozenset(range(6, 12))
ONE = "chg-1"
EVIL, SHOWN = "\x1b[2Jevil\nline two", r"\x1b[2Jevil\nline two"
"""A name that would clear a terminal and forge a line there, and what `kpe` shows of it."""
UNGROWN = ClusterView(count=6, topic_id=TOPIC_ID, readers=frozenset({"billing"}))
UNREAD = evolve(UNGROWN, readers=frozenset())


def growth(**fields: Any) -> Spec:
    """From 6 to 12 partitions."""
    known = {"from_count": 6, "to_count": 12}
    return Spec(**{"cluster_id": CLUSTER, "topic": TOPIC, "topic_id": TOPIC_ID, **known, **fields})


def gated(**fields: Any) -> Spec:
    """The same, behind a gate."""
    return growth(**{"gate": True, **fields})


def lease(name: str, seen: int = 6, used: int | None = None, **fields: Any) -> Lease:
    """A lease about the topic; fields of the lease, or of what it says of the topic."""
    of_topic = {each: fields.pop(each) for each in _OF_TOPIC & fields.keys()}
    use = TopicUse(topic=TOPIC, topic_id=TOPIC_ID, seen=seen, used=seen if used is None else used, **of_topic)
    known = {"incarnation": f"{name}-1", "lease_seq": 1, "view": (use,)}
    return Lease(**{"instance_id": name, **known, **fields})


_OF_TOPIC = {"holds", "armed", "positioned"}
SAID: dict[Status, dict[str, Any]] = {
    Status.PENDING: {"seen": 6},
    Status.HELD: {"seen": 6, "holds": ONE, "armed": True},
    Status.APPLIED: {"seen": 12},
    Status.CAPPED: {"seen": 12, "used": 6},
}
"""What a producer's lease says of the topic, by how far it is."""


@define
class Story:
    """Time is the brokers' and stands still; `tick` lets it pass and the state machine run."""

    ledger: Ledger = field(factory=Ledger)
    cluster: ClusterView = field(factory=lambda: UNGROWN)
    now_ms: int = START_MS
    epoch: int = 1
    refused: list[Answer] = field(factory=list)
    seen: list[State] = field(factory=list)
    policy: Policy = field(factory=Policy)
    _offsets: Any = field(factory=itertools.count)
    _seq: Any = field(factory=lambda: itertools.count(1))

    # -- what people do ------------------------------------------------------------------------------

    def command(self, verb: Verb, actor: str = "alice", change_id: str = ONE, **fields: Any) -> Change | None:
        """Let somebody give a command, which the tracker takes up at once."""
        command = Command(change_id=change_id, verb=verb, actor=actor, **fields)
        self.now_ms += 1  # no two records have one time here
        return self.deliver(command, self.now_ms)

    def deliver(self, command: Command, appended_ms: int, offset: int | None = None) -> Change | None:
        """Let the tracker take up a command; the next one in the topic, unless its offset is told."""
        given = Given(command, next(self._offsets) if offset is None else offset, appended_ms)
        changes, now_ms = self.ledger.changes, self.now_ms
        change, refusal = obey(
            given, changes, self.cluster, epoch=self.epoch, now_ms=now_ms, policy=self.policy
        )
        if refusal is not None:
            self.refused.append(refusal)
        if change is not None:
            self.ledger.take_change(change)
            self.seen.append(change.state)
        return change

    def request(self, spec: Spec, change_id: str = ONE, actor: str = "alice") -> Change | None:
        return self.command(Verb.REQUEST, actor, change_id, spec=spec)

    # -- what the cluster and its clients do -----------------------------------------------------------

    def sees(self, **fields: Any) -> None:
        """Let observers and prober see something else."""
        self.cluster = evolve(self.cluster, **fields)

    def lives(self, names: Iterable[str], seen: int = 6, used: int | None = None, **fields: Any) -> None:
        """Let instances (their names, one letter each) publish leases."""
        for name in names:
            born_ms = self.ledger.leases[name].born_ms if name in self.ledger.leases else None
            known = {"lease_seq": next(self._seq), "born_ms": born_ms}
            self.ledger.take_lease(lease(name, seen, used, **{**known, **fields}), self.now_ms)

    def says(self, names: Iterable[str], status: Status, **fields: Any) -> None:
        """Let producers say how far they are."""
        self.lives(names, **{**SAID[status], **fields})

    def probed(self, group: str, positioned: Iterable[int]) -> None:
        """Let the prober see where a group has a position."""
        self.sees(groups={**self.cluster.groups, group: PartitionSet.of(positioned)})

    # -- what the tracker makes of it ------------------------------------------------------------------

    @property
    def change(self) -> Change:
        return self.ledger.changes[ONE]

    @property
    def evidence(self) -> Evidence:
        return evidence(self.change, self.ledger.leases, self.cluster, self.now_ms)

    def tick(self, seconds: float = 0) -> State:
        """Let time pass, and the state machine run until nothing changes any more."""
        self.now_ms += round(1_000 * seconds)
        while (after := self.next()) is not self.change:
            self.ledger.take_change(after)
            self.seen.append(after.state)
        return self.change.state

    def next(self) -> Change:
        """Return what the tracker would make of the change now."""
        return step(self.change, self.ledger.leases, self.cluster, epoch=self.epoch, now_ms=self.now_ms)

    @property
    def path(self) -> list[State]:
        """Every state that the change was in, once for each stay."""
        return [state for state, _ in itertools.groupby(self.seen)]


def damaged(document: Any, way: list[int], odd: Any) -> Any:
    """Return a document of which one place, down a way, is something else."""
    if not way or not isinstance(document, dict | list) or not document:
        return odd
    if isinstance(document, dict):
        key = sorted(document)[way[0] % len(document)]
        return {**document, key: damaged(document[key], way[1:], odd)}
    place = way[0] % len(document)
    return [*document[:place], damaged(document[place], way[1:], odd), *document[place + 1 :]]


def grown(spec: Spec, producers: str = "ab", cluster: ClusterView = UNGROWN) -> Story:
    """A change that was requested in time: producers hold if they are to, and the topic has grown."""
    story = Story(cluster=cluster)
    story.lives(producers)
    story.request(spec)
    if story.change.holds:
        story.says(producers, Status.HELD)
    story.tick()
    story.sees(count=spec.to_count)
    story.tick()
    return story


@define(eq=False)
class Link:
    """The control topics in memory. ``down`` refuses reads, and loses what is published."""

    appended: list[tuple[bytes, bytes | None]] = field(factory=list)
    published: list[dict[str, Any]] = field(factory=list)
    down: bool = False
    closed: bool = False
    reads: int = 0
    at_ms: int = 1_000
    changed: threading.Condition = field(factory=threading.Condition)
    _position: int = 0

    def write(self, change: Change) -> None:
        self.appended.append((key_of(change).encode(), encode(change)))

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        with self.changed:
            self.reads += 1
            self.changed.notify_all()
        if self.down:
            raise ControlTopicError("nobody answers")
        found, self._position = self.appended[self._position :], len(self.appended)
        return found

    def publish(self, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
        self.at_ms += 1
        if not self.down:
            self.published.append(json.loads(value))
        on_done(None if self.down else self.at_ms)

    def close(self) -> None:
        self.closed = True

    def of(self, name: str) -> list[Any]:
        """Return what the leases say, by the name of a field."""
        return [record[name] for record in self.published]

    def uses(self, name: str) -> list[Any]:
        """Return what they say of the first topic."""
        return [view[0][name] for view in self.of("view") if view]
