"""One batch: topics that grow together, each with a producer and a group of two, and what goes wrong."""

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from attrs import define, field, frozen
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from benchmarks.errors import BenchError
from benchmarks.gate.control import Control
from benchmarks.gate.counting import Moments, Run, run_of
from benchmarks.gate.groups import unpositioned
from benchmarks.gate.plan import (
    AFTER_S,
    DEADLINE_S,
    GROWN,
    LATE_S,
    OLD,
    PAUSE_S,
    SESSION_S,
    STRIKE_S,
    UNGATED_S,
    Client,
    Fault,
    Scenario,
)
from benchmarks.gate.story import Growth
from benchmarks.gate.task import Role, Task
from benchmarks.gate.worker import Worker
from kafka_partition_events.testing import KafkaCluster

_NS: Final = 1_000_000_000
_POSITIONS_LIMIT_S = 90.0
_LIMIT_S = 60.0
_GATE_LIMIT_S = 120.0
_QUIET_S = SESSION_S + 4.0
_LOOK_S = 0.1


@frozen
class Bench:
    """What all batches share: the cluster whose topics grow, and the control topics with the tracker."""

    data: KafkaCluster
    control: Control
    admin: AdminClient


@define
class Batch:
    """One batch while it lasts."""

    bench: Bench
    scenario: Scenario
    number: int
    topics: Mapping[Client, tuple[str, ...]]
    scratch: Path
    growth: Growth
    producers: list[Worker] = field(factory=list)
    consumers: list[Worker] = field(factory=list)
    positioned_ns: int = 0
    struck_ns: dict[str, int] = field(factory=dict)

    @property
    def all_topics(self) -> tuple[str, ...]:
        return tuple(topic for topics in self.topics.values() for topic in topics)

    @property
    def gated(self) -> bool:
        return self.scenario.guard != "none"

    # -- processes -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start everybody: a process for each member of all groups, and for each client as a producer."""
        everything = self.all_topics
        # Who is killed at a moment of each topic's own has a process for each topic.
        alone = self.scenario.fault == "consumer-late"
        self._consume("1", everything)
        for place, topics in enumerate([(topic,) for topic in everything] if alone else [everything]):
            self._consume(f"2-{place}", topics)
        for client, topics in self.topics.items():
            self.producers.append(Worker(self._task("producing", client, client, topics, self.gated)))

    def _consume(self, name: str, topics: tuple[str, ...]) -> None:
        client, hooked = self.scenario.consumers.client, self.scenario.guard == "hook"
        self.consumers.append(Worker(self._task("consuming", name, client, topics, hooked)))

    def _task(self, role: Role, name: str, client: Client, topics: tuple[str, ...], control: bool) -> Task:
        return Task(
            role=role,
            name=name,
            client=client,
            bootstrap=self.bench.data.bootstrap_servers,
            prefix=self.bench.control.prefix if control else None,
            topics=topics,
            out=self.scratch / f"{role}-{name}",
            new_protocol=self.scenario.consumers.new_protocol and role == "consuming",
        )

    # -- waiting -------------------------------------------------------------------------------------

    def wait(self, limit: float, what: str, true: Callable[[], bool]) -> None:
        """Wait for something while the changes are watched."""
        deadline = time.monotonic() + limit
        while not self._look(true):
            if time.monotonic() > deadline:
                raise self._failure(f"not within {limit:.0f} s: {what}")
            time.sleep(_LOOK_S)

    def _look(self, true: Callable[[], bool]) -> bool:
        self.bench.control.check()
        self.bench.control.changes.look()
        for worker in (*self.producers, *self.consumers):
            worker.check()
        return true()

    def _failure(self, what: str) -> BenchError:
        error = self.bench.control.explain(BenchError(what))
        for worker in (*self.producers, *self.consumers):
            error.add_note(f"{worker.task.role} {worker.task.name}: {worker.log_tail()}")
        return error

    def last(self, seconds: float) -> None:
        """Let time pass."""
        over = time.monotonic() + seconds
        self.wait(seconds + _LIMIT_S, "", lambda: time.monotonic() >= over)

    # -- what was seen -------------------------------------------------------------------------------

    def both_receive(self) -> bool:
        """Tell whether of each group two members have received something."""
        members = [{topic for topic, _ in worker.entries()} for worker in self.consumers]
        second = set[str]().union(*members[1:])
        return members[0] == second == set(self.all_topics)

    def used_ns(self) -> dict[str, int]:
        """Return when the first record on a new partition of each topic was acknowledged."""
        first: dict[str, int] = {}
        for worker in self.producers:
            for topic, entry in worker.entries():
                if entry.partition >= OLD:
                    first[topic] = min(entry.at_ns, first.get(topic, entry.at_ns))
        return first

    def all_used(self) -> bool:
        return len(self.used_ns()) == len(self.all_topics)

    def received(self) -> dict[str, set[tuple[int, int]]]:
        """Return partition and offset of what was received, by topic."""
        found: dict[str, set[tuple[int, int]]] = {topic: set() for topic in self.all_topics}
        for worker in self.consumers:
            for topic, entry in worker.entries():
                found[topic].add((entry.partition, entry.offset))
        return found

    def runs(self) -> dict[Client, list[Run]]:
        """Count."""
        received = self.received()
        return {
            client: [self._run(topic, worker, received[topic]) for topic in topics]
            for (client, topics), worker in zip(self.topics.items(), self.producers, strict=True)
        }

    def _run(self, topic: str, worker: Worker, received: set[tuple[int, int]]) -> Run:
        acked = [entry for of, entry in worker.entries() if of == topic]
        grown, opening = self.growth.at_ns[topic], self.bench.control.changes.openings.get(topic)
        moments = Moments(
            positioned=self.positioned_ns,
            grown=grown,
            opened=opening.at_ns if opening else None,
            deadline=grown + round(DEADLINE_S * _NS) if self.gated else None,
            struck=self.struck_ns.get(topic),
        )
        return run_of(self.number, acked, received, moments, opening.by if opening else None)


