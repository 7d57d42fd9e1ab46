"""What happens, in which order: each step is trouble, then time to watch what it does."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from attrs import frozen

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.demo.tour.lines import Lines
from kafka_partition_events.demo.tour.traffic import Traffic
from kafka_partition_events.testing import KafkaCluster

BROKERS: Final = 3
ORDERS, RETURNS, EVENTS = "orders", "returns", "kpe.events"
"""Topics: one that grows, one that is re-created, and the library's own events."""

ORDERS_BEFORE, ORDERS_AFTER, ORDERS_CAP = 6, 12, 9
RETURNS_BEFORE, RETURNS_AFTER = 6, 3
_VICTIM: Final = 2
_STEP_S: Final = 0.25
_QUIET_S: Final = 5.0


def create_topics(cluster: KafkaCluster) -> None:
    """Create the topics. Those with one replica go offline with their broker; the events must survive it."""
    cluster.create_topic(ORDERS, assignment={p: [p % BROKERS + 1] for p in range(ORDERS_BEFORE)})
    cluster.create_topic(RETURNS, RETURNS_BEFORE, BROKERS)
    cluster.create_topic(EVENTS, 1, BROKERS)


@frozen
class _Step:
    title: str
    act: Callable[[], None]
    quiet: float
    """How many quiet stretches to watch afterwards."""


def play(cluster: KafkaCluster, traffic: Traffic, lines: Lines) -> None:
    """Play all steps.

    Raises:
        CliError: the producer's thread has ended.
        KitError: the cluster did not do what it was asked.
    """
    for step in _steps(cluster):
        lines.write(f"== {step.title}")
        step.act()
        until = time.monotonic() + step.quiet * _QUIET_S
        while time.monotonic() < until:
            time.sleep(_STEP_S)
            if traffic.error is not None:
                raise CliError(f"the producer ended: {traffic.error!r}")


def _steps(cluster: KafkaCluster) -> Iterator[_Step]:
    yield _Step("all is well", lambda: None, 0.5)
    yield _Step(
        f"{ORDERS} grows from {ORDERS_BEFORE} to {ORDERS_AFTER} partitions; the producer uses {ORDERS_CAP}",
        lambda: cluster.grow_topic(ORDERS, ORDERS_AFTER),
        1,
    )
    yield _Step(f"kill -9 broker {_VICTIM}", lambda: cluster.kill(_VICTIM), 1.5)
    yield _Step(f"broker {_VICTIM} starts again", lambda: cluster.restart(_VICTIM), 1)

    def recreate() -> None:
        cluster.delete_topic(RETURNS)
        cluster.create_topic(RETURNS, RETURNS_AFTER, BROKERS)

    yield _Step(f"{RETURNS} is deleted, and created again with {RETURNS_AFTER} partitions", recreate, 1)
