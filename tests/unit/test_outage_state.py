"""The packed state of one topic's outages: what it tells, what it keeps, what comes too late."""

import pytest

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.fleet.outage_spells import Kind, Outage, Sighting
from kafka_partition_events.spark.fleet.outage_state import Word, fold
from tests.outage_kit import SECOND, Log, at, by_partition

HOUR = 3600


def offline(seconds: float, *, partition: int = 1, epoch: int = 1, before: float | None = None) -> Sighting:
    return Sighting(partition, Kind.OFFLINE, 100 * partition + epoch, _at(before), at(seconds))


def online(seconds: float, *, partition: int = 1, epoch: int = 2, before: float | None = None) -> Sighting:
    return Sighting(partition, Kind.ONLINE, 100 * partition + epoch, _at(before), at(seconds))


def found_offline(seconds: float, *, partition: int = 1, epoch: int = 1) -> Sighting:
    return Sighting(partition, Kind.FOUND_OFFLINE, 100 * partition + epoch, None, at(seconds))


def started(seconds: float) -> Sighting:
    return Sighting(None, Kind.STARTED, 1, None, at(seconds))


def deleted(seconds: float, *, before: float | None = None) -> Sighting:
    return Sighting(None, Kind.DELETED, 2, _at(before), at(seconds))


def _at(seconds: float | None) -> int | None:
    return None if seconds is None else at(seconds)


def log(*batches: list[Sighting], late_s: float = HOUR) -> Log:
    log = Log(round(late_s * SECOND))
    for rows in batches:
        log.take(rows)
    return log


OUTAGE = Outage(at(8), at(10), at(20), at(23), "partition.online")


def test_an_outage_has_bounds_on_both_ends() -> None:
    assert log([offline(10, before=8), online(23, before=20)]).latest == {1: [OUTAGE]}


def test_each_batch_says_what_it_changes_and_since_when() -> None:
    begun = log([offline(10, before=8)])
    assert begun.words == [Word(1, 1, at(10), at(8), at(10))]
    assert begun.take([online(23, before=20)]) == [Word(1, 2, at(10), *OUTAGE)]
    assert begun.take([offline(40, epoch=3, before=35)]) == [Word(1, 3, at(40), at(35), at(40))]
    assert begun.take([]) == []


def test_an_end_that_comes_before_its_begin_says_nothing_yet() -> None:
    begun = log([online(23, before=20)])
    assert begun.words == []
    begun.take([offline(10, before=8)])
    assert begun.latest == {1: [OUTAGE]}


def test_a_transition_in_between_splits_an_outage() -> None:
    begun = log([offline(10), online(50, epoch=4)])
    begun.take([offline(30, epoch=3), online(20)])
    assert [(one.began_by, one.ended_by) for one in begun.latest[1]] == [(at(10), at(20)), (at(30), at(50))]


def test_what_turns_out_not_to_be_an_outage_is_taken_back() -> None:
    begun = log([offline(10, epoch=3)])
    assert begun.latest == {1: [Outage(None, at(10), None, None, None)]}
    # The same transition, told by somebody who saw it before another outage that is known to have ended.
    words = begun.take([offline(4, epoch=3), online(6)])
    assert begun.latest == {1: [Outage(None, at(4), at(4), at(6), "partition.online")]}
    assert {word.since for word in words} == {at(4)}


def test_a_second_observer_narrows_the_bounds_whenever_it_comes() -> None:
    begun = log([offline(10, before=5), online(30, before=20)])
    begun.take([offline(12, before=9), online(28, before=24)])
    assert begun.latest == {1: [Outage(at(9), at(10), at(24), at(28), "partition.online")]}


def test_a_bound_within_the_outage_does_not_hide_one_before_it() -> None:
    again = offline(15, epoch=3, before=12)  # another epoch, still offline
    begun = log([offline(10), again, offline(16, epoch=3, before=7)])
    assert begun.latest == {1: [Outage(at(7), at(10), None, None, None)]}


def test_an_observer_that_starts_ends_an_outage_or_not() -> None:
    begun = log([offline(10, before=8), offline(10, partition=2, before=8)])
    begun.take([started(60), found_offline(60, partition=2)])
    assert begun.latest == {
        1: [Outage(at(8), at(10), at(10), at(60), "topic.created")],
        2: [Outage(at(8), at(10), None, None, None)],
    }


def test_it_does_not_matter_which_part_of_a_start_comes_first() -> None:
    begun = log([offline(10, before=8)], [started(60)])
    assert begun.latest[1][0].ended_by == at(60)
    begun.take([found_offline(60)])
    assert begun.latest == {1: [Outage(at(8), at(10), None, None, None)]}


def test_a_deleted_topic_ends_all_its_outages() -> None:
    begun = log([offline(10), offline(10, partition=2)], [deleted(20, before=15)])
    assert begun.latest == {
        number: [Outage(None, at(10), at(15), at(20), "topic.deleted")] for number in (1, 2)
    }