def run_batch(
    bench: Bench, scenario: Scenario, number: int, clients: Sequence[Client], size: int
) -> dict[Client, list[Run]]:
    """Do one batch; return the runs of each producing client.

    Raises:
        BenchError: something did not happen in time, or a process failed.
        KitError: a cluster did not do what it was asked.
    """
    with (
        _batch(bench, scenario, number, clients, size) as batch,
        bench.control.littered() if scenario.fault == "garbage" else nullcontext(),
    ):
        batch.start()
        _await_positions(batch)
        _grow(batch, scenario)
        STRIKES.get(scenario.fault, _nothing)(batch)
        batch.wait(_GATE_LIMIT_S, "all producers use new partitions", batch.all_used)
        killed = SESSION_S if scenario.fault in {"consumer", "consumer-late"} else 0.0
        batch.last(killed + (AFTER_S if batch.gated else UNGATED_S))
        for producer in batch.producers:
            producer.stop()
        _drain(batch)
        for consumer in batch.consumers:
            consumer.stop()
        return batch.runs()


@contextmanager
def _batch(
    bench: Bench, scenario: Scenario, number: int, clients: Sequence[Client], size: int
) -> Iterator[Batch]:
    run = uuid.uuid4().hex[:6]
    topics = {client: tuple(f"gate-{run}-{client}-{i}" for i in range(size)) for client in clients}
    everything = [topic for each in topics.values() for topic in each]
    for topic in everything:
        bench.data.create_topic(topic, OLD, replication_factor=scenario.brokers)
    with tempfile.TemporaryDirectory(prefix="bench-gate-") as scratch:
        growth = Growth(bench.admin, everything)
        batch = Batch(bench, scenario, number, topics, Path(scratch), growth)
        try:
            yield batch
        finally:
            for worker in (*batch.producers, *batch.consumers):
                worker.kill()
            for topic in everything:
                bench.data.delete_topic(topic)


def _await_positions(batch: Batch) -> None:
    """Wait until every group has two members that receive, and has committed on all partitions."""
    batch.wait(_POSITIONS_LIMIT_S, "two members of each group receive records", batch.both_receive)
    waiting = set(batch.all_topics)

    def committed() -> bool:
        waiting.intersection_update(unpositioned(batch.bench.admin, waiting))
        return not waiting

    batch.wait(_POSITIONS_LIMIT_S, "the groups have committed", committed)
    batch.positioned_ns = time.time_ns()


def _grow(batch: Batch, scenario: Scenario) -> None:
    if batch.gated:
        cluster_id = batch.bench.data.cluster_id
        batch.bench.control.request([scenario.spec(cluster_id, topic) for topic in batch.all_topics])
        WHILE_IT_GROWS.get(scenario.fault, _nothing)(batch)
    else:
        grown = [NewPartitions(topic, GROWN) for topic in batch.all_topics]
        for future in batch.bench.admin.create_partitions(grown).values():
            future.result(_LIMIT_S)
    batch.wait(_LIMIT_S, "all topics have grown", batch.growth.look)


