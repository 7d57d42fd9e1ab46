"""Splits the messages of one ``produce_batch`` call by partition."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.partitioners.base import UNASSIGNED

Message = dict[str, Any]
UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - librdkafka's public name

_DATA = (str, bytes, type(None))

LONGEST_SLICE = 10_000
"""librdkafka's ``batch.num.messages`` by default: more would not fit one batch anyway."""


def split(
    messages: list[Message],
    *,
    choose: Callable[[Any, Any], int],
    take_turn: Callable[[int], tuple[int, int]] | None,
    native_keys: bool,
    keyless: bool,
) -> list[tuple[int, list[Message]]]:
    """Return lists of messages with the partition that each list is to be sent to.

    The messages are the caller's own dictionaries, unchanged: confluent-kafka notes errors in them. It checks
    all of them before it takes one; so a batch with a message that it refuses is not split.

    Args:
        messages: What the caller gave.
        choose: Chooses for one key and value.
        take_turn: Chooses for so many messages without a key, and says for how many of them; None: ask
            `choose` for each.
        native_keys: Whether librdkafka shall place messages with a key.
        keyless: Whether messages with a key are placed as if they had none.
    """
    unkeyed: list[Message] = []
    try:
        placed = any(["partition" in m for m in messages])  # noqa: C419 - a list takes half of the time
        if native_keys and not placed and all([m.get("key") for m in messages]):  # noqa: C419
            return [(UNASSIGNED, messages)]
        if take_turn is not None:
            unkeyed = [
                m
                for m in messages
                if (keyless or m.get("key") is None) and (not placed or placed_on(m) == UNASSIGNED)
            ]
    except (AttributeError, TypeError):  # no list of dictionaries: confluent-kafka explains that better
        return [(UNASSIGNED, messages)]
    whole = take_turn is not None and len(unkeyed) == len(messages) <= LONGEST_SLICE
    if not whole and not acceptable(messages):
        return [(UNASSIGNED, messages)]
    groups: dict[int, list[Message]] = {}
    if len(unkeyed) < len(messages):
        taken = set(map(id, unkeyed))
        for message in [m for m in messages if id(m) not in taken]:
            if (partition := placed_on(message)) == UNASSIGNED:
                key = message.get("key")
                partition = UNASSIGNED if key and native_keys else choose(key, message.get("value"))
            groups.setdefault(partition, []).append(message)
    parts = list(groups.items())
    start = 0
    while take_turn is not None and start < len(unkeyed):
        partition, count = take_turn(min(LONGEST_SLICE, len(unkeyed) - start))
        if whole and not start and count < len(unkeyed) and not acceptable(messages):  # a probe takes one
            return [(UNASSIGNED, messages)]
        parts.append((partition, unkeyed[start : start + count]))
        start += count
    return parts


def acceptable(messages: Any) -> bool:
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


def placed_on(message: Message) -> int:
    """Return the partition that a message says, `UNASSIGNED` if none."""
    partition: int | None = message.get("partition")
    return UNASSIGNED if partition is None else partition


def apart(
    messages: list[Message], *, keyed: bool, unkeyed: bool = False
) -> tuple[list[Message], list[Message]]:
    """Return the messages without a partition that have a key, or none, as is asked for; and the others."""
    these: list[Message] = []
    others: list[Message] = []
    for message in messages:
        wanted = unkeyed if message.get("key") is None else keyed
        (these if wanted and placed_on(message) == UNASSIGNED else others).append(message)
    return these, others


def first_keyed(messages: Any) -> Message | None:
    """Return the first message, if it has a key, and no partition."""
    first = messages[0] if type(messages) is list and messages else None
    is_keyed = (
        type(first) is dict and type(first.get("key")) in {str, bytes} and placed_on(first) == UNASSIGNED
    )
    return first if is_keyed else None


def refused(messages: list[Message]) -> list[Message]:
    """Return the messages, for another try, that failed since the producer does not know our partition."""
    again = []
    for message in messages:
        error = message.get("_error")
        unknown = error is not None and error.code() == UNKNOWN_PARTITION
        if unknown and placed_on(message) == UNASSIGNED:
            del message["_error"]
            again.append(message)
    return again


def record(topic: str, message: Message, outcome: Any) -> Record:
    """Return a message as a record by itself."""
    return Record(topic, message.get("value"), message.get("key"), message.get("callback") or outcome)
