"""Puts the home partition into the headers of keyed records that a producer's partitioner reroutes.

kafka-python's ``send`` asks the partitioner after it has checked the headers and before it reads them, so
what the partitioner adds to the list in between is sent. This relies on that order; a test would notice.
"""

from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.kafka_python.overriding import override_send, send_by_name
from kafka_partition_events.clients.rerouting import noting_homes
from kafka_partition_events.clients.rescue import Headers


def note_homes(producer: KafkaProducer) -> None:
    """Note the homes of rerouted records from now on, for as long as the producer lives."""
    base = type(producer)

    def send(
        producer: KafkaProducer, topic: str, value: Any, key: Any, headers: Headers, timestamp_ms: int | None
    ) -> Any:
        with noting_homes(headers):
            return send_by_name(base, producer, topic, value, key, headers, None, timestamp_ms)

    override_send(producer, send)
