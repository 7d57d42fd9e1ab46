"""What records come to, and whether their account adds up."""

import pytest

from kafka_partition_events.demo.account import reconcile
from kafka_partition_events.demo.figures import figures_of
from kafka_partition_events.demo.tape import FAILED, UNANSWERED
from tests.demo_kit import BEGIN, S, row

NOW = BEGIN + 10 * S


def test_late_is_what_took_over_100_ms_waits_for_longer_or_failed() -> None:
    rows = [
        row(0, 100),
        row(0, 101),
        row(0, 1, outcome=FAILED),
        row(9.95, 0, outcome=UNANSWERED),
        row(9.85, 0, outcome=UNANSWERED),
    ]
    figures = figures_of(rows, NOW)
    assert (figures.records, figures.late, figures.failed) == (5, 3, 1)
    assert figures.late_share == pytest.approx(0.6)


def test_what_failed_counts_with_the_delivery_limit() -> None:
    assert figures_of([row(0, 1, outcome=FAILED)], NOW).longest_ms == 15_000


def test_nothing_comes_to_nothing() -> None:
    figures = figures_of([], NOW)
    assert (figures.records, figures.late_share, figures.longest_ms) == (0, 0.0, 0.0)


# -- the account -------------------------------------------------------------------------------------------

ROWS = [row(0, 6), row(1, 6), row(2, 6, outcome=FAILED), row(3, 0, outcome=UNANSWERED)]


def test_an_account_adds_up_when_all_that_was_delivered_is_there() -> None:
    account = reconcile(ROWS, {0: 1, 1: 1}, must_answer=False)
    assert account.adds_up
    assert (account.sent, account.delivered, account.failed, account.unanswered) == (4, 2, 1, 1)
    assert (account.found, account.copies) == (2, 0)


def test_a_delivered_record_that_is_not_there_is_an_error() -> None:
    account = reconcile(ROWS, {0: 1}, must_answer=False)
    assert not account.adds_up
    assert "1 delivered, and NOT IN THE TOPIC" in account.differences()


def test_a_record_that_nobody_sent_is_an_error() -> None:
    account = reconcile(ROWS, {0: 1, 1: 1, 7: 1}, must_answer=False)
    assert not account.adds_up
    assert "1 in the topic, and never sent" in account.differences()
    assert account.found == 2


def test_ours_answers_for_every_record() -> None:
    assert not reconcile(ROWS, {0: 1, 1: 1}, must_answer=True).adds_up
    assert reconcile(ROWS[:3], {0: 1, 1: 1}, must_answer=True).adds_up


def test_copies_and_lost_answers_are_told_and_are_no_error() -> None:
    account = reconcile(ROWS, {0: 3, 1: 1, 2: 1, 3: 1}, must_answer=False)
    assert account.adds_up
    assert (account.copies, account.found_failed, account.found_unanswered) == (2, 1, 1)
    assert account.differences() == [
        "1 failed, and in the topic all the same",
        "1 never answered",
        "1 of these in the topic",
        "2 copies, by a rescue or a retry",
    ]
