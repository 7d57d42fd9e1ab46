"""The composed partitioner: who places which records, and what holds for it as for every partitioner."""

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_partition_events import (
    UNASSIGNED,
    BufferBudget,
    CapReached,
    ConfigurationError,
    Node,
    PartitionOfflineError,
)
from kafka_partition_events.partitioners.choosers import (
    Choice,
    Chooser,
    MetricChooser,
    by_metric,
    evenly,
    least_loaded,
    near_rack,
    shuffle_sharded,
    weighted,
)
from kafka_partition_events.partitioners.composed import ComposedPartitioner
from kafka_partition_events.routing.hashing import crc32_partition, murmur2_partition
from kafka_partition_events.routing.judgement import Policy
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.chooser_kit import judged

KEYS = [b"", b"a", *(b"order-%d" % number for number in range(100))]
NODES = (Node(1, "h", 1, "a"), Node(2, "h", 2, "b"), Node(3, "h", 3, "c"))


def no_numbers(_topic: str) -> dict[int, float]:
    return {}


CHOOSERS: dict[str, Callable[[], Chooser]] = {
    "evenly": evenly,
    "weighted": lambda: weighted({0: 2}),
    "weighted by broker": lambda: weighted({1: 2}, by="broker"),
    "near_rack": lambda: near_rack("elsewhere", evenly(), spill=10),
    "shuffle_sharded": lambda: shuffle_sharded(2, evenly()),
    "least_loaded": least_loaded,
    "by_metric": lambda: by_metric(no_numbers, evenly()),
    "three": lambda: shuffle_sharded(4, near_rack("elsewhere", least_loaded(), spill=10)),
}


def with_table(partitioner: ComposedPartitioner, *leaders: int | None) -> ComposedPartitioner:
    partitioner.adopt(cluster_of({"t": list(leaders)}, brokers=NODES))
    return partitioner


def ask(partitioner: ComposedPartitioner, key: bytes | None = None, cluster: Any = None) -> int:
    return partitioner.partition("t", key, key, b"value", b"value", cluster)


def place(partitioner: ComposedPartitioner) -> int:
    """Ask about an unkeyed record that opens a batch as kafka-python asks: twice."""
    first = ask(partitioner)
    partitioner.on_new_batch("t", None, first)
    assert ask(partitioner) == first
    return first


