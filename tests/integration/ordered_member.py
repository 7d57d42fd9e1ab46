"""A member of a group in a process of its own: prints what it is handed, and that it has processed it."""

import sys
import time

from kafka_partition_events.clients.confluent import OrderedConsumer


def main(servers: str, topic: str, group: str, assignor: str) -> None:
    settings = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 500,
        "partition.assignment.strategy": assignor,
        "ordered.on.timeout": "raise",
        "ordered.max.wait.ms": 60_000,
    }
    with OrderedConsumer(settings) as consumer:
        consumer.subscribe([topic])
        while True:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                told = (
                    time.monotonic_ns(),
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                )
                print(*(each.decode() if isinstance(each, bytes) else each for each in told), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
