"""Puts the home partition into the headers of keyed records that a producer's partitioner reroutes.

kafka-python's ``send`` asks the partitioner after it has checked the headers and before it reads them, so
what the partitioner adds to the list in between is sent. This relies on that order; a test would notice.
"""

from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.kafka_python.deliveries import override
from kafka_partition_events.clients.rerouting import noting_homes


def note_homes(producer: KafkaProducer) -> None:
    """Note the homes of rerouted records from now on, for as long as the producer lives."""
    plain = type(producer).send

    def send(
        producer: KafkaProducer,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        listed = headers is None or isinstance(headers, list)  # else kafka-python is about to raise
        if partition is not None or not listed:
            return plain(producer, topic, value, key, headers, partition, timestamp_ms)
        own = list(headers or ())
        with noting_homes(own):
            return plain(producer, topic, value, key, own, partition, timestamp_ms)

    override(producer, send=send)
