"""KIP-369: every record, keyed or not, goes to the next partition."""

import random
from collections.abc import Iterator
from itertools import count

from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.table import Route


class RoundRobinPartitioner(Partitioner):
    """Visits a topic's usable partitions in turn, whatever the key (KIP-369).

    Correct under kafka-python's double call (KAFKA-9965) and under threads. Each instance begins at a random
    partition, so that many short-lived producers do not all begin at partition 0 (KAFKA-4402).
    """

    def __init__(self, *, budget: BufferBudget | None = None, rng: random.Random | None = None) -> None:
        """Make a partitioner.

        Args:
            budget: A cap on the partitions that records go to; None: no cap. It also caps keyed records,
                because this partitioner ignores keys.
            rng: Chooses where to begin; for tests.
        """
        super().__init__(budget=budget)
        self._rng = rng or random.Random()
        self._turns: dict[str, Iterator[int]] = {}

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        """Return the next partition. ``next`` on a C counter is one step: threads never share a number."""
        turns = self._turns.get(topic)
        if turns is None:
            turns = self._turns.setdefault(topic, count(self._rng.randrange(route.count)))
        usable = route.usable
        return usable[next(turns) % len(usable)]
