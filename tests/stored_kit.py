"""Reads a topic back."""

import time
import uuid

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

LIMIT_S = 60.0


def stored(servers: str, topic: str) -> list[Message]:
    """Return a topic's records that are committed, each partition's in its order, up to where it ends."""
    config = {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.partition.eof": True}
    consumer, found, deadline = Consumer(config), list[Message](), time.monotonic() + LIMIT_S
    unread = set(consumer.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
    while unread:
        assert time.monotonic() < deadline, f"{len(found)} records, and no end of {unread}"
        for message in consumer.consume(10_000, timeout=0.5):
            if (error := message.error()) is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
    consumer.close()
    return found
