"""Send records with kafka-python, and see them avoid partitions that go offline.

    python examples/kafka_python_producer.py --bootstrap-servers 127.0.0.1:9092 --topic orders --seconds 60

One line is new beside a plain kafka-python program, ``attach``. With it the partitioner follows the cluster
and the deliveries; without it, it goes by what kafka-python itself knows, looked up every five minutes.
``rescue`` sends records again that are stuck on a broker; it is at-least-once, and consumers drop the second
copy of a record (see ordered_consumer.py).
"""

import argparse
import time
from collections import Counter

from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafka_partition_events import AdaptivePartitioner, Event, PartitionChangeListener
from kafka_partition_events.clients.kafka_python import attach, rescue_stats


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

    producer = KafkaProducer(
        bootstrap_servers=arguments.bootstrap_servers.split(","),
        partitioner=AdaptivePartitioner(hash_name="crc32"),  # keys where confluent-kafka puts them
        linger_ms=5,
    )
    poller = attach(producer, rescue="hedge", interval=5.0)
    poller.register(Printer())

    futures = []
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        futures.append(producer.send(arguments.topic, b"unkeyed: goes where there is a leader"))
        futures.append(producer.send(arguments.topic, b"keyed: always the same place", key=b"k"))
        time.sleep(0.002)
    producer.flush()

    acknowledged: Counter[int] = Counter()
    failed = 0
    for future in futures:
        try:
            acknowledged[future.get(timeout=30).partition] += 1
        except KafkaError:
            failed += 1
    poller.close()
    producer.close()
    print(f"sent {len(futures)}, acknowledged {acknowledged.total()}, failed {failed}")
    print(f"copies sent of records that were stuck: {rescue_stats(producer).copies}")
    print("by partition:", dict(sorted(acknowledged.items())))


if __name__ == "__main__":
    main()
