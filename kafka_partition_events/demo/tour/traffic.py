"""A producer that writes at a steady rate, whatever happens to the cluster."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.routing.budget import BufferBudget

_RATE: Final = 250
_TURNS: Final = ("orders", "orders", "orders", "returns")
_DELIVERY_LIMIT_MS: Final = 5_000


class Traffic:
    """A thread with a `PartitioningProducer`.

    Attributes:
        poller: Who tells what the producer finds out.
        error: What ended the thread early; None while all is well.
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
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kpe-demo-traffic", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            began, sent = time.monotonic(), 0
            while not self._stop.is_set():
                with contextlib.suppress(self._refusal):  # of a topic that is deleted just now
                    self._producer.produce(_TURNS[sent % len(_TURNS)], b"%d" % sent)
                sent += 1
                self._producer.poll(max(0.0, began + sent / _RATE - time.monotonic()))
        except BaseException as error:  # noqa: BLE001 - for the main thread, which must not wait in vain
            self.error = error

    def close(self) -> None:
        """Write no more, and wait for what is outstanding."""
        self._stop.set()
        self._thread.join(10.0)
        self._producer.flush(_DELIVERY_LIMIT_MS / 1000 + 5.0)
        self._producer.close()


@contextlib.contextmanager
def open_traffic(bootstrap_servers: str, budget: BufferBudget) -> Iterator[Traffic]:
    """Let records flow."""
    with contextlib.closing(Traffic(bootstrap_servers, budget)) as traffic:
        yield traffic
