"""A sink that writes to Kafka, by a producer that follows a script."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_partition_events.outbox import DeliveryError
from kafka_partition_events_listeners import kafka_sink
from kafka_partition_events_listeners.kafka_sink import KafkaSink
from tests.outbox_kit import entry


class Expired:
    """A producer whose certificate has expired; the file of the next one can't be read."""

    made = 0

    def __init__(self, config: dict[str, Any]) -> None:
        if Expired.made:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "ssl.certificate.location"))
        Expired.made += 1
        self._complain: Callable[[KafkaError], None] = config["error_cb"]

    def produce(self, *_: Any, **__: Any) -> None:
        self._complain(KafkaError(KafkaError._SSL, "certificate has expired"))

    def poll(self, _timeout: float) -> None:
        """No answer comes."""

    purge = close = lambda _self: None


def test_while_no_producer_can_be_made_the_cause_is_that_of_the_former_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_sink, "Producer", Expired)
    sink = KafkaSink({"bootstrap.servers": "x:1"}, timeout=1e-3)
    for _ in range(3):
        with pytest.raises(DeliveryError, match="cause: _SSL: certificate has expired"):
            sink.deliver([entry("1")])
