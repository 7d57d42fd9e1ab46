"""Which messages of one ``produce_batch`` call can be sent together."""

from typing import Any

from confluent_kafka import KafkaError

from kafka_partition_events.clients.flight.record import Record

Message = dict[str, Any]
UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - librdkafka's public name

_DATA = (str, bytes, type(None))

LONGEST_SLICE = 10_000
"""librdkafka's ``batch.num.messages`` by default: more would not fit one batch anyway."""


def keys_of(messages: Any) -> list[Any] | None:
    """Return each message's key; None if one names a partition, or these are no dictionaries in a list.

    What is wrong with them is confluent-kafka's to say: it checks all messages before it takes one.
    """
    try:  # a list takes half of a generator's time
        is_placed = any(["partition" in m for m in messages])  # noqa: C419
        return None if is_placed or not messages else [m.get("key") for m in messages]
    except (AttributeError, TypeError):
        return None


def are_acceptable(messages: Any) -> bool:
    """Return whether confluent-kafka takes all of these messages, as far as their types go."""
    return type(messages) is list and all(
        isinstance(m, dict)
        and isinstance(m.get("value"), _DATA)
        and isinstance(m.get("key"), _DATA)
        and isinstance(m.get("partition"), int | None)
        and m.get("timestamp") is None
        and isinstance(m.get("headers"), dict | list | None)
        for m in messages
    )


def record(topic: str, message: Message, outcome: Any) -> Record:
    """Return a message as a record by itself."""
    return Record(topic, message.get("value"), message.get("key"), message.get("callback") or outcome)