def _drain(batch: Batch) -> None:
    """Wait until all is received, or nothing has come for a while."""
    most, since = 0, time.monotonic()

    def quiet() -> bool:
        nonlocal most, since
        runs = [run for runs in batch.runs().values() for run in runs]
        received = sum(run.acked - run.missed for run in runs)
        if received > most:
            most, since = received, time.monotonic()
        return not any(run.missed for run in runs) or time.monotonic() - since > _QUIET_S

    batch.wait(_LIMIT_S, "consumers come to an end", quiet)


# -- what goes wrong ---------------------------------------------------------------------------------------


def _nothing(_batch: Batch) -> None:
    pass


def _strike(batch: Batch) -> None:
    """Wait for the moment, and note it."""
    batch.last(STRIKE_S[batch.number % len(STRIKE_S)])
    batch.struck_ns = dict.fromkeys(batch.all_topics, time.time_ns())


def _kill_producers(batch: Batch) -> None:
    _strike(batch)
    for producer in batch.producers:
        producer.kill()
        producer.start()


def _kill_a_consumer(batch: Batch) -> None:
    _strike(batch)
    batch.consumers[1].kill()


def _kill_consumers_late(batch: Batch) -> None:
    """Kill the second member of each group soon after its first record on a new partition."""
    waiting = {worker.task.topics[0]: worker for worker in batch.consumers[1:]}

    def all_killed() -> bool:
        now = time.time_ns()
        for topic, at_ns in batch.used_ns().items():
            if topic in waiting and now > at_ns + LATE_S * _NS:
                waiting.pop(topic).kill()
                batch.struck_ns[topic] = time.time_ns()
        return not waiting

    batch.wait(_GATE_LIMIT_S, "all producers use new partitions", all_killed)


def _kill_the_tracker(batch: Batch) -> None:
    _strike(batch)
    batch.bench.control.kill_tracker()
    batch.bench.control.start_tracker()


def _pause_the_tracker(batch: Batch) -> None:
    _strike(batch)
    with batch.bench.control.paused():
        batch.last(PAUSE_S)


def _pause_the_tracker_late(batch: Batch) -> None:
    openings = batch.bench.control.changes.openings
    batch.wait(_GATE_LIMIT_S, "the gates open", lambda: openings.keys() >= set(batch.all_topics))
    _pause_the_tracker(batch)


def _take_all_members_away(batch: Batch) -> None:
    how, seconds = batch.scenario.fault.split("-")
    batch.wait(_LIMIT_S, "a topic grows", lambda: batch.growth.look() or bool(batch.growth.at_ns))
    _strike(batch)
    with ThreadPoolExecutor() as pool:
        [*pool.map(Worker.stop if how == "stopped" else Worker.kill, batch.consumers)]
    batch.last(float(seconds))
    for consumer in batch.consumers:
        consumer.start()


def _fail_coordinators_over(batch: Batch) -> None:
    """Restart brokers, so that coordinators are others, and have to load, while groups are scanned."""
    batch.struck_ns = dict.fromkeys(batch.all_topics, time.time_ns())
    for broker in batch.bench.data.brokers[:2]:
        batch.bench.data.restart(broker, clean=True)


def _cancel(batch: Batch) -> None:
    """Take back what has just happened; the tracker may not have noticed yet."""
    batch.struck_ns = dict.fromkeys(batch.all_topics, time.time_ns())
    batch.bench.control.cancel(batch.all_topics)


STRIKES: Final[dict[Fault, Callable[[Batch], None]]] = {
    "producer": _kill_producers,
    "consumer": _kill_a_consumer,
    "consumer-late": _kill_consumers_late,
    "tracker": _kill_the_tracker,
    "coordinator": _fail_coordinators_over,
    "cancel": _cancel,
    "garbage": _strike,
    "paused-held": _pause_the_tracker,
    "paused-open": _pause_the_tracker_late,
}
WHILE_IT_GROWS: Final[dict[Fault, Callable[[Batch], None]]] = {
    "paused-asked": _pause_the_tracker,
    **dict.fromkeys(("stopped-6", "stopped-25", "killed-6", "killed-25"), _take_all_members_away),
}
