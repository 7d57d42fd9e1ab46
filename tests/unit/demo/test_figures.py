"""What records come to, and whether their account adds up."""

import pytest

from kafka_partition_events.demo.account import reconcile
from kafka_partition_events.demo.figures import figures_of
from kafka_partition_events.demo.tape import FAILED, UNANSWERED, Taped
from tests.demo_kit import BEGIN, S, row

NOW = BEGIN + 10 * S


def test_late_is_what_took_over_100_ms_waits_for_longer_or_failed() -> None:
    waiting = [row(at, 0, outcome=UNANSWERED) for at in (9.95, 9.85)]
    rows = [row(0, 100), row(0, 101), row(0, 1, outcome=FAILED), *waiting]
    figures = figures_of(rows, NOW)
    assert (figures.records, figures.late, figures.failed) == (5, 3, 1)
    assert figures.late_share == pytest.approx(0.6)
    assert figures.longest_ms == 15_000, "what failed counts with the delivery limit"
    assert (figures_of([], NOW).late_share, figures_of([], NOW).longest_ms) == (0.0, 0.0)


# -- the account -------------------------------------------------------------------------------------------

ROWS = [row(0, 6), row(1, 6), row(2, 6, outcome=FAILED), row(3, 0, outcome=UNANSWERED)]


@pytest.mark.parametrize(
    ("rows", "stored", "must_answer", "adds_up", "differences"),
    [
        (ROWS, {0: 1, 1: 1}, False, True, ["1 never answered"]),
        (ROWS, {0: 1}, False, False, ["1 delivered, and NOT IN THE TOPIC", "1 never answered"]),
        (ROWS, {0: 1, 1: 1, 7: 1}, False, False, ["1 in the topic, and never sent", "1 never answered"]),
        (ROWS, {0: 1, 1: 1}, True, False, ["1 never answered"]),
        (ROWS[:3], {0: 1, 1: 1}, True, True, []),
        (
            ROWS, {0: 3, 1: 1, 2: 1, 3: 1}, False, True,
            [
                "1 failed, and in the topic all the same",
                "1 never answered",
                "1 of these in the topic",
                "2 copies, by a rescue or a retry",
            ],
        ),
    ],
)  # fmt: skip
def test_an_account_adds_up_when_all_that_was_delivered_is_there(
    rows: list[Taped], stored: dict[int, int], must_answer: bool, adds_up: bool, differences: list[str]
) -> None:
    account = reconcile(rows, stored, must_answer=must_answer)
    assert (account.adds_up, account.differences()) == (adds_up, differences)
    assert (account.sent, account.delivered, account.failed) == (len(rows), 2, 1)
    assert account.found == len(stored.keys() - {7})
