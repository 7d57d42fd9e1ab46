"""What records come to, and whether their account adds up."""

import pytest

from kafka_partition_events.demo.account import reconcile
from kafka_partition_events.demo.figures import figures_of, late_by_second, p99_in_words, percent
from kafka_partition_events.demo.plan import REAL, SCENES, SMALL, Layout, layout_for
from kafka_partition_events.demo.tape import FAILED, UNANSWERED
from tests.demo_kit import BEGIN, S, row

NOW = BEGIN + 10 * S


@pytest.mark.parametrize("layout", [REAL, SMALL])
def test_brokers_lead_equally_and_no_replica_is_twice_on_one(layout: Layout) -> None:
    assigned = layout.assignment()
    leaders = [replicas[0] for replicas in assigned.values()]
    assert leaders == [layout.leader_of(partition) for partition in assigned]
    assert {leaders.count(broker) for broker in range(1, layout.brokers + 1)} == {
        layout.partitions // layout.brokers
    }
    assert all(len(set(replicas)) == layout.replication for replicas in assigned.values())


def test_each_broker_has_followers_of_each_other() -> None:
    followed = {(replicas[0], each) for replicas in REAL.assignment().values() for each in replicas[1:]}
    assert len(followed) == REAL.brokers * (REAL.brokers - 1)


def test_less_memory_means_less_replication_and_it_says_so() -> None:
    assert layout_for(REAL.free_mib) is REAL
    assert layout_for(REAL.free_mib - 1) is SMALL
    assert REAL.in_words == "6 brokers, replication factor 3, min.insync.replicas 2, acks=all"
    assert SMALL.in_words == "3 brokers, replication factor 1, acks=all"


@pytest.mark.parametrize("layout", [REAL, SMALL])
def test_the_broker_that_is_asked_for_metadata_is_left_alone(layout: Layout) -> None:
    assert 1 not in layout.victims.values()
    assert max(layout.victims.values()) <= layout.brokers


def test_scenes_take_all_of_the_time() -> None:
    assert sum(scene.share for scene in SCENES) == pytest.approx(1.0)


def test_late_is_what_took_over_100_ms_waits_for_longer_or_failed() -> None:
    rows = [
        row(0, 100),
        row(0, 101),
        row(0, 1, outcome=FAILED),
        row(9.95, 0, outcome=UNANSWERED),
        row(9.85, 0, outcome=UNANSWERED),
    ]
    figures = figures_of(rows, NOW)
    assert (figures.records, figures.late, figures.stuck, figures.failed) == (5, 3, 1, 1)
    assert figures.late_share == pytest.approx(0.6)


def test_what_failed_counts_with_the_delivery_limit() -> None:
    assert figures_of([row(0, 1, outcome=FAILED)], NOW).longest_ms == 15_000


def test_p99_tells_whether_it_may_still_grow() -> None:
    done = [row(0, 6)] * 98
    assert p99_in_words(figures_of([*done, row(0, 7), row(0, 8)], NOW)) == "7 ms"
    waiting = [row(8, 0, outcome=UNANSWERED)] * 2
    assert p99_in_words(figures_of([*done, *waiting], NOW)) == "2,000+ ms"


def test_nothing_comes_to_nothing() -> None:
    figures = figures_of([], NOW)
    assert (figures.records, figures.late_share, figures.p99_ms, figures.longest_ms) == (0, 0.0, 0.0, 0.0)


def test_seconds_have_shares_of_their_own() -> None:
    rows = [row(7.5, 200), row(7.6, 6), row(9.1, 6), row(1, 900)]
    assert late_by_second(rows, NOW, 3) == [0.5, None, 0.0]


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.0004, "0.04%"), (0.0045, "0.45%"), (0.031, "3.1%"), (0.667, "67%")]
)
def test_a_small_share_is_not_rounded_to_nothing(share: float, text: str) -> None:
    assert percent(share) == text


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
