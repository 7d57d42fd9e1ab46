"""A group of ordered consumers has each key in its order, and all of it, whatever happens.

What is promised, and checked at each record that is handed out:

- each earlier record of its key has been processed by the group at least once, by this member or up to a
  commit (where the log lost a record unread, from the one after it on: it was what named the earlier ones);
- a member hands out no copy of what it has handed out, and within one assignment no offset twice;
- once all members poll, every record of the logs has been handed out, no wait has ended by the limit (but
  after a truncation), and the last that the group was handed of a key is its newest, but for such a loss.
"""

import itertools
from collections import defaultdict
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from attrs import define, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_partition_events.clients.ordered import asking
from kafka_partition_events.clients.ordered.order import NextRecord, Order
from kafka_partition_events.testing import ManualClock
from tests.ordered_kit import TOPIC, Group, Member, Partition, Plain, headers, in_memory
from tests.property.examples import scaled

KEYS, PARTITIONS, MEMBERS = 3, 3, 3  # few, so that they meet
keys = st.integers(0, KEYS - 1)


@frozen
class Record:
    """A key's record: which one it is, and its number, which its copy has, too."""

    key: int
    number: int


@define(eq=False)
class Late:
    """An original that is to arrive after its copy."""

    record: Record
    at: int
    given: Any


class Log:
    """Counts the waits that were too long."""

    ended = 0

    def warning(self, _event: str, **_facts: object) -> None:
        self.ended += 1


