"""A consumer that follows changes: it begins new partitions at their beginning, and says so.

    python examples/change_control/reader.py \\
        --bootstrap-servers 127.0.0.1:9092 --group billing --name billing-0

It reads until it is told to stop (SIGTERM, Ctrl-C), then prints how many records came from each partition.
"""

import argparse
import signal
from collections import Counter
from types import FrameType

from confluent_kafka import Consumer

from kafka_partition_events.control.consumer_agent import ConsumerAgent
from kafka_partition_events.control.hooks.confluent import RebalanceHook
from kafka_partition_events.control.links.confluent import ConfluentControlLink


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

    signal.signal(signal.SIGTERM, _stop)
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
    agent = ConsumerAgent(ConfluentControlLink(config), arguments.name, arguments.group)
    agent.start()  # before the consumer subscribes
    RebalanceHook(agent).subscribe(consumer, [arguments.topic])
    read(consumer, arguments.name)
    agent.close()


def read(consumer: Consumer, name: str) -> None:
    """Read until it is told to stop."""
    came: Counter[int] = Counter()
    try:
        while True:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None and message.partition() is not None:
                came[message.partition() or 0] += 1
    except KeyboardInterrupt:
        consumer.close()
    print(f"{name}: {', '.join(f'{p}: {count}' for p, count in sorted(came.items()))}")


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
