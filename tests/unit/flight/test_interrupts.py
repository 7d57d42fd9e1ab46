"""A signal handler that raises, or polls, at each point of a step where CPython runs handlers.

That is behind a call of C, where a function begins, and where a loop jumps back. However far the step came,
each record that was taken has one outcome in the end, and nothing waits for ever.
"""

import dis
import sys
from collections import Counter
from collections.abc import Callable, Collection
from types import FrameType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from kafka_partition_events import AdaptivePartitioner
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_moves import MoveKeys
from kafka_partition_events.clients.flight.key_order import KeyOrder
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.routing.table import NOTHING, Avoidance
from kafka_partition_events.testing.scripted import cluster_of

HANDLERS_RUN = {dis.opmap[it] for it in ("CALL", "CALL_FUNCTION_EX") if it in dis.opmap}
ALWAYS = {dis.opmap[it] for it in ("RESUME", "JUMP_BACKWARD") if it in dis.opmap}


@pytest.fixture(autouse=True)
def _the_detector_believes_what_tests_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sent", "answered", "failed", "withdrawn", "polled", "unreachable"):
        monkeypatch.setattr(ProducerReports, name, lambda *_arguments, **_more: None)


class World:
    """A client that takes each record and reports it when it is told to. Each is worth a copy."""

    no_room: ClassVar[tuple[type[BaseException], ...]] = (BufferError,)
    most_held_s = 300.0

    def __init__(self, rescue: RescueMode | None, keys: MoveKeys | None) -> None:
        self.now = 100.0
        self.partitioner = AdaptivePartitioner(hash_name="murmur2")
        self.partitioner.apply_snapshot(cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3]))
        further = SimpleNamespace(handle=object, is_coming=False)
        self.detours: Any = {1: further, 2: further}
        reports = ProducerReports(self.partitioner)
        self.flight = Flight(self.partitioner, self, reports, rescue, clock=lambda: self.now)
        self.order = KeyOrder(lambda _topic: None, keys, recalls=rescue == "hedge")
        self.flight.keep_order(self.order)
        self.stuck: dict[tuple[int, str, int], int | None] = {}
        reports.stuck = lambda: self.stuck  # type: ignore[method-assign]
        self.queued: list[tuple[Record, Attempt]] = []
        self.outcomes = Counter[bytes]()
        self.accepted: list[bytes] = []
        self.refused: list[bytes] = []
        self.sent = 0

    def choose(self, record: Record, tried: Collection[int] = ()) -> int:
        return 1 if record.key is not None else next((it for it in (1, 0, 2) if it not in tried), 0)

    def may_take(self, _handle: Any, _topic: str) -> bool:
        return True

    def hand_over(self, record: Record, attempt: Attempt) -> None:
        self.queued.append((record, attempt))

    def knows_no_such_partition(self, _error: BaseException) -> bool:
        return False

    is_too_large = knows_no_such_partition

    def may_choose(self, _record: Record) -> bool:
        return True

    def finish(self, rescuable: RescuableRecord, _arrived: Any) -> None:
        self.outcomes[rescuable.given.value] += 1

    def hold(self, record: Record, _waiting: int) -> tuple[Record, None]:
        return record, None

    def reject(self, record: Record, _home: int, _error: BaseException) -> None:
        self.outcomes[record.value] += 1

    def suspect(self, *brokers: int) -> None:
        deliveries, suspects = self.partitioner.deliveries, frozenset(brokers)
        avoidance = Avoidance(replicas=suspects, leaders=suspects, down=frozenset())
        deliveries._detector.avoidance = avoidance if brokers else NOTHING
        deliveries._detector.handle = 1 if brokers else 0
        deliveries._renew()
        deliveries._on_change()

    def send(self, key: bytes | None) -> None:
        self.sent += 1
        value = b"%d" % self.sent
        self.refused.append(value)  # unless it returns
        self.flight.send(Record("t", value, key))
        self.accepted.append(self.refused.pop())

    def report(self, error: BaseException | None = None) -> None:
        while self.queued:
            record, attempt = self.queued.pop(0)
            try:
                is_well, offset = error is None, 7 if error is None else -1
                arrived = object() if is_well else None
                self.flight.reported(
                    attempt, arrived=arrived, offset=offset, error=error, answered=is_well, worth_a_copy=True
                )
            finally:
                if attempt.rescuable is None:
                    self.outcomes[record.value] += 1

    def served(self) -> None:
        self.now += 0.01
        self.flight.served()