@pytest.mark.parametrize("keys", ["hash", "chooser"])
@pytest.mark.parametrize("make", CHOOSERS.values(), ids=CHOOSERS.keys())
class TestWithEveryChooser:
    @pytest.fixture
    def chooser(self, make: Callable[[], Chooser]) -> Iterator[Chooser]:
        chooser = make()
        yield chooser
        if isinstance(chooser, MetricChooser):
            chooser.close()

    @pytest.fixture
    def partitioner(self, chooser: Chooser, keys: Any) -> ComposedPartitioner:
        return ComposedPartitioner(chooser, keys=keys)

    @pytest.mark.parametrize("count", [1, 2, 3, 10_000])
    def test_answers_are_partitions_of_the_topic(self, partitioner: ComposedPartitioner, count: int) -> None:
        with_table(partitioner, *[1] * count)
        assert all(0 <= ask(partitioner, key) < count for key in [None, *KEYS])

    def test_unkeyed_records_avoid_offline_partitions_and_reach_all_others(
        self, partitioner: ComposedPartitioner
    ) -> None:
        with_table(partitioner, 1, None, 3, None, 2)
        assert {place(partitioner) for _ in range(500)} == {0, 2, 4}

    def test_growth_is_used_and_an_outage_left_at_once(self, partitioner: ComposedPartitioner) -> None:
        with_table(partitioner, 1, 2, 3)
        assert {place(partitioner) for _ in range(500)} == {0, 1, 2}
        with_table(partitioner, 1, 2, 3, 1, 2)
        assert {place(partitioner) for _ in range(500)} == {0, 1, 2, 3, 4}
        with_table(partitioner, None, 2, 3, None, 2)
        assert {place(partitioner) for _ in range(500)} == {1, 2, 4}

    def test_all_offline_still_takes_records(self, partitioner: ComposedPartitioner) -> None:
        with_table(partitioner, None, None)
        assert {ask(partitioner, key) for key in [None, *KEYS] * 3} == {0, 1}

    def test_a_topic_may_vanish_and_come_back_smaller(self, partitioner: ComposedPartitioner) -> None:
        with_table(partitioner, *[1] * 12)
        ask(partitioner)
        partitioner.adopt(cluster_of({"other": [1]}))
        assert ask(partitioner) == UNASSIGNED
        with_table(partitioner, 1, 1)
        assert {place(partitioner) for _ in range(200)} == {0, 1}

    def test_a_table_that_is_dropped_gives_way_to_the_cluster_argument(
        self, partitioner: ComposedPartitioner
    ) -> None:
        with_table(partitioner, 1, 2)
        partitioner.adopt(None)
        assert ask(partitioner) == UNASSIGNED
        answer = cluster_of({"t": [None, None, 3]})
        assert {ask(partitioner, cluster=answer) for _ in range(50)} == {2}

    def test_the_cap_holds(self, chooser: Chooser, keys: Any) -> None:
        budget = BufferBudget(max_partitions={"t": 3}, instance_id="a")
        partitioner = ComposedPartitioner(chooser, keys=keys, budget=budget)
        (reached,) = partitioner.adopt(cluster_of({"t": [1] * 12}))
        assert isinstance(reached, CapReached)
        assert {place(partitioner) for _ in range(500)} == set(reached.admitted)

    def test_a_suspect_broker_is_avoided(self, partitioner: ComposedPartitioner) -> None:
        with_table(partitioner, *[1, 2, 3] * 2)
        partitioner.deliveries.unreachable(1, "p")
        assert {place(partitioner) for _ in range(500)} == {1, 2, 4, 5}

    def test_threads_may_choose_while_tables_change(self, partitioner: ComposedPartitioner) -> None:
        with_table(partitioner, *[1, 2, 3] * 2)
        errors: list[BaseException] = []
        stop = threading.Event()

        def produce() -> None:
            try:
                while not stop.is_set():
                    assert 0 <= ask(partitioner) < 6
                    assert 0 <= ask(partitioner, b"key") < 6
            except BaseException as error:  # noqa: BLE001 - handed to the main thread
                errors.append(error)

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=produce) for _ in range(4)]
            for thread in threads:
                thread.start()
            for i in range(100):
                with_table(partitioner, *([1, 2, 3, None, None, None], [None, None, None, 3, 2, 1])[i % 2])
            stop.set()
            for thread in threads:
                thread.join(60)
        finally:
            sys.setswitchinterval(before)
        assert not errors
        assert {place(partitioner) for _ in range(200)} == {3, 4, 5}


