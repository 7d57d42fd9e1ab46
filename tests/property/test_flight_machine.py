"""Whatever happens to a producer's records, in whatever order: each has one outcome, and nothing is left."""

from collections import Counter
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from unittest.mock import patch

from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_partition_events import UNASSIGNED, AdaptivePartitioner, Event
from kafka_partition_events.clients.flight import copies
from kafka_partition_events.clients.flight.client import HandleClosedError
from kafka_partition_events.clients.flight.copies import Stuck
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_order import FIRST
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import ID_HEADER
from kafka_partition_events.routing.table import Route
from kafka_partition_events.testing.scripted import cluster_of
from tests.property.examples import scaled

HANDLES = (FIRST, 1, 2)
BROKERS = [1, 2, 3]


class NoSuchPartitionError(Exception):
    """The handle has not heard of a partition."""


class TooLargeError(Exception):
    """A record that is too large."""


class ApplicationError(Exception):
    """What the application's callback raises."""


class Reports(ProducerReports):
    """Follows which attempts the failure detector knows of."""

    def __init__(self, partitioner: AdaptivePartitioner) -> None:
        super().__init__(partitioner)
        self.known: Counter[Attempt] = Counter()
        self.where_stuck: Stuck = {}
        self.events: list[Event] = []
        self.meanwhile: Any = None  # what another thread does while a record that is in flight gets tracked

    def sent(self, attempt: Attempt, route: Route, *, sampled: bool = False) -> None:
        self.known[attempt] += 1
        if attempt.taken and self.meanwhile is not None:
            self.meanwhile(attempt)

    def withdrawn(self, attempt: Attempt) -> None:
        self.known[attempt] -= 1

    def answered(self, attempt: Attempt, latency_s: float) -> None:
        self.known[attempt] -= 1

    def failed(self, attempt: Attempt) -> None:
        self.known[attempt] -= 1

    def polled(self) -> None:
        pass

    def stuck(self) -> Stuck:
        return self.where_stuck


@define
class Library:
    """A client of which each record is refused as the next of `refusals` says, or is in flight."""

    partitioner: AdaptivePartitioner
    no_room: ClassVar[tuple[type[BaseException], ...]] = (BufferError,)
    refusals: list[type[Exception] | None] = field(factory=list)
    open: set[int] = field(factory=lambda: set(HANDLES))
    in_flight: list[tuple[Record, Attempt]] = field(factory=list)
    outcomes: Counter[int] = field(factory=Counter)
    handed: dict[bytes, list[int]] = field(factory=dict)  # by key, in order
    raises: bool = False
    flight: Any = None
    says_where: bool = False  # it chooses within `hand_over`, and says which partition at once

    def choose(self, record: Record, tried: Collection[int] = ()) -> int:
        return self.partitioner.partition(record.topic, None, record.key, None, record.value, None)

    @property
    def detours(self) -> dict[int, Any]:
        return {
            n: SimpleNamespace(handle=lambda is_open=n in self.open: is_open or None, is_coming=False)
            for n in HANDLES[1:]
        }

    def may_take(self, handle: int, topic: str) -> bool:
        return True

    def hand_over(self, record: Record, attempt: Attempt) -> None:
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is HandleClosedError and attempt.handle == FIRST:
            refusal = None
        if refusal is NoSuchPartitionError and attempt.partition == UNASSIGNED:
            refusal = None
        bare = not any(name == ID_HEADER for name, _ in record.headers or ())
        if refusal is not None and not (refusal is TooLargeError and bare):
            raise refusal
        assert attempt.handle in self.open or attempt.handle == FIRST
        if attempt.partition == UNASSIGNED and self.says_where:
            chosen = self.choose(record)
            self.flight.placed(attempt, chosen)
            assert attempt.partition == chosen
        self.in_flight.append((record, attempt))
        if record.key is not None:
            assert attempt.handle == FIRST
            self.handed.setdefault(record.key, []).append(int(record.value))

    def knows_no_such_partition(self, error: BaseException) -> bool:
        return isinstance(error, NoSuchPartitionError)

    def is_too_large(self, error: BaseException) -> bool:
        return isinstance(error, TooLargeError)

    def may_choose(self, record: Record) -> bool:
        return True

    def finish(self, record: RescuableRecord, arrived: Any) -> None:
        self.application(record.given.outcome)

    def application(self, number: int) -> None:
        self.outcomes[number] += 1
        if self.raises:
            raise ApplicationError


