"""Test an application's own producer on a network that misbehaves; no Docker, no root.

    pytest examples/test_order_sender.py

The fixture `linked_kafka_cluster` comes with the package: three brokers, and a link before each.
"""

import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Message

from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.testing import KafkaCluster, Link


class OrderSender:
    """The application. It promises that no order is lost because one broker can't be reached."""

    def __init__(self, servers: str, topic: str) -> None:
        config = {"bootstrap.servers": servers, "message.timeout.ms": 20_000, "log_level": 2}
        self._producer = PartitioningProducer(config, rescue="hedge")  # try it without
        self._topic = topic
        self.sent = self.delivered = self.failed = 0

    def send(self, order: str) -> None:
        """Send an order; who wants to know what became of it asks later."""
        self.sent += 1
        self._producer.produce(self._topic, order.encode(), on_delivery=self._on_delivery)
        self._producer.poll(0)

    def close(self) -> None:
        """Wait until it is known of each order what became of it."""
        self._producer.flush()
        self._producer.close()

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1


def send_for(seconds: float, sender: OrderSender) -> None:
    """Let the application do its work for a while: some hundred orders a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sender.send(f"order {sender.sent}")
        time.sleep(0.002)


@pytest.mark.parametrize(
    "disturb",
    [
        pytest.param(Link.blackhole, id="swallows everything"),
        pytest.param(Link.refuse, id="refuses connections"),
        pytest.param(lambda link: link.delay(300, jitter=200), id="is slow"),
    ],
)
def test_no_order_is_lost(linked_kafka_cluster: KafkaCluster, disturb: Callable[[Link], None]) -> None:
    """Whatever becomes of the link to broker 2, all orders arrive."""
    cluster = linked_kafka_cluster
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, assignment={partition: [partition % 3 + 1] for partition in range(6)})

    sender = OrderSender(cluster.bootstrap_servers, topic)
    send_for(1.0, sender)
    disturb(cluster.link(2))
    send_for(3.0, sender)
    cluster.heal()
    sender.close()

    assert (sender.failed, sender.delivered) == (0, sender.sent)
