"""One producer on each client, with this library's partitioner in it."""

import contextlib
from typing import Any

from kafka_partition_events.demo.traffic import Report
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.sticky import DefaultPartitioner
from kafka_partition_events.routing.budget import BufferBudget

DELIVERY_LIMIT_MS = 5_000
"""A record that can't be delivered fails within the demo's time; Kafka's clients wait two minutes."""

_POLLING: dict[str, Any] = {"interval": 1.0, "fetch_timeout": 3.0}  # seconds


class ConfluentWriter:
    """A `PartitioningProducer` on confluent-kafka."""

    name = "confluent-kafka"

    def __init__(self, bootstrap_servers: str, budget: BufferBudget) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        from kafka_partition_events.clients.confluent import PartitioningProducer  # noqa: PLC0415

        self._refusal = KafkaException
        self._producer = PartitioningProducer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": DELIVERY_LIMIT_MS,
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 2,
            },
            DefaultPartitioner(budget=budget),
            poller_options=_POLLING,
        )
        self.partitioner = self._producer.partitioner
        self.poller: MetadataPoller = self._producer.poller

    def write(self, topic: str, value: bytes, key: bytes | None, report: Report) -> None:
        """Send one record."""

        def delivered(error: Any, _message: Any) -> None:
            report(None if error is None else error.str())

        try:
            self._producer.produce(topic, value, key, on_delivery=delivered)
        except self._refusal as error:
            report(error.args[0].str())

    def serve(self) -> None:
        """Let delivery reports in."""
        self._producer.poll(0)

    def finish(self, timeout: float) -> None:
        """Wait until every record has been reported on."""
        self._producer.flush(timeout)

    def own_counters(self) -> str:
        """Return what the producer itself counted, in words."""
        stats = self._producer.stats
        return (
            f"PartitioningProducer.stats, which includes what failed: rerouted {stats.rerouted:,}, "
            f"capped {stats.capped:,}, fallbacks {stats.fallbacks:,}"
        )

    def close(self) -> None:
        """Release the producer and its poller."""
        self._producer.close()


class KafkaPythonWriter:
    """A kafka-python ``KafkaProducer`` with the same partitioner, attached to a poller."""

    name = "kafka-python"

    def __init__(self, bootstrap_servers: str, *, real: bool) -> None:
        from kafka import KafkaProducer  # noqa: PLC0415

        from kafka_partition_events.clients.kafka_python import attach  # noqa: PLC0415

        self.partitioner = DefaultPartitioner()
        # The mock cluster answers no question about versions.
        version: dict[str, Any] = {} if real else {"api_version": (2, 3)}
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","),
            partitioner=self.partitioner,
            acks="all",
            linger_ms=5,
            enable_idempotence=False,
            request_timeout_ms=DELIVERY_LIMIT_MS - 1_000,
            delivery_timeout_ms=DELIVERY_LIMIT_MS,
            max_block_ms=1_000,
            metadata_max_age_ms=1_000,
            **version,
        )
        self.poller: MetadataPoller = attach(self._producer, **_POLLING)

    def write(self, topic: str, value: bytes, key: bytes | None, report: Report) -> None:
        """Send one record."""
        future = self._producer.send(topic, value, key)
        future.add_callback(lambda _metadata: report(None))
        future.add_errback(lambda error: report(type(error).__name__))

    def serve(self) -> None:
        """Do nothing: this client has a thread of its own."""

    def finish(self, timeout: float) -> None:
        """Wait until every record has been reported on."""
        with contextlib.suppress(Exception):  # what was not reported on is counted as such
            self._producer.flush(timeout)

    def own_counters(self) -> str:
        """Return nothing: this client counts nothing of the kind."""
        return ""

    def close(self) -> None:
        """Release poller and producer."""
        self.poller.close()
        with contextlib.suppress(Exception):  # what was not reported on is counted as such
            self._producer.close(timeout=5)
