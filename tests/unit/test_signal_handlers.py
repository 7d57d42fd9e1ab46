"""A signal handler runs in the main thread between any two byte codes, and may produce or report there.

Each test interrupts a thread where it holds a lock, and does there what needs the same lock. With a lock that
lets nobody in twice the thread would wait for itself.
"""

import random
import threading
from collections.abc import Callable

import pytest

from kafka_partition_events import RoundRobinPartitioner
from kafka_partition_events.partitioners.deliveries import Deliveries
from kafka_partition_events.testing.scripted import cluster_of

LIMIT_S = 10.0


class Interrupt:
    """A place in a program; a signal handler runs there once."""

    def __init__(self) -> None:
        self.handler: Callable[[], object] | None = None

    def here(self) -> None:
        handler, self.handler = self.handler, None
        if handler is not None:
            handler()


def interrupted(interrupt: Interrupt, work: Callable[[], object]) -> list[object]:
    """Do some work, and the same in a handler in its midst; return both results, the handler's first."""
    results: list[object] = []
    interrupt.handler = lambda: results.append(work())
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), "it waits for itself"
    assert interrupt.handler is None
    return results


def test_a_round_may_be_begun_while_one_is_begun() -> None:
    class Dice(random.Random):
        def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
            interrupt.here()
            return 0

    interrupt = Interrupt()
    partitioner = RoundRobinPartitioner(rng=Dice())
    partitioner.adopt(cluster_of({"t": [1, 2, 3]}))
    placed = interrupted(interrupt, lambda: partitioner.partition("t", None, None, b"v", b"v", None))
    assert placed == [0, 0], "which begins anew"
    assert partitioner.partition("t", None, None, b"v", b"v", None) == 1


def test_a_cluster_may_be_watched_while_it_is_watched() -> None:
    class Live:
        """kafka-python's ClusterMetadata, as far as a partitioner sees it."""

        def add_listener(self, listener: Callable[[object], None]) -> None:
            interrupt.here()

        def partitions_for_topic(self, topic: str) -> set[int]:
            return {0}

        available_partitions_for_topic = partitions_for_topic

    interrupt, live, partitioner = Interrupt(), Live(), RoundRobinPartitioner()
    assert interrupted(
        interrupt, lambda: partitioner.partition("t", None, None, b"v", b"v", live)
    ) == [0, 0]  # fmt: skip


def test_a_record_may_be_sent_while_one_is_noted() -> None:
    def clock() -> float:
        interrupt.here()
        return 100.0

    interrupt = Interrupt()
    deliveries = Deliveries(lambda: None, clock=clock)
    interrupted(interrupt, lambda: deliveries.sent("t", 0, 1))
    assert deliveries.stats.outstanding == {("t", 0): 2}
    interrupted(interrupt, lambda: deliveries.answered("t", 0, 0.005, "p"))
    assert deliveries.stats.outstanding == {("t", 0): 0}


def test_a_keyed_record_may_be_sent_while_one_chooses_its_way() -> None:
    standby = pytest.importorskip("kafka_partition_events.clients.confluent.standby")

    class Topic(str):
        __slots__ = ()
        __eq__ = str.__eq__

        def __hash__(self) -> int:
            interrupt.here()
            return str.__hash__(self)

    interrupt, order = Interrupt(), standby.KeyOrder()
    entered = interrupted(interrupt, lambda: order.enter(Topic("t"), 0, 1)[0])
    assert entered == [1, 1]
    assert order.enter("t", 0, 2)[0] == 1, "two are on their way there"
