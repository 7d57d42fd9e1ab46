"""Read a topic whose producers rescue records, and pass over the second copy of a record.

    python examples/deduplicating_consumer.py --bootstrap-servers 127.0.0.1:9092 --topic orders

A time-out does not say whether the broker has the record, so a copy may arrive beside its original. Both
carry the same id in the header ``kpe-id``; copies also say where the original went and which attempt they
are. Ids are remembered in memory, the latest 100,000: a copy follows its original within the producer's
delivery time-out. A consumer that must survive restarts keeps them where it keeps its results.
"""

import argparse
import time
from collections import OrderedDict

from confluent_kafka import Consumer, Message, TopicPartition

from kafka_partition_events.clients.rescue import ATTEMPT_HEADER, ID_HEADER, PARTITION_HEADER

REMEMBERED = 100_000


class SeenIds:
    """The ids of the latest records."""

    def __init__(self, capacity: int = REMEMBERED) -> None:
        self._ids: OrderedDict[bytes, None] = OrderedDict()
        self._capacity = capacity

    def is_new(self, id_: bytes) -> bool:
        """Remember an id; tell whether it had not been there."""
        new = id_ not in self._ids
        self._ids[id_] = None
        self._ids.move_to_end(id_)
        if len(self._ids) > self._capacity:
            self._ids.popitem(last=False)
        return new


def headers_of(message: Message) -> dict[str, bytes]:
    """Return a record's headers; of two with one name the last."""
    headers = message.headers() or []
    return {header[0]: header[1] for header in headers if isinstance(header[1], bytes)}


def main() -> None:
    """Read until nothing has come for some seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="deduplicating-consumer")
    parser.add_argument("--idle-seconds", type=float, default=10.0, help="end after so long without a record")
    arguments = parser.parse_args()

    consumer = Consumer(
        {
            "bootstrap.servers": arguments.bootstrap_servers,
            "group.id": arguments.group,
            "auto.offset.reset": "earliest",
        }
    )
    seen, kept, dropped = SeenIds(), 0, 0
    last: float | None = None  # who has joined its group later than it would have waited has read nothing

    def on_assign(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        nonlocal last
        last = time.monotonic()

    consumer.subscribe([arguments.topic], on_assign=on_assign)
    try:
        while last is None or time.monotonic() < last + arguments.idle_seconds:
            message = consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            last = time.monotonic()
            headers = headers_of(message)
            id_ = headers.get(ID_HEADER)  # absent from keyed records, and from producers without rescue
            if id_ is None or seen.is_new(id_):
                kept += 1
                continue
            dropped += 1
            home, attempt = headers.get(PARTITION_HEADER, b"?"), headers.get(ATTEMPT_HEADER, b"1")
            print(f"dropped {id_.decode()}: attempt {attempt.decode()}, first sent to {home.decode()}")
    finally:
        consumer.close()
    print(f"kept {kept}, dropped {dropped}")


if __name__ == "__main__":
    main()