REFUSALS = st.lists(
    st.sampled_from([None, BufferError, NoSuchPartitionError, TooLargeError, HandleClosedError, ValueError]),
    max_size=3,
)


class FlightMachine(RuleBasedStateMachine):
    @initialize(
        rescue=st.sampled_from([None, "failed", "hedge"]),
        limits=st.fixed_dictionaries({
            "SHARE": st.sampled_from([0.1, 1.0]),
            "BURST": st.sampled_from([1, 3, 100]),
            "ATTEMPTS": st.integers(2, 4),
            "HELD_BYTES": st.sampled_from([2_000, 1_000_000]),
        }),
    )  # fmt: skip
    def begin(self, rescue: Any, limits: dict[str, Any]) -> None:
        patched = patch.multiple(copies, **limits)
        patched.start()
        self.stop = patched.stop
        self.now = 0.0
        self.partitions = 4
        self.partitioner = AdaptivePartitioner(hash_name="murmur2")
        self.reports = Reports(self.partitioner)
        self.library: Any = Library(self.partitioner)
        self.flight = Flight(
            self.partitioner, cast("Any", self.library), self.reports, rescue, clock=lambda: self.now
        )
        self.library.flight = self.flight
        self.number = 0
        self.accepted: set[int] = set()
        self.sent_in_order: dict[bytes, list[int]] = {}
        self.snapshot()

    def snapshot(self, leaders: list[int | None] | None = None) -> None:
        cluster = cluster_of({"t": leaders or [1 + i % 3 for i in range(self.partitions)]}, brokers=BROKERS)
        self.partitioner.apply_snapshot(cluster)

    @rule(says_where=st.booleans())
    def another_client(self, *, says_where: bool) -> None:
        self.library.says_where = says_where

    @rule(keys=st.lists(st.sampled_from([None, None, None, b"a", b"b"]), min_size=1, max_size=4))
    def produce_some(self, keys: list[bytes | None]) -> None:
        for key in keys:
            self.produce(key, [])

    @rule(
        key=st.sampled_from([None, None, b"a"]),
        refusals=REFUSALS,
        partition=st.sampled_from([None, UNASSIGNED]),
    )
    def produce(self, key: bytes | None, refusals: list[Any], partition: int | None = None) -> None:
        self.library.refusals[:] = refusals
        number = self.number = self.number + 1
        try:
            self.flight.send(Record("t", b"%d" % number, key, number), partition)
        except (BufferError, ValueError, TooLargeError):
            pass
        else:
            self.accepted.add(number)
            if key is not None:
                self.sent_in_order.setdefault(key, []).append(number)
        self.library.refusals.clear()

    @rule(
        which=st.integers(0, 50),
        how=st.sampled_from(["times out", "arrives", "times out", "is refused", "is too large"]),
        callback_raises=st.booleans(),
    )
    def report(self, which: int, how: str, *, callback_raises: bool) -> None:
        if not self.library.in_flight:
            return
        record, attempt = self.library.in_flight.pop(which % len(self.library.in_flight))
        self.library.raises = callback_raises
        error = {"times out": TimeoutError, "is refused": ValueError, "is too large": TooLargeError}.get(how)
        try:
            self.flight.reported(
                attempt,
                arrived=None if error else record,
                error=error() if error else None,
                answered=how != "times out",
                worth_a_copy=how == "times out",
            )
            if attempt.rescuable is None:
                self.library.application(record.outcome)
        except ApplicationError:
            assert callback_raises
        finally:
            self.library.raises = False

    @rule(spared=st.sets(st.integers(0, 4), max_size=3), handle=st.sampled_from(HANDLES))
    def trouble(self, spared: set[int], handle: int) -> None:
        waiting = [attempt for _, attempt in self.library.in_flight if attempt.partition not in spared]
        self.reports.where_stuck = {(a.handle, a.topic, a.partition): 1 for a in waiting}
        self.partitioner.deliveries.handle = handle

    @rule(refusals=REFUSALS, seconds=st.sampled_from([0.0, 0.001, 0.01, 6.0]))
    def serve(self, refusals: list[Any], seconds: float) -> None:
        self.now += seconds
        self.library.refusals[:] = refusals
        self.flight.served()
        self.library.refusals.clear()

    @rule(
        how=st.sampled_from(["arrives", "times out"]), another=st.sampled_from(["reports", "searches", None])
    )
    def some_wait_untracked(self, how: str, another: str | None) -> None:
        """One is tracked wherever some wait; another thread may report just that, or search as well."""

        def meanwhile(attempt: Attempt) -> None:
            self.reports.meanwhile = None
            if another == "searches":
                self.now += 2 * copies.UNTRACKED_S
                self.flight.served()
            elif another == "reports":
                which = [it for _, it in self.library.in_flight].index(attempt)
                self.report(which, how, callback_raises=False)

        self.now += copies.UNTRACKED_S
        self.reports.where_stuck, self.reports.meanwhile = {}, meanwhile
        self.flight.served()
        self.reports.meanwhile = None
        if self.flight.rescue == "hedge" and another is None:
            self.now += 2 * copies.UNTRACKED_S
            self.flight.served()
            waiting = {a.place for _, a in self.library.in_flight if a.rescuable and a.partition >= 0}
            assert waiting <= {it.place for it, count in self.reports.known.items() if count}

    @rule()
    def hang(self) -> None:
        """All that is in flight is stuck, and copies take another handle."""
        self.trouble(set(), 1)
        self.now += 0.01
        self.flight.served()

    @rule(leaders=st.lists(st.sampled_from([*BROKERS, None]), min_size=8, max_size=8), more=st.booleans())
    def metadata(self, leaders: list[int | None], *, more: bool) -> None:
        self.partitions = min(8, self.partitions + more)
        self.snapshot(leaders[: self.partitions])

    @rule(handle=st.sampled_from(HANDLES[1:]))
    def toggle(self, handle: int) -> None:
        self.library.open ^= {handle}

    @rule()
    def purge(self) -> None:
        self.flight.copies.purge()
        self.flight.served()

    @invariant()
    def one_outcome_at_most(self) -> None:
        assert all(count == 1 for count in self.library.outcomes.values())
        assert self.library.outcomes.keys() <= self.accepted
        assert self.flight.waiting == len(self.flight.copies.queue)

    @invariant()
    def keys_keep_their_order(self) -> None:
        assert self.library.handed == self.sent_in_order

    def teardown(self) -> None:
        if not hasattr(self, "flight"):
            return
        self.stop()
        for _ in range(8):  # as many rounds as a record has attempts, and then some
            while self.library.in_flight:
                how = "arrives" if self.number % 2 else "times out"
                self.report(0, how, callback_raises=False)
            self.flight.served()
        assert set(self.library.outcomes) == self.accepted
        assert all(count == 1 for count in self.library.outcomes.values())
        assert not +self.reports.known
        assert not -self.reports.known
        assert not self.flight.copies.open
        assert self.flight.copies.stats.held_bytes == 0
        assert not self.flight.copies._uncopied
        assert not self.flight.copies._in_flight


FlightMachine.TestCase.settings = settings(max_examples=scaled(200), stateful_step_count=40, deadline=None)
TestFlight = FlightMachine.TestCase