class Readers(RuleBasedStateMachine):
    """One producer whose keys move, and a group that reads."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.log, self.stack = ManualClock(), Log(), ExitStack()
        self.group = Group([Partition() for _ in range(PARTITIONS)], self.clock)
        self.stack.enter_context(in_memory(self.group))
        self.stack.enter_context(patch.object(asking, "_log", self.log))
        self.numbers = itertools.count()
        self.last: dict[int, tuple[int, int]] = {}
        self.written: dict[int, list[Record]] = defaultdict(list)
        self.late: list[Late] = []
        self.was_late: set[int] = set()
        self.lost: set[Record] = set()
        self.processed: set[Record] = set()
        self.newest: dict[int, int] = {}
        self.handed: dict[Member, list[Record]] = {}
        self.has: dict[Member, dict[Record, tuple[int, int]]] = {}
        self.offsets: dict[tuple[Member, int], int] = {}
        self.was_cut = False

    def member(self) -> Member:
        member = Member({"group": self.group})
        member.subscribe([TOPIC], on_revoke=self.revoked)
        member.target = set()
        self.handed[member], self.has[member] = [], {}
        return member

    def revoked(self, member: Member, partitions: list[Any]) -> None:
        for each in partitions:
            self.offsets.pop((member, each.partition), None)

    @initialize(count=st.integers(1, MEMBERS), may_be_cut=st.sampled_from([False, False, True]))
    def begin(self, count: int, may_be_cut: bool) -> None:
        self.may_be_cut = may_be_cut
        self.members = [self.member() for _ in range(count)]
        self.rebalance(list(range(9)), eager=False)

    # What a producer does.

    def after(self, key: int, at: int, is_forgotten: bool) -> dict[int, int]:
        if key not in self.last or self.last[key][0] == at:
            return {}
        was, offset = self.last[key]
        return {was: max(offset, self.group.partitions[was].end - 1) if is_forgotten else offset}

    @rule(key=keys, at=st.integers(0, 9), is_forgotten=st.booleans())
    def produce(self, key: int, at: int, is_forgotten: bool) -> None:
        at %= len(self.group.partitions)
        record = Record(key, next(self.numbers))
        given = headers(self.after(key, at, is_forgotten), b"id-%d" % record.number)
        self.append(record, at, given)

    @rule(key=keys, at=st.integers(0, 9), copied_to=st.integers(0, 9), arrives=st.booleans())
    def produce_and_copy(self, key: int, at: int, copied_to: int, arrives: bool) -> None:
        at, copied_to = at % len(self.group.partitions), copied_to % len(self.group.partitions)
        record = Record(key, next(self.numbers))
        id_ = b"id-%d" % record.number
        if arrives:
            self.late.append(Late(record, at, headers(self.after(key, at, False), id_)))
        self.append(record, copied_to, headers(self.after(key, copied_to, False), id_))

    def append(self, record: Record, at: int, given: Any) -> None:
        self.last[record.key] = at, self.group.partitions[at].append(record, given)
        self.written[record.key].append(record)

    @precondition(lambda self: self.late)
    @rule(which=st.integers(0, 9))
    def late_original(self, which: int) -> None:
        late = self.late.pop(which % len(self.late))
        self.was_late.add(late.record.key)
        self.group.partitions[late.at].append(late.record, late.given)

    # What happens to a log.

    @rule(at=st.integers(0, 9), count=st.integers(1, 3))
    def retention(self, at: int, count: int) -> None:
        log = self.group.partitions[at % len(self.group.partitions)]
        self.remove(log, log.begin, log.begin + count)
        log.expire(log.begin + count)

    @precondition(lambda self: self.may_be_cut)
    @rule(at=st.integers(0, 9), count=st.integers(1, 3))
    def truncation(self, at: int, count: int) -> None:
        log = self.group.partitions[at % len(self.group.partitions)]
        self.was_cut = True
        self.remove(log, log.end - count, log.end)
        log.truncate(max(log.begin, log.end - count))

    def remove(self, log: Partition, begin: int, end: int) -> None:
        for offset in range(max(begin, log.begin), min(end, log.end)):
            self.lost.add(log.records[offset - log.begin][0])

    @precondition(lambda self: len(self.group.partitions) < PARTITIONS + 2)
    @rule()
    def growth(self) -> None:
        self.group.partitions.append(Partition())

    # What happens to the group.

    @rule(owners=st.lists(st.integers(0, 9), min_size=9, max_size=9), eager=st.booleans())
    def rebalance(self, owners: list[int], eager: bool) -> None:
        for index, member in enumerate(self.members):
            member.is_eager = eager
            member.target = {
                at for at in range(len(self.group.partitions)) if owners[at] % len(self.members) == index
            }

    @rule(which=st.integers(0, 9), is_replaced=st.booleans())
    def crash(self, which: int, is_replaced: bool) -> None:
        member = self.members[which % len(self.members)]
        member.crash()
        if is_replaced or len(self.members) == 1:
            self.members.append(self.member())
        self.members.remove(member)
        self.rebalance(list(range(9)), eager=False)

    @rule(which=st.integers(0, 9), count=st.integers(1, 4))
    def poll(self, which: int, count: int) -> None:
        member = self.members[which % len(self.members)]
        for _ in range(count):
            self.asks(member)
            if (message := member.poll(0)) is not None:
                self.hands_out(member, message)

    @rule(which=st.integers(0, 9), most=st.integers(1, 5))
    def consume(self, which: int, most: int) -> None:
        member = self.members[which % len(self.members)]
        self.asks(member)
        for message in member.consume(most, 0):
            self.hands_out(member, message)

    @rule(which=st.integers(0, 9))
    def commit(self, which: int) -> None:
        member = self.members[which % len(self.members)]
        self.asks(member)  # that is what a commit says, too
        member.commit()

    @rule(which=st.integers(0, 9))
    def commit_at_an_interval(self, which: int) -> None:
        Plain.commit(self.members[which % len(self.members)])

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(is_silent=st.booleans())
    def the_coordinator_answers_or_not(self, is_silent: bool) -> None:
        self.group.is_silent = is_silent

    # What is promised.

    def asks(self, member: Member) -> None:
        self.processed.update(self.handed[member])
        self.handed[member].clear()

    def hands_out(self, member: Member, message: Any) -> None:
        record, place = message.value(), (message.partition(), message.offset())
        assert self.has[member].setdefault(record, place) == place or self.was_cut, f"{record} and its copy"
        before = self.offsets.get((member, place[0]), -1)
        assert place[1] > before or self.was_cut, f"{record} at {place} after {before}"
        self.offsets[member, place[0]] = place[1]
        if record not in self.processed and not self.log.ended:
            earlier = {each for each in self.written[record.key] if each.number < record.number}
            in_line = {each for each in self.handed[member] if self.has[member][each][0] == place[0]}
            unread = earlier - self.processed - in_line
            gap = max((each.number for each in unread & self.lost), default=-1)
            missing = {each for each in unread - self.lost if each.number > gap}
            assert not missing, f"{record} before {missing}"
        self.newest[record.key] = record.number
        self.handed[member].append(record)

    @invariant()
    def no_wait_ends_by_the_limit(self) -> None:
        assert not self.log.ended or self.was_cut

    def teardown(self) -> None:
        try:
            if hasattr(self, "members"):
                self.drain()
        finally:
            self.stack.close()

    def drain(self) -> None:
        self.group.is_silent = False
        self.rebalance(list(range(9)), eager=False)
        left, quiet = 800 if self.was_cut else 300, 0
        while quiet < 3 and left:
            left -= 1
            size = len(self.processed), sum(self.group.committed.values())
            for index, member in enumerate(self.members):
                self.consume(index, 3)
                member.commit()
            self.clock.advance(1.0 if self.was_cut else 0.2)
            waits = any(member._order.heads for member in self.members)
            quiet = (
                0 if waits or size != (len(self.processed), sum(self.group.committed.values())) else quiet + 1
            )
        assert left, "something waits for ever"
        self.no_wait_ends_by_the_limit()
        for at, log in enumerate(self.group.partitions):
            assert {record for record, _ in log.records} <= self.processed
            assert not log.records or self.group.committed[at] >= log.end or self.was_cut
        has_gap = {record.key for record in self.lost - self.processed}
        for key in {*self.newest} - self.was_late - has_gap:
            if not self.was_cut:
                seen = max(each.number for each in self.written[key] if each in self.processed)
                assert self.newest[key] == seen


TestOrderedConsumers = Readers.TestCase
TestOrderedConsumers.settings = settings(max_examples=scaled(40), stateful_step_count=40, deadline=None)


@given(data=st.data())
@settings(max_examples=scaled(200))
def test_whatever_headers_say_every_wait_ends(data: st.DataObject) -> None:
    """Rings on purpose, offsets that never were, and what is no list at all."""
    number = st.integers(0, 4).map(b"%d".__mod__)
    lists = st.lists(st.tuples(number, number).map(b":".join), max_size=3).map(b",".join)
    header = st.tuples(
        st.sampled_from(["kpe-after", "kpe-id", "other"]), st.one_of(lists, st.binary(max_size=6), st.none())
    )
    logs = data.draw(st.lists(st.lists(st.lists(header, max_size=2), max_size=4), min_size=2, max_size=3))
    clock = ManualClock()
    records: list[list[Any]] = [[*enumerate(log)] for log in logs]
    group = Group([Partition(records=each) for each in records], clock)
    log = Log()
    with in_memory(group), patch.object(asking, "_log", log):
        member = Member({"group": group, "ordered.max.wait.ms": 30_000})
        member.target = set(range(len(logs)))
        left = 1_000
        while any(group.committed.get(at, 0) < len(records) for at, records in enumerate(logs)) and left:
            member.poll(0)
            member.commit()
            clock.advance(1.0)
            left -= 1
    assert left


@given(st.permutations([0, 1, 2]))
def test_a_ring_on_purpose_waits_for_the_limit_and_no_longer(turn: list[int]) -> None:
    order = Order(300.0)
    for at in turn:
        assert order.judge((TOPIC, at), 0, headers({(at + 1) % 3: 0}), 0.0) is NextRecord.WAIT
    for now, overdue in ((299.0, 0), (301.0, 3)):
        question = order.question(now)
        assert question is not None
        assert len(order.overdue(question.asked)) == overdue
