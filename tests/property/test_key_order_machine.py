"""The order of each key can be proven from what was acknowledged, whatever happens to producers and brokers.

Of any two records of a key that were acknowledged, one after the other as they were sent, the later one is in
the same partition at a higher offset, or names an offset that is not before the earlier one.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

from attrs import define, evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_partition_events import Event, KeysMoved, KeysReturned, RecordsRescued
from kafka_partition_events.clients.flight import key_order
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_moves import MoveKeys
from kafka_partition_events.clients.flight.key_order import FIRST, KeyOrder
from kafka_partition_events.clients.flight.keyed import RECALLED_WITHIN_S
from kafka_partition_events.clients.flight.predecessors import parse_after
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.partitioners.keys import Keys
from kafka_partition_events.routing.table import Route, compile_route
from kafka_partition_events.testing.scripted import cluster_of
from tests.property.examples import scaled

KEYS, PARTITIONS, HANDLES = 6, 3, 2  # few, so that they meet
keys = st.integers(0, KEYS - 1)


@define(eq=False)
class Sent:
    """One record that a handle has."""

    record: Record
    attempt: Attempt
    offset: int | None = None  # once a broker has it

    @property
    def counts(self) -> bool:
        """Whether its report does: it was not recalled."""
        return self.attempt.rescuable is None or self.attempt.key is not None


def sent_with(later: Sent, earlier: Sent) -> bool:
    """Return whether two recalled records of a key were sent so closely that they time out together."""
    one, other = later.attempt.rescuable, earlier.attempt.rescuable
    if one is None or other is None or one.key != other.key:
        return False
    return abs(one.since - other.since) < RECALLED_WITHIN_S


class Library:
    """A client whose brokers append, and report, when the machine says so."""

    no_room: ClassVar[tuple[type[BaseException], ...]] = (BufferError,)
    detours: ClassVar[dict[int, Any]] = {
        n: SimpleNamespace(handle=object, is_coming=False) for n in range(1, HANDLES)
    }
    most_held_s = 1e9
    is_full = False
    meanwhile: Callable[[], None] | None = None  # what another thread does just before the hand-over

    def __init__(self) -> None:
        self.queues: dict[tuple[int, int], deque[Sent]] = defaultdict(deque)
        self.ends = [0] * PARTITIONS
        self.written: dict[bytes, list[Sent]] = defaultdict(list)
        self.outcomes: dict[bytes, Sent | None] = {}

    def choose(self, record: Record, tried: object = ()) -> int:
        return int(record.key[0]) % PARTITIONS

    def may_take(self, handle: object, topic: str) -> bool:
        return True

    def hand_over(self, record: Record, attempt: Attempt) -> None:
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            meanwhile()
        if self.is_full:
            raise BufferError
        for (handle, partition), queue in self.queues.items():
            if (handle, partition) != (attempt.handle, attempt.partition):
                others = [it for it in queue if it.record.key == record.key and it.counts]
                assert not others, f"{record} overtakes {others}"
        self.queues[attempt.handle, attempt.partition].append(Sent(record, attempt))

    def hold(self, record: Record, waiting: int) -> tuple[Record, None]:
        return record, None

    def reject(self, record: Record, home: int, error: BaseException) -> None:
        self.outcomes[record.value] = None

    def knows_no_such_partition(self, error: BaseException) -> bool:
        return False

    def is_too_large(self, error: BaseException) -> bool:
        return False

    def may_choose(self, record: Record) -> bool:
        return False

    def finish(self, record: RescuableRecord, arrived: Sent | None) -> None:
        assert record.given.value not in self.outcomes, "one outcome"
        self.outcomes[record.given.value] = arrived


class Producers(RuleBasedStateMachine):
    """One producer, whose brokers are well or not, and its brokers."""

    moves: ClassVar[MoveKeys | None] = MoveKeys(most_displaced=3)
    rescue: ClassVar[RescueMode | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.library = Library()
        self.sent: dict[bytes, list[bytes]] = defaultdict(list)
        self.number = 0
        cluster = cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3])
        self.well = compile_route(cluster.by_topic["t"])
        self.route: Route = self.well
        self.avoiding = False
        self.handle = FIRST
        self.counts_key: Callable[[Any], bool] | None = None
        self.log_key: Callable[[Any], None] = NotImplemented
        self.probes: int | None = None
        self.stuck: dict[tuple[int, str, int], int | None] = {}
        self.now = 0.0

    @initialize(room=st.sampled_from([4, 16, 1_000]))
    def begin(self, room: int) -> None:
        machine = self

        class Deliveries:
            """What the failure detector says."""

            suspects = frozenset

            @property
            def avoiding(self) -> bool:
                return machine.avoiding

            @property
            def handle(self) -> int:
                return machine.handle

            def tracks(self, *_place: object) -> bool:
                return False

        class Reports:
            """What one producer brings it."""

            deliveries = Deliveries()

            def stuck(self) -> dict[tuple[int, str, int], int | None]:
                return machine.stuck

            sent = withdrawn = answered = failed = polled = lambda *_args, **_more: None

            def emit(self, events: Iterable[Event]) -> None:
                for event in events:
                    assert isinstance(event, KeysMoved | KeysReturned | RecordsRescued)

        partitioner: Any = SimpleNamespace(
            ignores_keys=False, keying=Keys("murmur2"), route=lambda _topic: self.route
        )
        reports: Any = Reports()
        hedges = self.rescue == "hedge"
        self.order = KeyOrder(self.close, self.moves, None, lambda *_args: self.probes, recalls=hedges)
        patched = patch.multiple(key_order, LOGGED=room, LEAST_LOGGED=room)
        patched.start()
        self.stop = patched.stop
        self.flight = Flight(partitioner, self.library, reports, self.rescue, clock=lambda: self.now)
        self.flight.keep_order(self.order)

    def close(self, _topic: str) -> None:
        self.counts_key = None

    def take(self, counts_key: Callable[[Any], bool], log_key: Callable[[Any], None]) -> None:
        self.counts_key, self.log_key = counts_key, log_key

    # -- what the application and the cluster do ----------------------------------------------------

    @rule(key=keys, is_tracked=st.booleans(), is_full=st.booleans(), is_overtaken=st.booleans())
    def produce(self, key: int, is_tracked: bool, is_full: bool, is_overtaken: bool = False) -> None:
        """Send a record; just before it is handed over another thread may send one, which is reported."""
        if is_tracked:
            self.now += 1.0
        self.number += 1
        number = b"%d" % self.number
        record = Record("t", number, bytes([key]))
        if is_overtaken:
            another = (key + PARTITIONS) % KEYS
            self.library.meanwhile = partial(self.come_and_go, another, ["well"], is_tracked=True)
        try:
            if self.counts_key is not None and not self.counts_key(record.key):
                self.library.is_full = is_full
                self.library.hand_over(record, Attempt("t", key % PARTITIONS, FIRST))
                self.log_key(record.key)
            else:
                self.library.is_full = is_full
                self.flight.send(record)
            self.sent[record.key].append(number)
        except BufferError:
            pass
        finally:
            self.library.is_full, self.library.meanwhile = False, None

    @precondition(lambda self: not self.avoiding and not self.order.places_all(self.route))
    @rule()
    def open_short_cut(self) -> None:
        self.order.open("t", self.take)

    @rule(
        sick=st.sets(st.integers(0, PARTITIONS - 1), max_size=2), handle=st.integers(0, HANDLES - 1),
        probes=st.sampled_from([None, None, *range(HANDLES)]), are_replicas=st.booleans(),
    )  # fmt: skip
    def suspect(self, sick: set[int], handle: int, probes: int | None, are_replicas: bool) -> None:
        self.avoiding = bool(sick) or handle != FIRST
        self.handle, self.probes = handle, probes
        safe, held_up = frozenset(range(PARTITIONS)) - sick, frozenset(sick if are_replicas else ())
        self.route = evolve(self.well, safe=safe, held_up=held_up) if sick else self.well
        self.counts_key = None

    @rule(offline=st.sets(st.integers(0, PARTITIONS - 1), max_size=1))
    def lose_leaders(self, offline: set[int]) -> None:
        leaders = [None if p in offline else p + 1 for p in range(PARTITIONS)]
        cluster = cluster_of({"t": leaders}, brokers=[1, 2, 3])
        self.route = compile_route(cluster.by_topic["t"])
        self.counts_key = None

    @rule(
        handle=st.integers(0, HANDLES - 1), partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 4)
    )
    def append(self, handle: int, partition: int, count: int) -> None:
        waiting = [it for it in self.library.queues[handle, partition] if it.offset is None]
        for it in waiting[:count]:
            it.offset = self.library.ends[partition]
            self.library.ends[partition] += 1
            self.library.written[it.record.value].append(it)

    @rule(
        handle=st.integers(0, HANDLES - 1), partition=st.integers(0, PARTITIONS - 1),
        count=st.integers(1, 4), outcome=st.sampled_from(["well", "well", "timed out", "without an offset"]),
    )  # fmt: skip
    def report(self, handle: int, partition: int, count: int, outcome: str) -> None:
        queue = self.library.queues[handle, partition]
        if outcome != "timed out":
            self.append(handle, partition, count)
        given_up = [queue.popleft() for _ in range(min(count, len(queue)))]
        if outcome == "timed out":
            given_up += self.time_out_as_well(queue, given_up)
        for it in given_up:
            if it.attempt.rescuable is None:
                self.library.outcomes[it.record.value] = None if outcome == "timed out" else it
            if outcome == "timed out":
                self.flight.reported(it.attempt, error=TimeoutError(), answered=False)
            else:
                offset = it.offset if outcome == "well" else -1
                self.flight.reported(it.attempt, arrived=it, offset=-1 if offset is None else offset)

    def time_out_as_well(self, queue: deque[Sent], given_up: list[Sent]) -> list[Sent]:
        """Remove the recalled records that were sent with one that is given up, or soon afterwards."""
        as_well = [
            it
            for it in queue
            if not it.counts and it.offset is None and any(map(partial(sent_with, it), given_up))
        ]
        for it in as_well:
            queue.remove(it)
        return as_well

    @rule(handle=st.integers(0, HANDLES - 1), partition=st.integers(0, PARTITIONS - 1))
    def time_out_in_the_queue(self, handle: int, partition: int) -> None:
        """Give up the last record, which no broker has seen, while those before it are on their way."""
        queue = self.library.queues[handle, partition]
        if queue and queue[-1].offset is None:
            it = queue.pop()
            if it.attempt.rescuable is None:
                self.library.outcomes[it.record.value] = None
            self.flight.reported(it.attempt, error=TimeoutError(), answered=False)

    @rule()
    def serve(self) -> None:
        self.now += 1.0
        self.flight.served()

    @rule(
        key=keys, outcomes=st.lists(st.sampled_from(["well", "timed out", "without an offset"]), max_size=3)
    )
    def come_and_go(self, key: int, outcomes: list[str], *, is_tracked: bool = False) -> None:
        """Send several records of a key, each reported before the next."""
        for outcome in outcomes:
            self.produce(key, is_tracked, is_full=False)
            for handle, partition in tuple(self.library.queues):
                self.report(handle, partition, 1_000_000, outcome)
            self.serve()

    # -- what must hold ------------------------------------------------------------------------------

    @invariant()
    def each_key_is_in_order(self) -> None:
        for key, numbers in self.sent.items():
            acknowledged = [it for n in numbers if (it := self.library.outcomes.get(n)) is not None]
            for earlier, later in pairwise(acknowledged):
                assert earlier.offset is not None
                assert later.offset is not None
                if earlier.attempt.partition == later.attempt.partition:
                    assert earlier.offset < later.offset, f"key {key!r}: {earlier}, {later}"
                else:
                    named = parse_after(later.record.headers)
                    offset = named.get(earlier.attempt.partition, -1)
                    assert earlier.offset <= offset, f"key {key!r}: {earlier}, {later}"

    @invariant()
    def it_is_read_in_order(self) -> None:
        """Whichever attempt a reader meets first, it has met one of the record before, or waits for it."""
        for numbers in self.sent.values():
            acknowledged = [n for n in numbers if self.library.outcomes.get(n) is not None]
            for earlier, later in pairwise(acknowledged):
                for it in self.library.written[later]:
                    named = dict(parse_after(it.record.headers))
                    assert it.offset is not None
                    named[it.attempt.partition] = it.offset - 1
                    assert any(
                        before.offset is not None and before.offset <= named.get(before.attempt.partition, -1)
                        for before in self.library.written[earlier]
                    ), f"{it} may be read before any of {self.library.written[earlier]}"

    @invariant()
    def what_waits_is_counted(self) -> None:
        queued = sum(it.counts for queue in self.library.queues.values() for it in queue)
        accepted = sum(map(len, self.sent.values()))
        assert self.flight.waiting == accepted - queued - len(self.library.outcomes)

    @invariant()
    def only_so_many_keys_are_away(self) -> None:
        stats = self.order.stats
        assert stats.displaced <= (0 if self.moves is None else self.moves.most_displaced)

    def teardown(self) -> None:
        """Once brokers are well and all is reported, nothing waits, and each key that is used comes home."""
        if not hasattr(self, "flight"):
            return
        self.suspect(set(), FIRST, probes=None, are_replicas=False)
        self.lose_leaders(set())
        for _ in range(3 + 2 * self.flight.waiting):
            for handle, partition in tuple(self.library.queues):
                self.report(handle, partition, 1_000_000, "well")
            for key in range(PARTITIONS):
                self.produce(key, is_tracked=True, is_full=False)
            self.serve()
        for key in (*range(KEYS), *range(KEYS)):
            self.produce(key, is_tracked=True, is_full=False)
            for handle, partition in tuple(self.library.queues):
                self.report(handle, partition, 1_000_000, "well")
            self.serve()
        self.each_key_is_in_order()
        assert {n for numbers in self.sent.values() for n in numbers} == set(self.library.outcomes)
        assert self.flight.waiting == 0
        assert not self.flight.copies._keyed
        assert self.order.stats.displaced == 0
        assert not self.order.counts_some("t")
        self.stop()


class ProducersThatHedge(Producers):
    """Records that are stuck are sent again from elsewhere; the latest attempt alone counts."""

    rescue = "hedge"

    @rule(
        sick=st.sets(st.integers(0, PARTITIONS - 1), min_size=1, max_size=2),
        waits=st.integers(0, HANDLES - 1), handle=st.integers(0, HANDLES - 1),
        sent=st.lists(keys, max_size=3), is_full=st.booleans(), probes=st.sampled_from([None, FIRST]),
    )  # fmt: skip
    def hang(
        self, sick: set[int], waits: int, handle: int, sent: list[int], is_full: bool, probes: int | None
    ) -> None:
        """Find some partitions sick just after records were sent, which are stuck there or on a handle."""
        for key in sent:
            self.produce(key, is_tracked=True, is_full=False)
        self.suspect(sick, handle, probes, are_replicas=True)
        self.stuck = {(each, "t", partition): 1 for each in range(HANDLES) for partition in sick}
        self.stuck |= {(waits, "t", partition): None for partition in range(PARTITIONS) if waits != handle}
        self.library.is_full = is_full
        self.serve()
        self.library.is_full, self.stuck = False, {}
        self.serve()


class ProducersWhoseKeysStay(Producers):
    """No key ever leaves its partition."""

    moves = None

    @invariant()
    def each_is_at_home(self) -> None:
        for _, partition in (place for place, queue in self.library.queues.items() if queue):
            for it in self.library.queues[_, partition]:
                assert partition == it.record.key[0] % PARTITIONS


TestKeysThatMove = Producers.TestCase
TestKeysThatMove.settings = settings(max_examples=scaled(300), stateful_step_count=50, deadline=None)
TestKeysThatHedge = ProducersThatHedge.TestCase
TestKeysThatHedge.settings = settings(max_examples=scaled(200), stateful_step_count=50, deadline=None)
TestKeysThatStay = ProducersWhoseKeysStay.TestCase
TestKeysThatStay.settings = settings(max_examples=scaled(100), stateful_step_count=50, deadline=None)
