"""Splits the messages of one ``produce_batch`` call by partition."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

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

    The messages are the caller's own dictionaries, unchanged: confluent-kafka notes errors in them. It looks
    at all of them before it takes one; so a batch with a message that it refuses is not split.

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
            if (keyless or m.get("key") is None) and (not placed or placed_on(m) == UNASSIGNED)
        ]
    except (AttributeError, TypeError):  # no list of dictionaries: confluent-kafka explains that better
        return [(UNASSIGNED, messages)]
    whole = take_turn is not None and len(unkeyed) == len(messages) <= LONGEST_SLICE
    if not whole and not acceptable(messages):
        return [(UNASSIGNED, messages)]
    if take_turn is None:
        return _grouped(messages, choose, native_keys=native_keys)
    parts: list[tuple[int, list[Message]]] = []
    if len(unkeyed) < len(messages):
        apart = {id(m) for m in unkeyed}
        others = [m for m in messages if id(m) not in apart]
        parts = _grouped(others, choose, native_keys=native_keys)
    start = 0
    while start < len(unkeyed):
        partition, count = take_turn(min(LONGEST_SLICE, len(unkeyed) - start))
        if whole and not start and count < len(unkeyed) and not acceptable(messages):  # a probe takes one
            return [(UNASSIGNED, messages)]
        parts.append((partition, unkeyed[start : start + count]))
        start += count
    return parts


def _grouped(
    messages: list[Message], choose: Callable[[Any, Any], int], *, native_keys: bool
) -> list[tuple[int, list[Message]]]:
    groups: dict[int, list[Message]] = {}
    for message in messages:
        partition = placed_on(message)
        if partition == UNASSIGNED:
            key = message.get("key")
            if not key or not native_keys:
                partition = choose(key, message.get("value"))
        groups.setdefault(partition, []).append(message)
    return list(groups.items())


def acceptable(messages: Any) -> bool:
    """Tell whether confluent-kafka takes all of these messages, as far as their types go."""
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


def with_key(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the messages that have a key and no partition, and the others."""
    return _parted(messages, lambda m: m.get("key") is not None and not _is_placed(m))


def without_place(messages: list[Message]) -> tuple[list[Message], list[Message]]:
    """Return the messages that have neither key nor partition, and the others."""
    return _parted(messages, lambda m: m.get("key") is None and not _is_placed(m))


def _is_placed(message: Message) -> bool:
    return placed_on(message) != UNASSIGNED


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
    """Return the messages, for another try, that failed since the producer does not know our partition."""
    again = []
    for message in messages:
        error = message.get("_error")
        if error is not None and error.code() == UNKNOWN_PARTITION and not _is_placed(message):
            del message["_error"]
            again.append(message)
    return again
