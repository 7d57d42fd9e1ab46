"""Read a topic whose producers move keys and send records again: each key in its order, and no copies.

    python examples/ordered_consumer.py --bootstrap-servers 127.0.0.1:9092 --topic orders

It is used as any ``confluent_kafka.Consumer`` is. A record whose key was in another partition before says so
in the header ``kpe-after``; it is handed out when the group has processed what it names. A record that was
sent again has the same ``kpe-id`` as its original; the second one that this process reads is dropped. Ids are
kept in memory, at least the latest 100,000. Where a double would do harm even after a restart, or where the
copy is in a partition of another member, keep ids where you keep your results.
"""

import argparse
import time

from confluent_kafka import TopicPartition

from kafka_partition_events.clients.confluent import OrderedConsumer


def main() -> None:
    """Read until nothing has come for some seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="ordered-consumer")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="end after so long without a record")
    arguments = parser.parse_args()

    settings = {
        "bootstrap.servers": arguments.bootstrap_servers,
        "group.id": arguments.group,
        "auto.offset.reset": "earliest",
        "ordered.max.wait.ms": 60_000,  # then it is handed out all the same, and a warning is logged
    }
    kept, written = 0, 0
    begins: dict[int, int] = {}  # where this run begins in each partition; below 0: at the log's start
    last: float | None = None  # who joins its group late has read nothing so far

    def on_assign(consumer: OrderedConsumer, partitions: list[TopicPartition]) -> None:
        nonlocal last
        for each in consumer.committed(partitions, timeout=10):
            begins.setdefault(each.partition, each.offset)
        last = time.monotonic()

    with OrderedConsumer(settings) as consumer:
        consumer.subscribe([arguments.topic], on_assign=on_assign)
        while last is None or time.monotonic() < last + arguments.idle_seconds:
            message = consumer.poll(0.2)  # whatever was handed out before counts as processed now
            if message is None or message.error() is not None:
                continue
            last = time.monotonic()
            kept += 1
        for partition in consumer.assignment():
            low, high = consumer.get_watermark_offsets(partition, timeout=10)
            written += high - max(low, begins[partition.partition])
    print(f"kept {kept}, dropped {written - kept}")


if __name__ == "__main__":
    main()
