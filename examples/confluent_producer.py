"""Send records with confluent-kafka, and see them avoid partitions that go offline.

    python examples/confluent_producer.py --bootstrap-servers 127.0.0.1:9092 --topic orders --seconds 60

Kill a broker while it runs: events are printed, first that the broker is suspect, and unkeyed records go
elsewhere. Keyed ones stay on their partition, because their order comes first.
"""

import argparse
import time
from collections import Counter

from confluent_kafka import KafkaError, Message

from kafka_partition_events import Event, PartitionChangeListener
from kafka_partition_events.clients.confluent import PartitioningProducer


class Printer(PartitionChangeListener):
    """Prints every event. It runs on a thread of its own: it may be slow, and may fail."""

    def on_event(self, event: Event) -> None:
        """Print what happened."""
        print(f"event: {event.kind} {getattr(event, 'topic', '')} {getattr(event, 'partition', '')}".rstrip())


def main() -> None:
    """Send for some seconds, then tell what became of the records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--seconds", type=float, default=10.0)
    arguments = parser.parse_args()

    acknowledged: Counter[int] = Counter()
    failed = 0

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal failed
        partition = message.partition()
        if error is None and partition is not None:
            acknowledged[partition] += 1
        else:
            failed += 1

    # A plain confluent-kafka config. The poller looks every 5 s, and much faster while something is offline.
    config = {"bootstrap.servers": arguments.bootstrap_servers}
    with PartitioningProducer(config, poller_options={"interval": 5.0}) as producer:
        producer.poller.register(Printer())
        end, sent = time.monotonic() + arguments.seconds, 0
        while time.monotonic() < end:
            producer.produce(
                arguments.topic, b"unkeyed: goes where there is a leader", on_delivery=on_delivery
            )
            producer.produce(arguments.topic, b"keyed: always the same place", b"k", on_delivery=on_delivery)
            sent += 2
            producer.poll(0.002)
        producer.flush()
    print(f"sent {sent}, acknowledged {acknowledged.total()}, failed {failed}")
    stats = producer.stats
    print(f"sent elsewhere: {stats.avoided} for a suspect broker, {stats.rerouted} for an offline partition")
    print("by partition:", dict(sorted(acknowledged.items())))


if __name__ == "__main__":
    main()
