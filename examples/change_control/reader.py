"""A consumer that follows changes: it begins new partitions at their beginning, and says so.

    python examples/change_control/reader.py --bootstrap-servers 127.0.0.1:9092 --name billing-0

It reads until it is told to stop (SIGTERM, Ctrl-C), then prints how many records came from each partition.
"""

import argparse
import signal
import threading
from collections import Counter

from confluent_kafka import Consumer

from kafka_partition_events.control import ConsumerAgent
from kafka_partition_events.control.agents.confluent import ControlLink, RebalanceHook


def main() -> None:
    """Read, follow changes, and tell what came."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="billing")
    parser.add_argument("--name", required=True, help="stable over restarts, and nobody else's")
    parser.add_argument(
        "--without-library", action="store_true", help="as a group that knows nothing of this"
    )
    arguments = parser.parse_args()

    config = {"bootstrap.servers": arguments.bootstrap_servers}
    consumer = Consumer(
        {
            **config,
            "group.id": arguments.group,
            "auto.offset.reset": "latest",  # what loses records when a topic grows
            "topic.metadata.refresh.interval.ms": 5_000,  # 300,000 by default: so long it takes to notice
        }
    )
    if arguments.without_library:
        consumer.subscribe([arguments.topic])
        read(consumer, arguments.name)
        return
    with ConsumerAgent(ControlLink(config), arguments.name, arguments.group) as agent:
        RebalanceHook(agent).subscribe(consumer, [arguments.topic])
        read(consumer, arguments.name)


def read(consumer: Consumer, name: str) -> None:
    """Read until it is told to stop."""
    stopped = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda _signal, _frame: stopped.set())
    came: Counter[int] = Counter()
    while not stopped.is_set():
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            came[message.partition() or 0] += 1
    consumer.close()
    print(f"{name}: {', '.join(f'{p}: {count}' for p, count in sorted(came.items()))}")


if __name__ == "__main__":
    main()
