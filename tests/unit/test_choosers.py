"""Choosers: what each prefers, in which proportion, and what it does when places come, go or are busy."""

import math
import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.partitioners.choosers import (
    Choice,
    Chooser,
    evenly,
    least_loaded,
    near_rack,
    shuffle_sharded,
    weighted,
)
from kafka_partition_events.partitioners.choosers.loads import COMPARED, IN_TURN
from kafka_partition_events.partitioners.choosers.racks import LOOK_S
from kafka_partition_events.testing.clock import ManualClock
from tests.chooser_kit import choice_of, chosen, load


class TestEvenly:
    @pytest.mark.parametrize("count", [1, 2, 3, 12, 1_000])
    def test_chooses_each_place_once_before_any_twice(self, count: int) -> None:
        choice = choice_of([1] * count)
        chooser = evenly()
        for _ in range(3):
            assert chosen(chooser, choice, count) == dict.fromkeys(range(count), 1)

    def test_sets_that_alternate_are_each_spread_evenly(self) -> None:
        chooser, choice = evenly(), choice_of([1] * 4)
        left, right = choice.among((0, 1)), choice.among((2, 3))
        placed = Counter(chooser((left, right)[i % 2]) for i in range(400))
        assert placed == dict.fromkeys(range(4), 100)

    def test_goes_on_where_it_was_when_a_place_is_back(self) -> None:
        chooser = evenly()
        whole, less = choice_of([1, 2, 3]), choice_of([1, None, 3])
        placed: Counter[int] = Counter()
        for _ in range(50):
            placed += chosen(chooser, whole, 2) + chosen(chooser, less, 1)
        assert placed[1] in {33, 34}, "a third of 100"
        assert abs(placed[0] - placed[2]) <= 2, "each set is even to within one"

    def test_topics_do_not_disturb_each_other(self) -> None:
        chooser, here, there = evenly(), choice_of([1] * 4), choice_of([1] * 4, topic="u")
        placed = Counter((choice.topic, chooser(choice)) for _ in range(40) for choice in (here, there))
        assert placed == {(topic, place): 10 for topic in "tu" for place in range(4)}

    def test_begins_at_different_places_in_different_instances(self) -> None:
        """100 instances leave one of 6 places out in 1 of 14 million cases."""
        choice = choice_of([1] * 6)
        assert len({evenly()(choice) for _ in range(100)}) == 6

    def test_a_new_leader_changes_nothing(self) -> None:
        chooser = evenly()
        placed = [chooser(choice_of([1 + i % 3] * 4)) for i in range(8)]
        assert Counter(placed) == dict.fromkeys(range(4), 2)

    def test_threads_share_the_turns_exactly(self) -> None:
        chooser, choice = evenly(), choice_of([1] * 8)
        placed: list[Counter[int]] = []
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            threads = [
                threading.Thread(target=lambda: placed.append(chosen(chooser, choice, 2_000)))
                for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        finally:
            sys.setswitchinterval(before)
        assert sum(placed, Counter()) == dict.fromkeys(range(8), 2_000)

    def test_of_very_many_sets_it_forgets_some_and_stays_even(self) -> None:
        """More sets than are kept: 22,100 of three places of 52, each asked about once.

        A place is in 1,275 of them and gets a third, 425, standard deviation 17; the bounds are 5 of them.
        """
        random.seed(7)
        chooser, choice = evenly(), choice_of([1] * 52)
        placed = Counter(chooser(choice.among(places)) for places in combinations(range(52), 3))
        assert all(340 < placed[place] < 510 for place in range(52))


class TestWeighted:
    def test_proportions_are_exact_in_each_round(self) -> None:
        choice = choice_of([1] * 4)
        chooser = weighted({0: 3, 1: 0.5, 2: 2})  # and 1 for the one that is not named
        for _ in range(5):
            assert chosen(chooser, choice, 13) == {0: 6, 1: 1, 2: 4, 3: 2}

    def test_decimals_are_meant_as_they_are_written(self) -> None:
        assert chosen(weighted({0: 0.1, 1: 0.7, 2: 0.2}), choice_of([1] * 3), 10) == {0: 1, 1: 7, 2: 2}

    def test_weights_in_proportion_are_the_same_weights(self) -> None:
        assert chosen(weighted({0: 1_000_000, 1: 2_000_000}), choice_of([1] * 2), 3) == {0: 1, 1: 2}

    def test_the_smallest_and_the_largest_weight_go_together(self) -> None:
        assert set(chosen(weighted({0: 1e-9, 1: 1e15}), choice_of([1] * 2), 100)) == {1}

    def test_weight_0_is_for_when_nothing_else_is_left(self) -> None:
        chooser = weighted({0: 0, 1: 0})
        assert chosen(chooser, choice_of([1, 1, 1]), 10) == {2: 10}
        assert chosen(chooser, choice_of([1, 1, None]), 10) == {0: 5, 1: 5}

    def test_a_brokers_share_does_not_depend_on_how_much_it_leads(self) -> None:
        chooser = weighted({1: 2}, by="broker")
        assert chosen(chooser, choice_of([1, 2, 3]), 4) == {0: 2, 1: 1, 2: 1}
        assert chosen(chooser, choice_of([1, 2, 2, 2, 3]), 12) == {0: 6, 1: 1, 2: 1, 3: 1, 4: 3}

    def test_a_brokers_share_moves_with_its_partitions(self) -> None:
        chooser = weighted({1: 0}, by="broker")
        assert chosen(chooser, choice_of([1, 2, 3]), 10) == {1: 5, 2: 5}
        assert chosen(chooser, choice_of([2, 1, 3]), 10) == {0: 5, 2: 5}

    def test_with_all_offline_all_weigh_the_same(self) -> None:
        assert chosen(weighted({1: 5}, by="broker"), choice_of([None, None]), 10) == {0: 5, 1: 5}

    @pytest.mark.parametrize("weight", [-1, -0.1, math.nan, math.inf, 1e-10, 1e16, True, "2", None])
    def test_what_is_no_weight_is_refused(self, weight: float) -> None:
        message = r"weight of broker 3 must be 0 or a number from 1e-09 to 1e\+15, not"
        with pytest.raises(ConfigurationError, match=message):
            weighted({3: weight}, by="broker")

    def test_an_id_must_be_a_number(self) -> None:
        with pytest.raises(ConfigurationError, match="by the partition's id, a whole number, not by '3'"):
            weighted({"3": 1})  # type: ignore[dict-item]

    def test_weights_are_by_partition_or_by_broker(self) -> None:
        with pytest.raises(ConfigurationError, match="by must be one of partition, broker, not 'rack'"):
            weighted({}, by="rack")  # type: ignore[arg-type]


class TestNearRack:
    """Brokers 1, 2, 3 are in the racks a, b, c."""

    def near(self, spill: float = 10, rack: str = "a") -> tuple[Chooser, ManualClock]:
        clock = ManualClock(100.0)
        return near_rack(rack, evenly(), spill=spill, clock=clock.monotonic), clock

    def test_partitions_that_are_led_in_the_rack_come_first(self) -> None:
        chooser, _ = self.near()
        assert chosen(chooser, choice_of([1, 2, 3, 1]), 10) == {0: 5, 3: 5}

    def test_all_are_used_while_the_rack_is_too_busy(self) -> None:
        chooser, clock = self.near(spill=10)
        choice = choice_of([1, 2, 3, 1])
        load(choice, 0, 20)  # 10 on average: the threshold
        assert set(chosen(chooser, choice, 8)) == {0, 3}
        load(choice, 3, 1)
        clock.advance(LOOK_S)
        assert chosen(chooser, choice, 8) == dict.fromkeys(range(4), 2)
        load(choice, 0, -5)
        clock.advance(LOOK_S)
        assert set(chosen(chooser, choice, 8)) == {0, 3}

    def test_busy_is_more_than_the_others_are(self) -> None:
        chooser, _ = self.near(spill=10)
        choice = choice_of([1, 2, 3, 1])
        for place in range(4):
            load(choice, place, 50)
        assert set(chosen(chooser, choice, 8)) == {0, 3}

    def test_loads_are_looked_at_now_and_then(self) -> None:
        chooser, clock = self.near(spill=10)
        choice = choice_of([1, 2])
        chooser(choice)
        load(choice, 0, 100)
        clock.advance(LOOK_S * 0.9)
        assert set(chosen(chooser, choice, 8)) == {0}
        clock.advance(LOOK_S * 0.1 + 1e-9)
        assert set(chosen(chooser, choice, 8)) == {0, 1}

    def test_without_an_overflow_the_rack_is_preferred_come_what_may(self) -> None:
        chooser, _ = self.near(spill=math.inf)
        choice = choice_of([1, 2])
        load(choice, 0, 1_000)
        assert chosen(chooser, choice, 10) == {0: 10}

    @pytest.mark.parametrize("leaders", [[2, 3, 2], [1, 1, 1], [None, None]])
    def test_without_a_place_on_either_side_all_are_used(self, leaders: list[int | None]) -> None:
        chooser, _ = self.near()
        assert set(chosen(chooser, choice_of(leaders), 12)) == set(range(len(leaders)))

    def test_without_racks_all_are_used(self) -> None:
        chooser, _ = self.near()
        assert set(chosen(chooser, choice_of([1, 2], racks={}), 12)) == {0, 1}
        assert set(chosen(chooser, choice_of([1, 2], racks={1: None, 2: None}), 12)) == {0, 1}

    def test_follows_leaders_and_racks(self) -> None:
        chooser, _ = self.near()
        choice = choice_of([1, 2, 3])
        assert set(chosen(chooser, choice, 6)) == {0}
        assert set(chosen(chooser, choice._replace(racks={2: "a"}), 6)) == {1}
        assert set(chosen(chooser, choice_of([3, 1, 1]), 6)) == {1, 2}

    @pytest.mark.parametrize("spill", [-1, math.nan])
    def test_a_threshold_is_not_negative(self, spill: float) -> None:
        with pytest.raises(ConfigurationError, match="spill must be a number of records, 0 or more, not"):
            near_rack("a", evenly(), spill=spill)


def places_of_keys(count: int, k: int, leaders: Sequence[int | None]) -> list[set[int]]:
    """Return the places of so many keys, as a chooser made anew shows them to the next one."""
    shown: list[set[int]] = []

    def last(choice: Choice) -> int:
        shown.append(set(choice.places))
        return choice.places[-1]

    chooser, choice = shuffle_sharded(k, last), choice_of(leaders)
    for number in range(count):
        chooser(choice._replace(key=b"tenant-%d" % number))
    return shown


class TestShuffleSharded:
    def test_a_key_has_k_places_and_always_the_same(self) -> None:
        shown = places_of_keys(1_000, 3, [1] * 12)
        assert {len(places) for places in shown} == {3}
        assert shown == places_of_keys(1_000, 3, [2] * 12), "another instance, other leaders"

    def test_the_next_chooser_chooses_among_them(self) -> None:
        (places,) = places_of_keys(1, 3, [1] * 12)
        choice = choice_of([1] * 12, key=b"tenant-0")
        assert chosen(shuffle_sharded(3, evenly()), choice, 30) == dict.fromkeys(places, 10)

    def test_unkeyed_records_have_all_places_and_an_empty_key_is_a_key(self) -> None:
        chooser = shuffle_sharded(2, evenly())
        assert len(chosen(chooser, choice_of([1] * 12), 12)) == 12
        assert len(chosen(chooser, choice_of([1] * 12, key=b""), 12)) == 2

    def test_with_k_places_or_fewer_all_are_the_keys(self) -> None:
        chooser = shuffle_sharded(3, evenly())
        assert set(chosen(chooser, choice_of([1, 2, 3], key=b"k"), 6)) == {0, 1, 2}
        assert set(chosen(chooser, choice_of([1, None, None], key=b"k"), 6)) == {0}

    def test_an_outage_takes_one_place_from_those_who_had_it_and_gives_them_another(self) -> None:
        before = places_of_keys(2_000, 3, [1] * 12)
        after = places_of_keys(2_000, 3, [None if place == 5 else 1 for place in range(12)])
        assert any(5 in places for places in before)
        for had, has in zip(before, after, strict=True):
            assert 5 not in has
            assert len(has) == 3
            assert had - {5} <= has

    def test_an_outage_is_seen_at_once_and_its_end_too(self) -> None:
        (places,) = places_of_keys(1, 3, [1] * 12)
        chooser, gone = shuffle_sharded(3, evenly()), min(places)
        whole = choice_of([1] * 12, key=b"tenant-0")
        less = choice_of([None if place == gone else 1 for place in range(12)], key=b"tenant-0")
        assert set(chosen(chooser, whole, 6)) == places
        assert set(chosen(chooser, less, 6)) & places == places - {gone}
        assert set(chosen(chooser, whole, 6)) == places

    def test_growth_gives_the_new_partition_to_its_share_of_keys_and_moves_nothing_else(self) -> None:
        """3 of 13 of 10,000 keys are 2,308, with a standard deviation of 42; the bounds are 5 of them."""
        before, after = places_of_keys(10_000, 3, [1] * 12), places_of_keys(10_000, 3, [1] * 13)
        assert all(len(has) == 3 and has <= had | {12} for had, has in zip(before, after, strict=True))
        moved = sum(had != has for had, has in zip(before, after, strict=True))
        assert 2_097 < moved < 2_519

    def test_partitions_have_about_the_same_number_of_keys(self) -> None:
        """10,000 keys with 3 of 12 places: 2,500 each, standard deviation 43; the bounds are 5 of them."""
        placed = Counter(place for places in places_of_keys(10_000, 3, [1] * 12) for place in places)
        assert all(2_283 < placed[place] < 2_717 for place in range(12))

    def test_few_keys_share_all_their_places(self) -> None:
        """One pair in 220: 200 keys are 19,900 pairs, 90 of which share all, standard deviation 9.5."""
        shown = places_of_keys(200, 3, [1] * 12)
        assert 43 < sum(one == other for one, other in combinations(shown, 2)) < 138

    def test_places_are_those_of_every_release(self) -> None:
        """Fixed numbers: a change of these moves the keys of everybody who upgrades."""
        assert places_of_keys(4, 3, [1] * 12) == [{0, 2, 9}, {0, 3, 8}, {5, 8, 11}, {0, 5, 6}]

    def test_k_is_at_least_1(self) -> None:
        with pytest.raises(ConfigurationError, match="k must be at least 1 place, not 0"):
            shuffle_sharded(0, evenly())


class TestLeastLoaded:
    def test_the_place_with_the_fewest_records_outstanding_is_chosen(self) -> None:
        """Of 1,000 records 7 go elsewhere in turn, standard deviation 2.6; the bound is 5 of them."""
        choice = choice_of([1, 2, 3])
        load(choice, 0, 3)
        load(choice, 1, 2)
        load(choice, 2, 4)
        placed = chosen(least_loaded(rng=random.Random(7)), choice, 1_000)
        assert placed[1] > 1_000 * (1 - 2 * IN_TURN)

    def test_follows_what_is_sent_and_answered(self) -> None:
        """4 of 400 records are in turn; more than 8 are in one of 47 cases, and the numbers are fixed."""
        choice, chooser = choice_of([1] * 4), least_loaded(rng=random.Random(7))
        for _ in range(400):
            load(choice, chooser(choice), 1)
        loads = choice.outstanding(range(4))
        assert sum(loads) == 400
        assert max(loads) - min(loads) <= 1 + 400 * IN_TURN * 2, "only records in turn make a difference"

    def test_of_equal_ones_all_are_chosen_evenly(self) -> None:
        """3,000 over 3: 1,000 each, standard deviation 26; the bounds are 5 of them."""
        placed = chosen(least_loaded(rng=random.Random(7)), choice_of([1] * 3), 3_000)
        assert all(870 < placed[place] < 1_130 for place in range(3))

    def test_of_many_places_a_busy_one_is_hardly_chosen_and_no_idle_one_is_left_out(self) -> None:
        """Half of 40 places are busy: all 8 that are drawn are so in 1 of 256, 1 of 100 ignores loads.

        20,000 records: an idle place gets 991, standard deviation 31; the bounds are 5 of them.
        """
        choice = choice_of([1] * 40)
        for place in range(0, 40, 2):
            load(choice, place, 5)
        placed = chosen(least_loaded(rng=random.Random(7)), choice, 20_000)
        assert COMPARED == 8
        assert all(836 < placed[place] < 1_146 for place in range(1, 40, 2))
        assert all(placed[place] < 50 for place in range(0, 40, 2))

    def test_a_place_whose_answers_never_come_does_not_starve(self) -> None:
        """A hundredth of 30,000 is in turn, 100 for each of 3, standard deviation 6; the bounds are 5."""
        choice = choice_of([1] * 3)
        load(choice, 0, 1_000)
        assert 70 < chosen(least_loaded(rng=random.Random(7)), choice, 30_000)[0] < 130

    def test_counts_the_topics_own_records_only(self) -> None:
        """100 over 2: 50 each, standard deviation 5; the bounds are 6 of them."""
        here = choice_of([1, 1])
        load(here._replace(topic="u"), 0, 9)
        placed = chosen(least_loaded(rng=random.Random(7)), here, 100)
        assert min(placed[0], placed[1]) > 20


class TestComposition:
    """Shards, then racks, then loads."""

    def chooser(self) -> tuple[Chooser, ManualClock]:
        clock = ManualClock(100.0)
        near = near_rack("a", least_loaded(rng=random.Random(7)), spill=10, clock=clock.monotonic)
        return shuffle_sharded(6, near), clock

    def test_each_narrows_what_the_one_before_has_left(self) -> None:
        chooser, _ = self.chooser()
        choice = choice_of([1, 2, 3] * 4, key=b"tenant-0")
        (places,) = places_of_keys(1, 6, [1, 2, 3] * 4)
        near = {place for place in places if place % 3 == 0}
        assert 1 < len(near) < 6
        busy = min(near)
        load(choice, busy, 5)
        placed = chosen(chooser, choice, 1_000)
        assert set(placed) == near
        assert placed[busy] < 1_000 * 2 * IN_TURN

    def test_a_busy_rack_spills_over_to_the_keys_own_places_only(self) -> None:
        chooser, _ = self.chooser()
        choice = choice_of([1, 2, 3] * 4, key=b"tenant-0")
        (places,) = places_of_keys(1, 6, [1, 2, 3] * 4)
        for place in range(0, 12, 3):
            load(choice, place, 20)
        placed = chosen(chooser, choice, 1_000)
        assert set(placed) <= places
        assert sum(placed[place] for place in places if place % 3) > 950

    def test_a_function_of_ones_own_goes_anywhere(self) -> None:
        in_turn = evenly()

        def odd(choice: Choice) -> int:
            return in_turn(choice.among(tuple(place for place in choice.places if place % 2)))

        choice = choice_of([1, 2, 3] * 4, key=b"tenant-0")
        (places,) = places_of_keys(1, 6, [1, 2, 3] * 4)
        assert set(chosen(shuffle_sharded(6, odd), choice, 30)) == {place for place in places if place % 2}
