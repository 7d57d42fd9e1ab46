"""The world of ``feedback_simulator`` with a producer whose records all have a key.

Real in it, beside what is real there: `Flight`, which places, holds and releases the records. What is
modelled is the client: each batch closes a little sooner or later than its linger asks for, and requests go
out in the order in which batches close, so that the oldest record of a connection need not be its head.
"""

import heapq
import random
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, ClassVar

from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_moves import MoveKeys
from kafka_partition_events.clients.flight.key_order import KeyOrder
from kafka_partition_events.clients.flight.record import Attempt, Record
from kafka_partition_events.clients.flight.reports import ProducerReports
from tests.feedback_simulator import LATE, TOPIC, Simulation, _Batch, _Run

_JITTER_S = 0.002


class KeyedRun(_Run):
    """One run; the client's adapter as well."""

    no_room: tuple[type[BaseException], ...] = ()
    most_held_s = 1e9
    detours: ClassVar = {n: SimpleNamespace(handle=object) for n in (1, 2)}

    def __init__(
        self, simulation: Simulation, keys: int, *, moves: MoveKeys | None = None, burst: int = 1
    ) -> None:
        """Send records of so many keys, which stay at home without ``moves``, so many at once."""
        super().__init__(simulation)
        self.burst = self.due = burst
        homes = random.Random(simulation.seed)
        self.homes = [homes.randrange(simulation.partitions) for _ in range(keys)]
        self.jitter = random.Random(simulation.seed)
        self.number = 0
        self.sent_at: list[float] = []  # of each record
        self.home_of: list[int] = []
        self.arrived_at: dict[int, float] = {}
        self.offsets = [0] * simulation.partitions
        self.in_batch: dict[_Batch, list[tuple[int, Attempt]]] = defaultdict(list)
        self.closing: list[tuple[float, int, _Batch]] = []
        self.flight = Flight(self.partitioner, self, ProducerReports(self.partitioner), clock=self.clock)  # type: ignore[arg-type]
        probe = self.deliveries.take_keyed_probe
        self.flight.keep_order(KeyOrder(lambda _topic: None, moves, probe=probe))

    def late(self, partitions: set[int]) -> float:
        """Return the share of the records of some partitions, from the fault on, that came late or never."""
        those = [n for n, p in enumerate(self.home_of) if p in partitions and self.sent_at[n] >= self.s.since]
        late = [n for n in those if self.arrived_at.get(n, self.now) - self.sent_at[n] > LATE]
        return len(late) / len(those)

    def produce(self) -> None:
        self.due -= 1
        if not self.due:
            self.due = self.burst
            for _ in range(self.burst):
                self.send_one()

    def send_one(self) -> None:
        key = self.keys.randrange(len(self.homes))
        self.sent_at.append(self.now)
        self.home_of.append(self.homes[key])
        self.flight.send(Record(TOPIC, self.number, b"%d" % key, None, None, None), self.homes[key])
        self.number += 1

    def poll(self) -> None:
        while self.closing and self.closing[0][0] <= self.now:
            closed_at, _, batch = heapq.heappop(self.closing)
            self.plan(batch, closed_at)
        while self.reports and self.reports[0][0] <= self.now:
            at, _, batch, answered, plan = heapq.heappop(self.reports)
            if plan != batch.plans:
                continue
            del self.waiting[batch]
            for sent_at, (number, attempt) in zip(batch.sent_at, self.in_batch.pop(batch), strict=True):
                error = None if answered else TimeoutError()
                offset = self.offsets[batch.partition] = self.offsets[batch.partition] + 1
                self.flight.reported(
                    attempt, offset=offset, error=error, answered=answered, latency_s=at - sent_at
                )
                if answered:
                    self.arrived_at[number] = at
        self.flight.served()

    def begin(self, batch: _Batch) -> None:
        batch.closes_at += self.jitter.uniform(0, _JITTER_S)
        heapq.heappush(self.closing, (batch.closes_at, next(self.order), batch))

    # -- the client's adapter ------------------------------------------------------------------------

    def hand_over(self, record: Record, attempt: Attempt) -> None:
        batch = self.batch(attempt.partition, attempt.handle, self.leaders[attempt.partition])
        batch.sent_at.append(self.now)
        self.in_batch[batch].append((record.value, attempt))

    def hold(self, record: Record, _waiting: int) -> tuple[Record, None]:
        return record, None

    def may_take(self, _handle: object, _topic: str) -> bool:
        return True

    def knows_no_such_partition(self, _error: BaseException) -> bool:
        return False

    def reject(self, record: Record, _home: int, error: BaseException) -> Any:
        raise AssertionError(record) from error
