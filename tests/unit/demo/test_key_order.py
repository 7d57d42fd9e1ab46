"""What a reader of keys that moved was handed: in order, once, and all of it."""

from collections.abc import Sequence

import pytest

from kafka_partition_events.demo.key_order import Handed, KeyOrder
from kafka_partition_events.demo.tape import FAILED, Row
from tests.demo_kit import row

SENT: Sequence[Row] = [row(at, 6) for at in range(6)]
"""Numbers 0 and 1 have no key; 2 and 4 are of one, 3 and 5 of another."""


def handed(*numbers: int) -> KeyOrder:
    return KeyOrder.of([Handed(b"ab"[n % 2 : n % 2 + 1], n, moved=n == 4) for n in numbers], SENT)


@pytest.mark.parametrize("numbers", [(2, 3, 4, 5), (3, 5, 2, 4), (2, 4, 3, 5)])
def test_keys_may_come_in_any_order_among_each_other(numbers: Sequence[int]) -> None:
    order = handed(*numbers)
    assert order.holds
    assert order.in_words == "4 records of 2 keys read, 1 of which had moved; 0 out of order, 0 twice"


def test_a_record_after_a_later_one_of_its_key_is_out_of_order() -> None:
    order = handed(4, 2, 3, 5)
    assert (order.out_of_order, order.twice, order.unread) == (1, 0, 0)
    assert not order.holds


def test_a_record_that_comes_again_is_there_twice_and_not_out_of_order() -> None:
    order = handed(2, 3, 4, 2, 5)
    assert (order.out_of_order, order.twice) == (0, 1)
    assert not order.holds


def test_a_delivered_record_must_come() -> None:
    order = handed(2, 3, 4)
    assert order.unread == 1
    assert not order.holds
    assert order.in_words.endswith("0 twice, 1 NEVER READ")


def test_one_that_failed_need_not_come() -> None:
    rows = [*SENT[:5], row(5, 6, outcome=FAILED)]
    assert KeyOrder.of([Handed(b"a", 2, moved=False), *_rest()], rows).holds


def _rest() -> list[Handed]:
    return [Handed(b"b", 3, moved=False), Handed(b"a", 4, moved=True)]


def test_nothing_proves_nothing() -> None:
    assert not handed().holds