class Interrupt:
    """Runs a handler at the n-th point of a step."""

    def __init__(self, number: int, handler: Callable[[], object]) -> None:
        self.left, self.where, self._handler = number, "", handler
        self._latest: dict[FrameType, tuple[int, int]] = {}
        self._calls = 0

    def during(self, step: Callable[[], object]) -> None:
        sys.settrace(self._trace)
        try:
            step()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, what: str, _argument: Any) -> Any:
        self._calls += what == "call"
        if "/clients/flight/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if what == "opcode":
            latest, calls = self._latest.get(frame, (-1, 0))
            self._latest[frame] = frame.f_code.co_code[frame.f_lasti], self._calls
            if latest in ALWAYS or (latest in HANDLERS_RUN and calls == self._calls):
                self.left -= 1
                if self.left == 0:
                    sys.settrace(None)
                    self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                    self._handler()
                    return None
        return self._trace


Step = Callable[[Callable[[], object]], None]


def key_that_is_placed(world: World, step: Step) -> None:
    world.suspect(3)
    step(lambda: world.send(b"k"))
    world.send(b"k")
    step(world.report)


def key_that_is_held(world: World, step: Step) -> None:
    world.send(b"k")
    world.suspect(3)
    step(lambda: world.send(b"k"))
    step(lambda: world.send(b"k"))
    world.report()
    step(world.served)


def key_that_is_recalled(world: World, step: Step) -> None:
    world.send(b"k")
    world.send(b"k")
    world.suspect(2)
    world.stuck = {(0, "t", 1): 2}
    step(world.served)
    world.stuck = {}


def copy_of_what_failed(world: World, step: Step) -> None:
    step(lambda: world.send(None))
    world.send(None)
    step(lambda: world.report(TimeoutError()))
    step(world.served)
    step(world.report)


def copy_of_what_is_stuck(world: World, step: Step) -> None:
    world.send(None)
    world.suspect(2)
    world.stuck = {(0, "t", 1): 2}
    step(world.served)
    world.stuck = {}


Scenario = Callable[[World, Step], None]
SCENARIOS: list[tuple[Scenario, RescueMode | None, MoveKeys | None]] = [
    (key_that_is_placed, None, MoveKeys()),
    (key_that_is_placed, "hedge", MoveKeys()),
    (key_that_is_held, None, None),
    (key_that_is_held, None, MoveKeys()),
    (key_that_is_recalled, "hedge", MoveKeys()),
    (copy_of_what_failed, "failed", None),
    (copy_of_what_is_stuck, "hedge", MoveKeys()),
]


def left_by(scenario: Scenario, world: World, interrupt: Interrupt, which: int) -> list[object]:
    """Run a scenario with one of its steps interrupted, then all that is left; return what is wrong."""
    steps = iter(range(10))

    def step(work: Callable[[], object]) -> None:
        if next(steps) == which:
            interrupt.during(work)
        else:
            work()

    scenario(world, step)
    for is_well in (False, True):
        if is_well:
            world.suspect()
        for _ in range(10):
            world.report()
            world.served()
    outcomes: list[object] = [(it, world.outcomes[it]) for it in world.accepted if world.outcomes[it] != 1]
    outcomes += [(it, "was not taken") for it in world.refused if world.outcomes[it]]
    counted = [
        key
        for of in world.order._topics.values()
        for key in (*of.held, *(it for it, state in of.keys.items() if state.outstanding))
    ]
    copies = world.flight.copies
    kept = [*copies.open, *copies._in_flight, *copies._keyed, *copies._uncopied]
    waiting = [world.flight.waiting] if world.flight.waiting else []
    return [*outcomes, *counted, *kept, *waiting]


def interrupted(
    scenario: Scenario, rescue: RescueMode | None, keys: MoveKeys | None, handler: Callable[[World], object]
) -> int:
    """Interrupt a scenario at each of its points; return how many these are."""
    points = 0
    for which in range(4):
        for number in range(1, 1_000):
            world = World(rescue, keys)
            interrupt = Interrupt(number, lambda: handler(world))  # noqa: B023 - it is called in this round
            left = left_by(scenario, world, interrupt, which)
            assert not left, f"step {which}, {interrupt.where}"
            if not interrupt.where:
                break
            points += 1
    return points


def raises(_world: World) -> None:
    raise KeyboardInterrupt


def fails(world: World) -> None:
    world.report(TimeoutError())
    world.served()


HANDLERS = [
    pytest.param(raises, id="raises"),
    pytest.param(World.served, id="serves", marks=pytest.mark.slow),
    pytest.param(World.report, id="reports", marks=pytest.mark.slow),
    pytest.param(lambda world: world.send(b"k"), id="sends", marks=pytest.mark.slow),
    pytest.param(fails, id="fails", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize(("scenario", "rescue", "keys"), SCENARIOS)
def test_nothing_is_lost(
    scenario: Scenario, rescue: RescueMode | None, keys: MoveKeys | None, handler: Callable[[World], object]
) -> None:
    assert interrupted(scenario, rescue, keys, handler) > 20
