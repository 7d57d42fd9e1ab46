"""What both clients' rescue has in common: modes, limits, ids and headers."""

import threading
from typing import Any

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.rescue import (
    ATTEMPT_HEADER,
    ID_HEADER,
    PARTITION_HEADER,
    Budget,
    Ids,
    RescueLimits,
    checked_mode,
    copy_headers,
    original_headers,
)


@pytest.mark.parametrize("mode", [None, "failed", "hedge"])
def test_a_mode_is_one_of_two_or_none(mode: str | None) -> None:
    assert checked_mode(mode) == mode


def test_another_mode_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigurationError, match="rescue must be one of failed, hedge, not 'always'"):
        checked_mode("always")


@pytest.mark.parametrize("limits", [{"share": 0}, {"burst": 0}, {"attempts": 1}, {"held_bytes": 0}])
def test_limits_that_allow_for_no_copy_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"share > 0.*{next(iter(limits))}=[01]"):
        RescueLimits(**limits)


def spent(budget: Budget) -> int:
    count = 0
    while budget.spend():
        count += 1
    return count


class TestBudget:
    def test_begins_with_a_whole_burst(self) -> None:
        budget = Budget(RescueLimits(burst=5))
        assert spent(budget) == 5
        assert not budget.spend()

    def test_each_record_earns_its_share_of_a_copy(self) -> None:
        budget = Budget(RescueLimits(share=0.25, burst=10))
        spent(budget)
        for _ in range(3):
            budget.earn()
        assert not budget.spend()
        budget.earn()
        assert budget.spend()
        assert not budget.spend()

    def test_holds_a_burst_at_most(self) -> None:
        budget = Budget(RescueLimits(share=0.5, burst=3))
        for _ in range(100):
            budget.earn()
        assert spent(budget) == 3

    def test_is_never_overdrawn_by_threads(self) -> None:
        budget = Budget(RescueLimits(burst=1000))
        counts: list[int] = []
        threads = [threading.Thread(target=lambda: counts.append(spent(budget))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(counts) == 1000


def test_ids_are_the_producers_own_and_each_records_own() -> None:
    ids, others = Ids(), Ids()
    first, second, third = ids.next(), ids.next(), others.next()
    assert first.split("-")[0] == second.split("-")[0] != third.split("-")[0]
    assert len({first, second, third}) == 3
    assert len(first.split("-")[0]) == 16


def test_a_record_that_may_be_rescued_carries_its_id_behind_its_own_headers() -> None:
    assert original_headers([("mine", b"1"), ("none", None)], "ab-7") == [
        ("mine", b"1"),
        ("none", None),
        (ID_HEADER, b"ab-7"),
    ]


def test_a_copy_says_also_where_the_original_went_and_which_attempt_it_is() -> None:
    theirs = (("mine", "text"),)
    assert copy_headers(theirs, "ab-7", 3, 2) == [
        ("mine", "text"),
        (ID_HEADER, b"ab-7"),
        (PARTITION_HEADER, b"3"),
        (ATTEMPT_HEADER, b"2"),
    ]
