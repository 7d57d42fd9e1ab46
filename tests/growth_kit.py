"""What tests of growth-safe keys share: a fleet of partitioners with one store and one clock, and keys."""

import threading
from collections.abc import Mapping
from typing import Any

from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.pins import History, MemoryPinStore
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of

KEYS = [b"user-%d" % number for number in range(300)]
LIMIT_S = 20


class Store(MemoryPinStore):
    """A store that can be down, and notes when it was read."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.down = False
        self.reads: list[float] = []
        self.written = threading.Event()

    def read(self) -> Mapping[str, History]:
        self.reads.append(self.clock.monotonic())
        if self.down:
            raise PinStoreError("the store is down")
        return super().read()

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        if self.down:
            raise PinStoreError("the store is down")
        self.written.set()
        return super().replace(topic, before, after)


class Fleet:
    """Instances that share a store and a clock; time passes for all of them at once."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.running: list[GrowthSafePartitioner] = []

    def start(self, partitions: int = 6, **options: Any) -> GrowthSafePartitioner:
        instance = GrowthSafePartitioner(mapping="pinned", store=self.store, clock=self.clock, **options)
        self.running.append(instance)
        see(instance, partitions)
        return instance

    def stop(self, instance: GrowthSafePartitioner) -> None:
        self.running.remove(instance)
        instance.close()

    def after(self, seconds: float) -> None:
        """Let time pass, and every instance do what it does then."""
        self.clock.wait_for_waiters(len(self.running))
        self.clock.advance(seconds)
        self.clock.wait_for_waiters(len(self.running))

    def close(self) -> None:
        for instance in self.running:
            instance.close()


def see(instance: GrowthSafePartitioner, partitions: int) -> None:
    instance.adopt(cluster_of({"t": [1] * partitions}))


def places(instance: GrowthSafePartitioner, topic: str = "t", cluster: Any = None) -> list[int]:
    return [instance.partition(topic, key, key, b"v", b"v", cluster) for key in KEYS]


def modulo(count: int) -> list[int]:
    return [murmur2_partition(key, count) for key in KEYS]