class TestKeys:
    def test_go_to_their_hash_and_do_not_reach_the_chooser(self) -> None:
        def fail(choice: Choice) -> int:
            raise AssertionError(f"asked about key {choice.key!r}")

        partitioner = with_table(ComposedPartitioner(fail), *[1] * 12)
        assert [ask(partitioner, key) for key in KEYS] == [murmur2_partition(key, 12) for key in KEYS]
        assert partitioner.keying.by_hash
        assert not partitioner.ignores_keys

    def test_go_by_the_hash_that_is_asked_for(self) -> None:
        partitioner = with_table(ComposedPartitioner(evenly(), hash_name="crc32"), *[1] * 12)
        keys = [key for key in KEYS if key]  # to crc32 an empty key is none
        assert [ask(partitioner, key) for key in keys] == [crc32_partition(key, 12) for key in keys]

    def test_whose_partition_is_offline_go_by_the_policy(self) -> None:
        home = murmur2_partition(b"a", 3)
        leaders = [None if partition == home else 1 for partition in range(3)]
        assert ask(with_table(ComposedPartitioner(evenly()), *leaders), b"a") == home
        rerouting = with_table(ComposedPartitioner(evenly(), keyed="reroute"), *leaders)
        assert ask(rerouting, b"a") != home
        with pytest.raises(PartitionOfflineError):
            ask(with_table(ComposedPartitioner(evenly(), keyed="raise"), *leaders), b"a")

    def test_go_where_the_chooser_says_which_sees_key_and_value(self) -> None:
        seen: list[Choice] = []

        def last(choice: Choice) -> int:
            seen.append(choice)
            return choice.places[-1]

        partitioner = with_table(ComposedPartitioner(last, keys="chooser"), 1, 2, None)
        assert ask(partitioner, b"a") == 1
        (choice,) = seen
        assert (choice.topic, choice.key, choice.value, choice.places) == ("t", b"a", b"value", (0, 1))
        assert [choice.rack(place) for place in range(3)] == ["a", "b", None]
        assert not partitioner.keying.by_hash

    def test_that_go_by_the_chooser_avoid_suspects_and_probe_them(self) -> None:
        """Else a broker that gets such records only would be suspect for ever."""
        clock = ManualClock(100.0)
        partitioner = ComposedPartitioner(shuffle_sharded(2, evenly()), keys="chooser")
        deliveries = judged(partitioner, clock.monotonic, Policy(first_rest=0.5, down_for=0.0))
        with_table(partitioner, 1, 2, 3)
        deliveries.unreachable(1, "p")
        assert {ask(partitioner, key) for key in KEYS} == {1, 2}
        for _ in range(100):
            clock.advance(0.01)
            deliveries.heard("p")
        assert ask(partitioner, b"a") == 0
        assert deliveries.stats.probes == 1
        assert {ask(partitioner, key) for key in KEYS} == {1, 2}


class TestArguments:
    def test_a_chooser_is_a_function(self) -> None:
        with pytest.raises(ConfigurationError, match=r"chooser must be a function.* not 'evenly'"):
            ComposedPartitioner("evenly")  # type: ignore[arg-type]

    def test_keys_go_by_hash_or_chooser(self) -> None:
        with pytest.raises(ConfigurationError, match="keys must be one of hash, chooser, not 'both'"):
            ComposedPartitioner(evenly(), keys="both")  # type: ignore[arg-type]

    def test_a_policy_for_offline_homes_needs_homes(self) -> None:
        with pytest.raises(ConfigurationError, match=r'keyed="raise" is for keys that go to their hash'):
            ComposedPartitioner(evenly(), keys="chooser", keyed="raise")


def test_each_record_is_chosen_for_once_though_it_is_asked_about_twice() -> None:
    partitioner = with_table(ComposedPartitioner(evenly()), *[1] * 4)
    assert Counter(place(partitioner) for _ in range(400)) == dict.fromkeys(range(4), 100)


def test_racks_are_those_of_the_latest_snapshot() -> None:
    partitioner = with_table(ComposedPartitioner(near_rack("a", evenly(), spill=10)), 1, 2, 3)
    assert {ask(partitioner) for _ in range(12)} == {0}
    moved = (Node(1, "h", 1, "b"), Node(2, "h", 2, "a"), Node(3, "h", 3, "a"))
    partitioner.adopt(cluster_of({"t": [1, 2, 3]}, brokers=moved))
    assert {ask(partitioner) for _ in range(12)} == {1, 2}


def test_loads_are_those_of_the_partitioners_deliveries() -> None:
    """Of 1,000 records 7 go elsewhere in turn, standard deviation 2.6; the bound is 5 of them."""
    chooser = least_loaded(rng=random.Random(7))
    partitioner = with_table(ComposedPartitioner(chooser), 1, 2, 3)
    for _ in range(5):
        partitioner.deliveries.sent("t", 0, 1)
        partitioner.deliveries.sent("t", 2, 3)
    assert Counter(ask(partitioner) for _ in range(1_000))[1] > 980