def test_a_partition_was_online_when_its_topic_was_deleted_before() -> None:
    assert log([deleted(20)], [offline(50)]).latest == {1: [Outage(at(20), at(50), None, None, None)]}


# -- late, and settled ---------------------------------------------------------------------------------------


def test_what_is_older_than_the_horizon_is_given_back() -> None:
    begun = log([offline(2 * HOUR)])
    assert begun.take([offline(HOUR, partition=2, before=HOUR - 1), online(HOUR - 1)]) == [
        Word(1, 2, None, None, at(HOUR - 1), late="partition.online"),
        Word(2, 2, at(HOUR), at(HOUR - 1), at(HOUR)),
    ]
    assert set(begun.latest) == {1, 2}


def test_lateness_is_measured_before_a_batch_not_within_it() -> None:
    assert log([offline(10), online(9 * HOUR)]).late == []


def test_what_came_before_and_comes_again_is_not_late() -> None:
    begun = log([offline(10, before=8)], [online(1.5 * HOUR)])
    assert begun.take([offline(10, before=8)]) == []


def test_an_outage_of_months_keeps_its_begin() -> None:
    begun = log([offline(10, before=8)])
    for day in range(1, 60):
        begun.take([offline(day * 24 * HOUR, partition=2, epoch=2 * day + 1)])
        begun.take([started(day * 24 * HOUR + 5), found_offline(day * 24 * HOUR + 5)])
    begun.take([online(60 * 24 * HOUR, before=60 * 24 * HOUR - 3)])
    ended = (at(60 * 24 * HOUR - 3), at(60 * 24 * HOUR), "partition.online")
    assert begun.latest[1] == [Outage(at(8), at(10), *ended)]
    assert begun.late == []


def test_a_settled_begin_is_not_narrowed_any_more() -> None:
    begun = log([offline(10, before=8)], [started(9 * HOUR), found_offline(9 * HOUR)])
    (word,) = begun.take([offline(9 * HOUR + 1, before=9)])
    assert (word.late, word.began_by) == ("partition.offline", at(9 * HOUR + 1))


def test_an_old_id_that_is_told_again_is_no_later_sighting_of_the_outage() -> None:
    begun = log([offline(10, before=8)], [started(9 * HOUR), found_offline(9 * HOUR)])
    begun.take([offline(20 * HOUR, epoch=3)])
    begun.take([found_offline(20 * HOUR + 60)])
    begun.take([online(20 * HOUR + 120, epoch=4)])
    ended = (at(20 * HOUR), at(20 * HOUR + 120), "partition.online")
    assert begun.latest[1] == [Outage(at(8), at(10), *ended)]


def test_what_ended_an_outage_is_remembered_when_the_topic_forgets_it() -> None:
    begun = log([offline(10, before=8)], [started(20)], [offline(9 * HOUR, partition=2)])
    (word,) = begun.take([offline(9 * HOUR + 1, before=9)])  # the first one's id
    assert word.late == "partition.offline"
    assert begun.latest[1] == [Outage(at(8), at(10), at(10), at(20), "topic.created")]


def test_whoever_looked_longest_before_the_end_bounds_it_whenever_that_is_told() -> None:
    begun = log([offline(10, before=8)], [online(20, before=15)])
    begun.take([online(25, epoch=4)])
    begun.take([online(30, epoch=6, before=18)])
    assert begun.latest[1] == [Outage(at(8), at(10), at(18), at(20), "partition.online")]


def test_the_last_sighting_before_an_outage_bounds_it_however_old() -> None:
    begun = log([offline(10), online(20)], [offline(9 * HOUR, partition=2)])
    begun.take([found_offline(9 * HOUR, epoch=3)])
    assert begun.latest[1][1] == Outage(at(20), at(9 * HOUR), None, None, None)


def test_the_state_does_not_grow_with_what_is_over() -> None:
    begun, sizes = Log(HOUR * SECOND), []
    for number in range(200):
        begun.take([offline(number * HOUR, epoch=2 * number + 1)])
        begun.take([online(number * HOUR + 60, epoch=2 * number + 2), started(number * HOUR + 70)])
        sizes.append(len(begun.state or b""))
    assert max(sizes[10:]) == max(sizes[-10:]) < 600
    assert len(begun.latest[1]) == 200


def test_only_partitions_that_are_told_of_are_touched() -> None:
    begun = log([offline(10, partition=number) for number in range(100)])
    words = begun.take([online(20, partition=7)])
    assert set(by_partition(words)) == {7}


def test_a_state_of_a_later_version_is_a_clear_error() -> None:
    state, _ = fold(None, [offline(10)], late=SECOND)
    with pytest.raises(SparkJobError, match="format 9, and this version reads 1"):
        fold(b"\x09" + state[1:], [], late=SECOND)
