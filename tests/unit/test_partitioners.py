"""What holds for every built-in partitioner, and what is special to each."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kafka_partition_events import (
    AdaptivePartitioner,
    BufferBudget,
    CapLifted,
    CapReached,
    DefaultPartitioner,
    Partitioner,
    RoundRobinPartitioner,
    Route,
    StickyPartitioner,
)
from kafka_partition_events.routing.hashing import crc32_partition, murmur2_partition
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import LiveCluster, Lowest, ask, with_table

Make = Callable[..., Partitioner]
BUILT_IN: list[Make] = [DefaultPartitioner, StickyPartitioner, RoundRobinPartitioner]
EIGHT_KEYS = [b"", b"a", b"order-1", b"order-2", b"order-3", b"x" * 100, b"\x00\xff", "ключ".encode()]


@pytest.mark.parametrize("make", BUILT_IN)
class TestEveryBuiltIn:
    def test_an_unknown_topic_in_the_cluster_argument_raises_as_kafka_pythons_do(self, make: Make) -> None:
        with pytest.raises(ValueError, match="Topic nosuch not found"):
            ask(make(), topic="nosuch", cluster=cluster_of({"t": [1]}))

    def test_a_table_that_is_dropped_gives_way_to_the_cluster_argument(self, make: Make) -> None:
        partitioner = with_table(make(), 1, 1, 1, 1)
        partitioner.apply_snapshot(None)
        live = LiveCluster(-1, 2)
        assert {self.next_batch(partitioner, live) for _ in range(20)} == {1}
        with_table(partitioner, 1, None)
        assert {self.next_batch(partitioner, live) for _ in range(20)} == {0}

    def test_the_cluster_argument_is_read_once_for_each_of_its_updates(self, make: Make) -> None:
        live = LiveCluster(*[1] * 1000)
        partitioner = make()
        for _ in range(100):
            self.next_batch(partitioner, live)
        assert live.reads == 1
        live.update(*[1] * 2000)
        assert max(self.next_batch(partitioner, live) for _ in range(3000)) >= 1000
        assert live.reads == 2

    def test_a_snapshot_as_argument_is_answered_by_itself_not_by_the_one_before(self, make: Make) -> None:
        partitioner = make()
        assert ask(partitioner, cluster=cluster_of({"t": [1, None]})) == 0
        assert self.next_batch(partitioner, cluster_of({"t": [None, 1]}, brokers=[1])) == 1

    def test_tells_when_the_cap_is_reached_and_lifted(self, make: Make) -> None:
        budget = BufferBudget(max_partitions={"t": 4}, instance_id="a")
        partitioner = make(budget=budget)
        assert partitioner.apply_snapshot(cluster_of({"t": [1] * 4})) == ()
        (reached,) = partitioner.apply_snapshot(cluster_of({"t": [1] * 6}))
        assert isinstance(reached, CapReached)
        assert (reached.topic, reached.partitions, reached.limit) == ("t", 6, 4)
        assert len(reached.admitted) == 4
        assert reached.partitioner == type(partitioner).__name__
        offline = cluster_of({"t": [None, 1, 1, 1, 1, 1]})
        assert partitioner.apply_snapshot(offline) == (), "a stand-in is not a new cap"
        (lifted,) = partitioner.apply_snapshot(cluster_of({"t": [1] * 3}))
        assert isinstance(lifted, CapLifted)

    @staticmethod
    def next_batch(partitioner: Partitioner, cluster: Any = None) -> int:
        """What one unkeyed record that opens a batch gets, asked as kafka-python asks: twice."""
        first = ask(partitioner, cluster=cluster)
        partitioner.on_new_batch("t", cluster, first)
        return ask(partitioner, cluster=cluster)


@pytest.mark.parametrize("make", [DefaultPartitioner, StickyPartitioner, AdaptivePartitioner])
class TestKeyedRecords:
    def test_stay_on_their_partition_when_it_is_offline_or_beyond_the_cap(self, make: Make) -> None:
        budget = BufferBudget(max_partitions={"t": 2}, instance_id="a")
        for options, place in (({}, murmur2_partition), ({"hash_name": "crc32"}, crc32_partition)):
            partitioner = with_table(make(budget=budget, **options), *[None] * 11, 1)
            for key in EIGHT_KEYS[1:]:  # to crc32 an empty one is none
                assert ask(partitioner, key=key) == place(key, 12)

    @pytest.mark.parametrize("kind", [bytearray, memoryview])
    def test_go_by_their_bytes_whatever_holds_them(self, make: Make, kind: Callable[[bytes], Any]) -> None:
        for keyed in (make(), make(key_partitions={"t": 12})):
            partitioner = with_table(keyed, *[1] * 12)
            for key in EIGHT_KEYS:
                assert ask(partitioner, key=kind(key)) == murmur2_partition(key, 12)
        with pytest.raises(TypeError):
            ask(with_table(make(), 1), key=5)


@pytest.mark.parametrize("make", [DefaultPartitioner, StickyPartitioner])
def test_sticky_never_draws_the_previous_one_and_all_others_evenly(make: Make) -> None:
    """3,000 moves over 4 others: 750 each, standard deviation 24; the bounds are 5 of them."""
    partitioner = with_table(make(rng=random.Random(7)), *[1] * 5)
    drawn: Counter[int] = Counter()
    for _ in range(3000):
        partitioner._places.clear()  # type: ignore[attr-defined]
        partitioner.on_new_batch("t", None, 2)
        drawn[ask(partitioner)] += 1
    assert drawn.keys() == {0, 1, 3, 4}
    assert all(630 < n < 870 for n in drawn.values())


@pytest.mark.parametrize("make", BUILT_IN)
@pytest.mark.parametrize("leaders", [[1] * 3, [1, None, None, None, None, None, 1, 1]])
def test_the_first_choice_is_drawn_evenly_from_the_usable_ones(make: Make, leaders: list[int | None]) -> None:
    """900 instances over 3 partitions: 300 each, standard deviation 14; the bounds are 5 of them.

    Many short-lived producers, each with one record, must not burden the partition behind a gap.
    """
    rng = random.Random(7)
    drawn = Counter(ask(with_table(make(rng=rng), *leaders)) for _ in range(900))
    assert len(drawn) == 3
    assert all(230 < number < 370 for number in drawn.values())


class Mirrored(DefaultPartitioner):
    """An application's own rule for keys, in a built-in's place."""

    def home(self, route: Route, key: bytes) -> int:
        return route.count - 1 - super().home(route, key)


class TestAnOwnHome:
    def test_is_obeyed_and_kept_to_although_it_is_offline(self) -> None:
        for key in EIGHT_KEYS:
            home = ask(with_table(Mirrored(), *[1] * 12), key)
            assert home == 11 - murmur2_partition(key, 12)
            leaders = [None if partition == home else 1 for partition in range(12)]
            assert ask(with_table(Mirrored(), *leaders), key) == home

    def test_requires_metadata(self) -> None:
        assert Mirrored().requires_metadata("t")


class TestSubclasses:
    """What an application team writes."""

    def test_a_choose_of_a_mixin_decides_as_one_of_the_class_does(self) -> None:
        class AlwaysTheLast:
            def choose(self, route: Route, _topic: str, _key: bytes | None, _value: bytes | None, /) -> int:
                return route.usable[-1]

        class Mine(AlwaysTheLast, DefaultPartitioner):
            pass

        partitioner = with_table(Mine(), 1, 1, 1)
        assert [ask(partitioner) for _ in range(8)] == [2] * 8

    def test_choose_decides_even_below_a_built_in_with_short_cuts(self) -> None:
        class VipFirst(DefaultPartitioner):
            def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
                if key is not None and key.startswith(b"vip-"):
                    return 0
                return super().choose(route, topic, key, value)

        partitioner = with_table(VipFirst(), *[1] * 12)
        assert ask(partitioner, key=b"vip-7") == 0
        assert ask(partitioner, key=b"order-1") == murmur2_partition(b"order-1", 12)

    def test_a_subclass_of_a_subclass_keeps_its_parents_partition(self) -> None:
        class Fixed(DefaultPartitioner):
            def partition(self, *args: Any) -> int:
                return 5

        class Below(Fixed):
            def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
                return 6

        assert ask(with_table(Below(), *[1] * 12)) == 5


def test_a_gap_in_kafka_pythons_ids_moves_no_keys() -> None:
    class Gappy(LiveCluster):
        def partitions_for_topic(self, topic: str) -> set[int] | None:
            return {0, 1, 3}

        def available_partitions_for_topic(self, topic: str) -> set[int] | None:
            return {0, 3}

    partitioner = DefaultPartitioner()
    for key in EIGHT_KEYS:
        assert ask(partitioner, key=key, cluster=Gappy()) == murmur2_partition(key, 4)


class TestASecondQuestion:
    """kafka-python asks twice of a record without a key that finds its batch full: no other one answers."""

    CLUSTER = cluster_of({"t": [1, 2, 3, 1, 2, 3]})

    def test_that_was_interrupted_sends_no_record_with_a_key_elsewhere(self) -> None:
        partitioner = with_table(AdaptivePartitioner(), 1, 2, 3, 1, 2, 3)
        home = ask(partitioner, b"key")
        partitioner.on_new_batch("t", self.CLUSTER, next(number for number in range(6) if number != home))
        assert ask(partitioner, b"key") == home

    def test_nor_does_one_before_which_probing_ended(self) -> None:
        partitioner = with_table(StickyPartitioner(key_partitions={"t": 6}), 1, 2, 3, 1, 2, 3)
        home, stays = ask(partitioner, b"key"), ask(partitioner)
        partitioner.deliveries.probing = True
        partitioner.on_new_batch("t", self.CLUSTER, next(it for it in range(6) if it not in {home, stays}))
        partitioner.deliveries.probing = False
        ask(partitioner)
        assert ask(partitioner, b"key") == home


# -- round robin -------------------------------------------------------------------------------------------


class TestARoundWhosePartitionsChange:
    def test_it_goes_on_where_it_was(self) -> None:
        partitioner = with_table(RoundRobinPartitioner(rng=Lowest()), *[1] * 6)
        assert [ask(partitioner) for _ in range(3)] == [0, 1, 2]
        with_table(partitioner, 1, None, 1, None, 1, 1)
        assert [ask(partitioner) for _ in range(4)] == [4, 5, 0, 2]
        with_table(partitioner, *[1] * 6)
        assert [ask(partitioner) for _ in range(3)] == [4, 5, 0]

    def test_a_topic_that_vanished_is_forgotten(self) -> None:
        partitioner = with_table(RoundRobinPartitioner(rng=Lowest()), *[1] * 6)
        ask(partitioner)
        partitioner.apply_snapshot(cluster_of({"another": [1]}))
        with_table(partitioner, *[1] * 6)
        assert ask(partitioner) == 0
