"""Simulated instances: each has its own duties, poller's view and times to look; they share a connection."""

import heapq
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from attrs import define

from kafka_partition_events.control.agents.agent_thread import AgentLink
from kafka_partition_events.control.agents.leases import Leaseholder
from kafka_partition_events.control.agents.producer_duties import ProducerDuties
from kafka_partition_events.control.protocol.codec import NO_PLACE, Skipped, encode, key_of
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change, Lease
from kafka_partition_events.metadata.cluster import Cluster

POLL_S: Final = 30.0
"""The default interval of pollers."""
_READ_S: Final = 0.5
_LIMIT_S = 10.0


@define
class Instance:
    """One producer: its duties, and the cluster as its poller has seen it last."""

    duties: ProducerDuties
    poll_due: float
    cluster: Cluster | None = None


class Fleet:
    """Producers that follow changes as agents do; see `ProducerAgent`. One thread.

    What is not simulated: each agent asks for the end of ``kpe.changes`` at each look, and reads what is new;
    here one reads for all.

    Attributes:
        bytes_of: Keys and values that were published, and read of ``changes``, by topic.
        records_of: How many there were.
        behind_s: By how much the simulation was late at most since `forget`.
    """

    def __init__(self, size: int, link: AgentLink, cluster: Callable[[], Cluster | None]) -> None:
        self._link = link
        self._cluster = cluster
        self._ledger = Ledger()
        self._heard: deque[tuple[Leaseholder, int | None]] = deque()
        self._skipped = Skipped()
        self._read_due = 0.0
        self.forget()
        now, rng = time.monotonic(), random.Random(size)
        self._instances = [
            Instance(self._duties(index, rng), now + rng.uniform(0, POLL_S)) for index in range(size)
        ]
        for instance in self._instances:
            instance.cluster = cluster()
        self._due = [(now, index) for index in range(size)]

    def _duties(self, index: int, rng: random.Random) -> ProducerDuties:
        lease = Lease(
            instance_id=f"orders-api-{index:05}", incarnation=f"{rng.getrandbits(128):032x}", lease_seq=0
        )
        return ProducerDuties(lease, self._ledger, rng=rng)

    def forget(self) -> None:
        """Begin to count anew."""
        self.bytes_of: Counter[str] = Counter()
        self.records_of: Counter[str] = Counter()
        self.behind_s = 0.0

    @property
    def changes(self) -> dict[str, Change]:
        return self._ledger.changes

    @property
    def born(self) -> int:
        """How many have heard that their first lease was appended."""
        return sum(instance.duties.lease.born_ms is not None for instance in self._instances)

    def run_until(self, true: Callable[[], bool], limit: float) -> bool:
        """Let time pass; tell whether it came true within the limit."""
        over = time.monotonic() + limit
        while (now := time.monotonic()) < over:
            if now >= self._read_due:
                self._read()
                self._read_due = now + _READ_S
                if true():
                    return True
            self._take_deliveries()
            self._look_at_what_is_due()
        return False

    def _read(self) -> None:
        for key, value in self._link.read_changes(_LIMIT_S):
            self._count("changes", key, value or b"")
            self._ledger.take_written(key, value, self._skipped, NO_PLACE)

    def _look_at_what_is_due(self) -> None:
        until = time.monotonic() + _READ_S / 5
        while (now := time.monotonic()) < until and self._due[0][0] <= now:
            due, index = self._due[0]
            self.behind_s = max(self.behind_s, now - due)
            heapq.heapreplace(self._due, (self._look(self._instances[index], now), index))
        time.sleep(max(0.0, min(until, self._due[0][0]) - time.monotonic()))

    def _look(self, instance: Instance, now: float) -> float:
        """Do what an agent does at a look; return when the next one is due."""
        if now >= instance.poll_due:
            instance.cluster = self._cluster()
            instance.poll_due = now + POLL_S
        duties, cluster = instance.duties, instance.cluster
        limits = duties.limits(cluster, now)
        used = {
            name: min(len(info.partitions), limits.get(name, len(info.partitions)))
            for name, info in (cluster.by_topic if cluster else {}).items()
        }
        lease, again_at = duties.says(cluster, used, now)
        if lease is not None:
            key, value = key_of(lease), encode(lease)
            self._count("leases", key.encode(), value)
            self._link.publish(key, value, lambda at_ms: self._heard.append((duties, at_ms)))
        return min(again_at, instance.poll_due)

    def _take_deliveries(self) -> None:
        while self._heard:
            duties, at_ms = self._heard.popleft()
            duties.was_appended(at_ms, time.monotonic())

    def _count(self, topic: str, key: bytes, value: bytes) -> None:
        self.bytes_of[topic] += len(key) + len(value)
        self.records_of[topic] += 1
