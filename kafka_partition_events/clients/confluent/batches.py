"""Splits the messages of one ``produce_batch`` call by partition."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from kafka_partition_events.partitioners.base import UNASSIGNED

Message = dict[str, Any]
UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - librdkafka's public name

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

    The messages are the caller's own dictionaries, unchanged: confluent-kafka notes errors in them.

    Args:
        messages: What the caller gave.
        choose: Chooses for one key and value.
        take_turn: Chooses for a number of unkeyed messages at once, and says for how many of them; None to
            ask `choose` for each.
        native_keys: Whether librdkafka shall place messages with a key.
        keyless: Whether messages with a key are placed as if they had none.
    """
    try:
        placed = any(["partition" in m for m in messages])  # noqa: C419 - a list takes half of the time
        if native_keys and not placed and all([m.get("key") for m in messages]):  # noqa: C419
            return [(UNASSIGNED, messages)]
        unkeyed = [
            m
            for m in messages
            if (keyless or m.get("key") is None)
            and (not placed or m.get("partition", UNASSIGNED) == UNASSIGNED)
        ]
    except (AttributeError, TypeError):  # no list of dictionaries: confluent-kafka explains that better
        return [(UNASSIGNED, messages)]
    groups: dict[int, list[Message]] = {}
    if take_turn is None or len(unkeyed) < len(messages):
        for message in messages:
            partition = message.get("partition", UNASSIGNED)
            if partition == UNASSIGNED:
                key = message.get("key")
                if (keyless or key is None) and take_turn is not None:
                    continue
                if not key or not native_keys:
                    partition = choose(key, message.get("value"))
            groups.setdefault(partition, []).append(message)
    parts = list(groups.items())
    if take_turn is not None:
        start = 0
        while start < len(unkeyed):
            partition, count = take_turn(min(LONGEST_SLICE, len(unkeyed) - start))
            parts.append((partition, unkeyed[start : start + count]))
            start += count
    return parts


def with_key(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the messages that have a key and no partition, and the others."""
    return _parted(messages, lambda m: m.get("key") is not None and not _is_placed(m))


def without_place(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the messages that have neither key nor partition, and the others."""
    return _parted(messages, lambda m: m.get("key") is None and not _is_placed(m))


def _is_placed(message: Message) -> bool:
    return bool(message.get("partition", UNASSIGNED) != UNASSIGNED)


def _parted(
    messages: list[Message], wanted: Callable[[Message], bool]
) -> tuple[list[Message], list[Message]]:
    try:
        chosen = [wanted(message) for message in messages]
    except (AttributeError, TypeError):  # no list of dictionaries: confluent-kafka explains that better
        return [], messages
    these = [m for m, is_chosen in zip(messages, chosen, strict=True) if is_chosen]
    return these, [m for m, is_chosen in zip(messages, chosen, strict=True) if not is_chosen]


def refused(messages: list[Message]) -> list[Message]:
    """Return the messages that failed because the producer does not know the partition, for another try."""
    again = []
    for message in messages:
        error = message.get("_error")
        if error is not None and error.code() == UNKNOWN_PARTITION:
            del message["_error"]
            again.append(message)
    return again
