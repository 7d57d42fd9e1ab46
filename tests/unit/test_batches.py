"""How the messages of one ``produce_batch`` call are split by partition."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_partition_events.clients.confluent.batches import LONGEST_SLICE, UNKNOWN_PARTITION, refused, split


def parts(
    messages: Any, *, by_turns: bool = True, native_keys: bool = True, keyless: bool = False
) -> list[tuple[int, list[Any]]]:
    turns = iter(range(100, 200))
    return split(
        messages,
        choose=lambda key, value: 7,
        take_turn=(lambda count: (next(turns), count)) if by_turns else None,
        native_keys=native_keys,
        keyless=keyless,
    )


def test_unkeyed_messages_share_a_turn() -> None:
    messages = [{"value": b"v"} for _ in range(3)]
    [(partition, sent)] = parts(messages)
    assert partition == 100
    assert [id(message) for message in sent] == [id(message) for message in messages]


def test_a_long_batch_takes_several_turns() -> None:
    messages = [{"value": b"v"} for _ in range(2 * LONGEST_SLICE + 1)]
    assert [(p, len(part)) for p, part in parts(messages)] == [
        (100, LONGEST_SLICE),
        (101, LONGEST_SLICE),
        (102, 1),
    ]


def test_keys_explicit_partitions_and_the_rest_are_parted() -> None:
    unkeyed, keyed, empty = {"value": b"u"}, {"key": b"k"}, {"key": b""}
    explicit, unset = {"value": b"e", "partition": 3}, {"key": None, "partition": -1}
    assert parts([unkeyed, keyed, explicit, empty, unset]) == [
        (-1, [keyed]),
        (3, [explicit]),
        (7, [empty]),
        (100, [unkeyed, unset]),
    ]
    assert parts([keyed, explicit], native_keys=False) == [(7, [keyed]), (3, [explicit])]
    assert parts([unkeyed, keyed], by_turns=False, native_keys=False) == [(7, [unkeyed, keyed])]


def test_keyed_messages_share_the_turn_where_keys_are_ignored() -> None:
    unkeyed, keyed, empty = {"value": b"u"}, {"key": b"k"}, {"key": b""}
    explicit = {"key": b"e", "partition": 3}
    assert parts([unkeyed, keyed, explicit, empty], native_keys=False, keyless=True) == [
        (3, [explicit]),
        (100, [unkeyed, keyed, empty]),
    ]
    assert parts([unkeyed, keyed, explicit, empty], by_turns=False, native_keys=False, keyless=True) == [
        (7, [unkeyed, keyed, empty]),
        (3, [explicit]),
    ]


def test_and_take_several_in_a_long_batch() -> None:
    messages: list[dict[str, Any]] = [{"key": b"k"} for _ in range(LONGEST_SLICE + 1)]
    assert [(p, len(part)) for p, part in parts(messages, native_keys=False, keyless=True)] == [
        (100, LONGEST_SLICE),
        (101, 1),
    ]


@pytest.mark.parametrize("messages", ["text", None, [1], [{"value": b"v"}, None]])
def test_what_is_no_list_of_messages_is_left_to_confluent_kafka(messages: Any) -> None:
    assert parts(messages) == [(-1, messages)]


def test_what_the_handle_does_not_know_is_tried_again_unless_the_caller_has_placed_it() -> None:
    unknown, full = KafkaError(UNKNOWN_PARTITION), KafkaError(KafkaError._QUEUE_FULL)
    ours, placed = {"value": b"a", "_error": unknown}, {"value": b"b", "partition": 9, "_error": unknown}
    sent, waits = {"value": b"c"}, {"value": b"d", "_error": full}
    assert refused([ours, placed, sent, waits]) == [{"value": b"a"}]
    assert "_error" not in ours
    assert [placed["_error"], waits["_error"]] == [unknown, full]
