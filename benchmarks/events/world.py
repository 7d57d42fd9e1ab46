"""The cluster of these benchmarks, and what the loss of one of its brokers looks like. Pure.

5,000 topics of 40 partitions, 3 replicas each, on 100 brokers. A topic lies on eight brokers next to each
other, so a broker leads 2,000 partitions, five in each of 400 topics, and holds 6,000 replicas.
"""

from datetime import UTC, datetime

from kafka_partition_events import EMPTY, Event, Node, Observation, PartitionInfo, TopicInfo, diff
from kafka_partition_events.metadata.reconcile import Memory, reconcile
from kafka_partition_events.metadata.source import Proof

TOPICS, PARTITIONS, BROKERS, WIDTH, REPLICAS = 5_000, 40, 100, 8, 3
LOST = 7
"""The broker that comes and goes."""


def observation(look: int, *, lost: bool, shrinks: bool = True) -> Observation:
    """Return the answer to a look; like a source's, it shares no object with the one before.

    Args:
        look: The number of the look: leader epochs of what comes and goes rise with it.
        lost: Whether broker `LOST` is missing.
        shrinks: Whether it then leaves the in-sync replicas too, as it does in a real cluster; else there are
            2,001 events and not 8,001.
    """
    return Observation(
        started_at=float(look),
        nodes=tuple(
            Node(id_, f"broker-{id_}", 9092, f"rack-{id_ % 3}")
            for id_ in range(BROKERS)
            if not (lost and id_ == LOST)
        ),
        topics={f"topic-{t:04d}": _topic(t, look, lost, lost and shrinks) for t in range(TOPICS)},
        cluster_id="Yk3bQ0x7T5mVb1c2d3e4fg",
        proof=Proof(topic_ids=True, leader_epochs=True, racks=True),
    )


def _topic(t: int, look: int, lost: bool, shrinks: bool) -> TopicInfo:
    name = f"topic-{t:04d}"
    partitions = []
    for p in range(PARTITIONS):
        replicas = tuple((t * WIDTH + (p + i) % WIDTH) % BROKERS for i in range(REPLICAS))
        led = replicas[0] == LOST
        partitions.append(
            PartitionInfo(
                topic=name,
                partition=p,
                leader=replicas[1] if led and lost else replicas[0],
                replicas=replicas,
                isr=tuple(r for r in replicas if r != LOST) if shrinks else replicas,
                leader_epoch=look if led else 0,
            )
        )
    return TopicInfo(name, tuple(partitions), f"AAAAAAAAAAAAAAAAAA{t:04d}")


class Story:
    """The broker goes and comes back, again and again: snapshots and events as a poller makes them."""

    def __init__(self, *, shrinks: bool) -> None:
        self._shrinks = shrinks
        self._look = 0
        self._memory = Memory()
        self.cluster = EMPTY
        self.looked_at = datetime.now(UTC)
        self.next()

    def next(self) -> tuple[Event, ...]:
        """Return what happens next; `cluster` is what it leads to."""
        before, previous_at = self.cluster, self.looked_at
        seen = observation(self._look, lost=self._look % 2 == 1, shrinks=self._shrinks)
        outcome = reconcile(before, seen, self._memory, seen.started_at)
        self.cluster, self._memory = outcome.cluster, outcome.memory
        self.looked_at = datetime.now(UTC)
        self._look += 1
        return diff(before, self.cluster, wall_time=self.looked_at, previous_at=previous_at)
