"""A producer that follows changes: the agent is one line.

    python examples/change_control/writer.py --bootstrap-servers 127.0.0.1:9092 --topic orders --name shop-0

It sends until it is told to stop (SIGTERM, Ctrl-C), then prints how many records each partition has taken.
"""

import argparse
import signal
import threading
from collections import Counter

from confluent_kafka import KafkaError, Message

from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.control import ProducerAgent
from kafka_partition_events.control.agents.confluent import ControlLink


def main() -> None:
    """Send, follow changes, and tell where records went."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--name", required=True, help="the same after a restart, and nobody else's")
    arguments = parser.parse_args()
    acknowledged: Counter[int] = Counter()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        if error is None and partition is not None:
            acknowledged[partition] += 1

    stopped = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda _signal, _frame: stopped.set())
    config = {"bootstrap.servers": arguments.bootstrap_servers}
    with (
        PartitioningProducer(config, poller_options={"interval": 5.0}) as producer,
        ProducerAgent(producer.poller, ControlLink(config), arguments.name),
    ):
        number = 0
        while not stopped.is_set():
            for key in (b"customer-%d" % (number % 1_000), None):
                producer.produce(arguments.topic, b"%d" % number, key, on_delivery=on_delivery)
                number += 1
            producer.poll(0.02)
        producer.flush()
    print(f"{arguments.name}: {', '.join(f'{p}: {count}' for p, count in sorted(acknowledged.items()))}")


if __name__ == "__main__":
    main()
