"""Cut-overs: when pinned keys move, in every instance at the same moment, and which are refused."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
import structlog

from kafka_partition_events.errors import ConfigurationError, PinStoreError
from kafka_partition_events.partitioners.pinned_topics import PinnedTopics
from kafka_partition_events.partitioners.pins import READ_LIMIT_S, History, MemoryPinStore, Pin
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.growth_kit import KEYS, LIMIT_S, Fleet, modulo, places, see


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with closing(Fleet()) as fleet:
        yield fleet


class TestCutOver:
    def test_comes_for_all_instances_at_the_same_moment(self, fleet: Fleet) -> None:
        instances = [fleet.start(6) for _ in range(3)]
        for instance in instances:
            places(instance)
        fleet.after(1)
        for instance in instances:
            see(instance, 12)
        pin = instances[0].cut_over("t")
        assert pin == Pin(2, 12, fleet.clock.now().timestamp() + 60.0)
        for seconds in (0.0, 1.0, 30.0, 28.75):
            fleet.after(seconds)
            assert [places(instance) for instance in instances] == [modulo(6)] * 3
        fleet.after(0.25)
        assert [places(instance) for instance in instances] == [modulo(12)] * 3
        assert {instance.pins["t"][-1] for instance in instances} == {pin}

    def test_stays_over_a_restart_pending_or_not(self, fleet: Fleet) -> None:
        first = fleet.start(6)
        places(first)
        see(first, 12)
        first.cut_over("t", delay=10)
        fleet.stop(first)
        second = fleet.start(12)
        assert places(second) == modulo(6)
        fleet.after(10)
        assert places(second) == modulo(12)
        fleet.stop(second)
        assert places(fleet.start(12)) == modulo(12)

    def test_is_told_in_the_log(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        with structlog.testing.capture_logs() as logs:
            instance.cut_over("t", delay=10)
            fleet.after(10)
        assert logs == [
            {"event": "keys_cut_over", "log_level": "info", "topic": "t", "before": 6, "after": 12}
        ]

    def test_waits_in_an_instance_until_that_has_seen_all_the_growth(self, fleet: Fleet) -> None:
        ahead, behind = fleet.start(6), fleet.start(6)
        places(ahead), places(behind)
        see(ahead, 12)
        ahead.cut_over("t", delay=10)
        fleet.after(10)
        assert (places(ahead), places(behind)) == (modulo(12), modulo(6))
        see(behind, 8)
        assert places(behind) == modulo(6), "8 partitions were never a pin"
        see(behind, 12)
        assert places(behind) == modulo(12)

    def test_to_fewer_partitions_than_there_are(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        assert instance.cut_over("t", delay=10, count=9).count == 9
        fleet.after(10)
        assert places(instance) == modulo(9)

    def test_no_store_that_hangs_can_make_it_late(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        instance.cut_over("t", delay=10)
        began = fleet.clock.monotonic()
        for _ in range(200):
            fleet.after(0.0625)
        due = began + 10
        before = [moment for moment in fleet.store.reads if moment < due]
        assert due - max(before) >= READ_LIMIT_S, "the last look before it was over in time"
        assert all(later - earlier <= 1.0625 for earlier, later in pairwise(before))
        assert places(instance) == modulo(12)

    def test_no_first_sight_of_another_topic_can_make_it_late(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        due = fleet.clock.monotonic() + 10
        instance.cut_over("t", delay=10)
        for _ in range(9):
            fleet.after(1)
        instance.adopt(cluster_of({"t": [1] * 12, "u": [1] * 3}))
        [asleep] = fleet.clock._waiters
        assert places(instance, "u") == [murmur2_partition(key, 3) for key in KEYS]
        with fleet.clock._changed:  # it is woken, and sleeps again
            assert fleet.clock._changed.wait_for(lambda: asleep not in fleet.clock._waiters, LIMIT_S)
        fleet.after(1)
        assert not [moment for moment in fleet.store.reads if due - READ_LIMIT_S < moment < due]
        assert places(instance) == modulo(12)
        assert "u" in fleet.store.read()

    def test_comes_before_the_next_look_at_the_store(self) -> None:
        class Curious(MemoryPinStore):
            def read(self) -> Mapping[str, History]:
                seen.extend(known.in_force["t"] for known in topics)
                return super().read()

        clock, store = ManualClock(), Curious()
        topics: list[PinnedTopics] = []
        seen: list[tuple[int, ...]] = []
        store.replace("t", None, (Pin(1, 6, 0.0), Pin(2, 12, clock.now().timestamp() + 10)))
        topics.append(PinnedTopics(store, clock))
        clock.advance(10)
        topics[0].step()
        assert seen == [(6, 12)]

    @pytest.mark.parametrize(
        ("arguments", "cause"),
        [
            ({"topic": "nosuch"}, "not known here"),
            ({"topic": "nosuch", "count": 3}, "has no pin yet"),
            ({"topic": "t", "count": 13}, "has 12 partitions, not 13"),
            ({"topic": "t", "count": 6}, "pinned to 6 partitions already"),
            ({"topic": "t", "delay": 1.0}, "at least 5 s ahead"),
        ],
    )
    def test_that_makes_no_sense_is_refused(
        self, arguments: dict[str, Any], cause: str, fleet: Fleet
    ) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        with pytest.raises(ConfigurationError, match=cause):
            instance.cut_over(**arguments)
        assert len(instance.pins["t"]) == 1

    def test_one_at_a_time(self, fleet: Fleet) -> None:
        one, other = fleet.start(6), fleet.start(6)
        places(one)
        fleet.after(1)
        for instance in (one, other):
            see(instance, 12)
        one.cut_over("t")
        with pytest.raises(ConfigurationError, match="is pending"):
            other.cut_over("t")  # it has not read the store since, and is told nevertheless

    def test_is_tried_again_when_somebody_writes_in_between(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        instance = fleet.start(6)
        places(instance)
        fleet.after(1)
        see(instance, 12)
        monkeypatch.setattr(fleet.store, "replace", lambda *_: False)
        with pytest.raises(PinStoreError, match="others changed the pin of topic t"):
            instance.cut_over("t")


def test_who_cuts_over_goes_by_the_store_at_once_and_no_longer_by_its_own_first_sight() -> None:
    store, clock = MemoryPinStore(), ManualClock()
    before_growth, after_growth = PinnedTopics(store, clock), PinnedTopics(store, clock)
    before_growth.pin("orders", 6)
    before_growth.step()
    assert after_growth.pin("orders", 12) == (12,)  # it has not read the store since
    after_growth.cut_over("orders", 18, delay=60.0)
    assert after_growth.in_force["orders"] == (6,)


@pytest.mark.parametrize(
    "then",
    [PinnedTopics.step, PinnedTopics.close, PinnedTopics.reset_after_fork],
    ids=["looked at again", "closed and used again", "in a forked child"],
)
def test_no_key_moves_back_with_a_clock_that_is_set_back(then: Callable[[PinnedTopics], object]) -> None:
    """By NTP, over a cut-over: they would move a second time, and a third one when it gets there again."""
    store, clock = MemoryPinStore(), ManualClock()
    store.replace("t", None, (Pin(1, 6, 0.0), Pin(2, 12, clock.now().timestamp() + 10)))
    topics = PinnedTopics(store, clock)
    clock.advance(10)
    topics.step()
    clock.set_back(3)
    then(topics)
    assert (topics.in_force.get("t") or topics.pin("t", 12)) == (6, 12)
