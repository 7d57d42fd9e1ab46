"""What a reader of keys that moved was handed: in order, once, and all of it."""

from collections.abc import Sequence

import pytest

from kafka_partition_events.demo.key_order import Handed, ReadOrder
from kafka_partition_events.demo.tape import FAILED, Taped
from tests.demo_kit import row

SENT: Sequence[Taped] = [row(at, 6) for at in range(6)]
"""Numbers 0 and 1 have no key; 2 and 4 are of one, 3 and 5 of another."""


def handed(*numbers: int) -> ReadOrder:
    return ReadOrder.of([Handed(b"ab"[n % 2 : n % 2 + 1], n, moved=n == 4) for n in numbers], SENT)


@pytest.mark.parametrize("numbers", [(2, 3, 4, 5), (3, 5, 2, 4), (2, 4, 3, 5)])
def test_keys_may_come_in_any_order_among_each_other(numbers: Sequence[int]) -> None:
    order = handed(*numbers)
    assert order.holds
    assert order.in_words == "4 records of 2 keys read, 1 of which had moved; 0 out of order, 0 twice"


@pytest.mark.parametrize(
    ("numbers", "out_of_order", "twice", "unread"),
    [
        ((4, 2, 3, 5), 1, 0, 0),  # 2 after a later one of its key
        ((2, 3, 4, 2, 5), 0, 1, 0),  # again, and not out of order
        ((2, 3, 4), 0, 0, 1),  # 5 was delivered
        ((), 0, 0, 0),  # nothing proves nothing
    ],
)
def test_it_does_not_hold(numbers: Sequence[int], out_of_order: int, twice: int, unread: int) -> None:
    order = handed(*numbers)
    assert (order.out_of_order, order.twice, order.unread) == (out_of_order, twice, unread)
    assert ("NEVER READ" in order.in_words, order.holds) == (unread > 0, False)


def test_one_that_failed_need_not_come() -> None:
    rows = [*SENT[:5], row(5, 6, outcome=FAILED)]
    keys = {2: b"a", 3: b"b", 4: b"a"}
    assert ReadOrder.of([Handed(key, n, moved=n == 4) for n, key in keys.items()], rows).holds
