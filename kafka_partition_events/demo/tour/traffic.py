"""A producer that writes at a steady rate, whatever happens to the cluster."""

import contextlib
import time
from typing import Final

from kafka_partition_events.demo.tour.worker import Worker
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.routing.budget import BufferBudget

_RATE: Final = 250
_TURNS: Final = ("orders", "orders", "orders", "returns")
_DELIVERY_LIMIT_MS: Final = 5_000


class Traffic(Worker):
    """A `PartitioningProducer` that writes.

    Attributes:
        poller: Who tells what the producer finds out.
    """

    def __init__(self, bootstrap_servers: str, budget: BufferBudget) -> None:
        """Connect, and begin to write."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        from kafka_partition_events.clients.confluent import PartitioningProducer  # noqa: PLC0415

        self._refusal = KafkaException
        self._producer = PartitioningProducer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 5,
                "message.timeout.ms": _DELIVERY_LIMIT_MS,
                "allow.auto.create.topics": False,
                "log_level": 2,
            },
            AdaptivePartitioner(budget=budget),
            rescue="hedge",
            poller_options={"interval": 1.0, "fetch_timeout": 3.0},
        )
        self.poller: MetadataPoller = self._producer.poller
        super().__init__("traffic")

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._over.is_set():
            with contextlib.suppress(self._refusal):  # of a topic that is deleted just now
                self._producer.produce(_TURNS[sent % len(_TURNS)], b"%d" % sent)
            sent += 1
            self._producer.poll(max(0.0, began + sent / _RATE - time.monotonic()))

    def close(self) -> None:
        """Write no more, and wait for what is outstanding."""
        self.stop()
        self._producer.flush(_DELIVERY_LIMIT_MS / 1000 + 5.0)
        self._producer.close()
