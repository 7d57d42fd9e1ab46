"""Keys when their topic grows: where they stay, when they move, and that a fleet never disagrees."""

import gc
import os
import random
import signal
import threading
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
import structlog

from kafka_partition_events import AdaptivePartitioner, ConfigurationError, PartitionOfflineError
from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.pinned_topics import PinnedTopics
from kafka_partition_events.partitioners.pins import READ_LIMIT_S, History, MemoryPinStore, Pin
from kafka_partition_events.routing.hashing import crc32_partition, murmur2_partition
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of

KEYS = [b"user-%d" % number for number in range(300)]
LIMIT_S = 20


class Store(MemoryPinStore):
    """A store that can be down, and notes when it was read."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.down = False
        self.reads: list[float] = []
        self.written = threading.Event()

    def read(self) -> Mapping[str, History]:
        self.reads.append(self.clock.monotonic())
        if self.down:
            raise PinStoreError("the store is down")
        return super().read()

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        if self.down:
            raise PinStoreError("the store is down")
        self.written.set()
        return super().replace(topic, before, after)


class Fleet:
    """Instances that share a store and a clock; time passes for all of them at once."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock)
        self.running: list[GrowthSafePartitioner] = []

    def start(self, partitions: int = 6, **options: Any) -> GrowthSafePartitioner:
        instance = GrowthSafePartitioner(mapping="pinned", store=self.store, clock=self.clock, **options)
        self.running.append(instance)
        see(instance, partitions)
        return instance

    def stop(self, instance: GrowthSafePartitioner) -> None:
        self.running.remove(instance)
        instance.close()

    def after(self, seconds: float) -> None:
        """Let time pass, and every instance do what it does then."""
        self.clock.wait_for_waiters(len(self.running))
        self.clock.advance(seconds)
        self.clock.wait_for_waiters(len(self.running))


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = Fleet()
    yield fleet
    for instance in fleet.running:
        instance.close()


def see(instance: GrowthSafePartitioner, partitions: int) -> None:
    instance.adopt(cluster_of({"t": [1] * partitions}))


def places(instance: GrowthSafePartitioner, topic: str = "t", cluster: Any = None) -> list[int]:
    return [instance.partition(topic, key, key, b"v", b"v", cluster) for key in KEYS]


def modulo(count: int) -> list[int]:
    return [murmur2_partition(key, count) for key in KEYS]


# -- rendezvous ----------------------------------------------------------------------------------------------


class TestRendezvous:
    def test_is_the_jump_hash_over_the_partitions_that_there_are(self) -> None:
        partitioner, jumps = GrowthSafePartitioner(mapping="rendezvous"), jump_hash("murmur2")
        for count in (1, 2, 12, 13):
            see(partitioner, count)
            assert places(partitioner) == [jumps(key, count) for key in KEYS]

    def test_growth_moves_few_keys_and_only_to_new_partitions(self) -> None:
        partitioner = GrowthSafePartitioner(mapping="rendezvous", hash_name="crc32")
        see(partitioner, 12)
        before = places(partitioner)
        see(partitioner, 13)
        after = places(partitioner)
        assert 0 < sum(a != b for a, b in zip(after, before, strict=True)) < len(KEYS) * 0.12
        assert all(a in {b, 12} for a, b in zip(after, before, strict=True))

    def test_keeps_nothing(self) -> None:
        partitioner = GrowthSafePartitioner(mapping="rendezvous")
        assert (partitioner.pins, partitioner.last_error) == ({}, None)
        with pytest.raises(ConfigurationError, match="rendezvous"):
            partitioner.cut_over("t")
        with pytest.raises(ConfigurationError, match="nothing to keep"):
            GrowthSafePartitioner(mapping="rendezvous", store=MemoryPinStore())
        partitioner.close()


# -- pinned --------------------------------------------------------------------------------------------------


class TestGrowth:
    def test_moves_no_key(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        before = places(instance)
        assert before == modulo(6), "where every client with this hash puts them"
        for grown in (7, 12, 1_000):
            see(instance, grown)
            fleet.after(60)
            assert places(instance) == before

    def test_is_used_by_unkeyed_records_at_once(self, fleet: Fleet) -> None:
        instance = fleet.start(6, turn_bytes=1)
        places(instance)
        see(instance, 12)
        assert {instance.partition("t", None, None, b"v", b"v", None) for _ in range(12)} == set(range(12))

    def test_moves_no_key_over_a_restart(self, fleet: Fleet) -> None:
        first = fleet.start(6)
        places(first)
        fleet.after(1)
        fleet.stop(first)
        assert places(fleet.start(12)) == modulo(6)

    def test_before_the_first_keyed_record_pins_to_what_there_is_then(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        instance.partition("t", None, None, b"v", b"v", None)
        see(instance, 12)
        assert instance.pins == {}
        assert places(instance) == modulo(12)

    def test_of_one_topic_is_nothing_to_another(self, fleet: Fleet) -> None:
        instance = fleet.start()
        instance.adopt(cluster_of({"t": [1] * 6, "u": [1] * 3}))
        places(instance), places(instance, "u")
        instance.adopt(cluster_of({"t": [1] * 12, "u": [1] * 5}))
        assert (places(instance), places(instance, "u")) == (modulo(6), modulo(3))

    def test_with_another_hash(self, fleet: Fleet) -> None:
        instance = fleet.start(6, hash_name="crc32")
        places(instance)
        see(instance, 12)
        assert places(instance) == [crc32_partition(key, 6) for key in KEYS]

    def test_that_kafka_pythons_own_metadata_tells(self, fleet: Fleet) -> None:
        instance = GrowthSafePartitioner(mapping="pinned", store=fleet.store, clock=fleet.clock)
        fleet.running.append(instance)
        assert places(instance, cluster=cluster_of({"t": [1] * 6})) == modulo(6)
        assert places(instance, cluster=cluster_of({"t": [1] * 12})) == modulo(6)


class TestFirstSight:
    def test_is_in_memory_at_once_and_in_the_store_a_moment_later(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        fleet.after(1)
        now = fleet.clock.now().timestamp()
        places(instance)
        assert instance.pins == {"t": (Pin(1, 6, now),)}
        assert fleet.store.written.wait(LIMIT_S), "which takes no interval"
        fleet.after(1)
        assert fleet.store.read() == instance.pins

    def test_of_somebody_else_wins_if_it_was_first(self, fleet: Fleet) -> None:
        early, late = fleet.start(6), fleet.start(12)
        fleet.store.down = True
        places(early)
        fleet.after(1)
        assert places(late) == modulo(12), "it can't know better"
        fleet.after(1)
        fleet.store.down = False
        fleet.store.replace("t", None, early.pins["t"])
        fleet.after(1)
        assert places(late) == places(early) == modulo(6)

    def test_that_somebody_else_is_just_before_with_is_settled_in_the_same_step(self) -> None:
        class Contested(MemoryPinStore):
            def replace(self, topic: str, before: History | None, after: History) -> bool:
                super().replace(topic, None, (Pin(1, 6, 0.0),))
                return super().replace(topic, before, after)

        topics = PinnedTopics(Contested(), ManualClock())
        assert topics.pin("t", 12) == (12,)
        topics.step()
        assert topics.in_force == {"t": (6,)}

    def test_of_a_topic_that_is_pinned_goes_by_its_pin(self, fleet: Fleet) -> None:
        fleet.store.replace("t", None, (Pin(1, 4, 0.0),))
        assert places(fleet.start(12)) == modulo(4)

    def test_of_a_pin_that_came_after_the_start(self, fleet: Fleet) -> None:
        instance = fleet.start(12)
        fleet.store.replace("t", None, (Pin(1, 4, 0.0),))
        fleet.after(1)
        assert places(instance) == modulo(4)


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


class TestATopicThatWasCreatedAnewWithFewerPartitions:
    def test_goes_by_those_that_it_has(self, fleet: Fleet) -> None:
        instance = fleet.start(12)
        places(instance)
        see(instance, 5)
        assert places(instance) == modulo(5)
        see(instance, 12)
        assert places(instance) == modulo(12)


class TestAStoreThatIsDown:
    def test_at_the_start_is_an_error(self, fleet: Fleet) -> None:
        fleet.store.down = True
        with pytest.raises(PinStoreError, match="the store is down"):
            fleet.start()

    def test_later_moves_no_key_and_is_told_once(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        fleet.after(1)
        see(instance, 12)
        assert instance.last_error is None
        for _ in range(2):
            with structlog.testing.capture_logs() as logs:
                fleet.store.down = True
                for _ in range(5):
                    fleet.after(1)
                assert instance.last_error == "the store is down"
                assert places(instance) == modulo(6)
            assert logs == [
                {"event": "pin_store_failed", "log_level": "warning", "error": "the store is down"}
            ]
            fleet.store.down = False
            fleet.after(1)
            assert instance.last_error is None

    def test_holds_up_no_cut_over_that_is_known(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        instance.cut_over("t", delay=10)
        fleet.store.down = True
        fleet.after(10)
        assert places(instance) == modulo(12)

    def test_gets_a_pin_when_it_is_back(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        fleet.store.down = True
        places(instance)
        fleet.after(1)
        fleet.store.down = False
        fleet.after(1)
        assert fleet.store.read() == instance.pins

    def test_is_an_error_for_whom_cuts_over(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        fleet.store.down = True
        with pytest.raises(PinStoreError, match="the store is down"):
            instance.cut_over("t")

    def test_by_an_error_of_its_own_is_no_different(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        instance = fleet.start(6)
        places(instance)

        def read() -> Mapping[str, History]:
            raise KeyError("foreign")

        monkeypatch.setattr(fleet.store, "read", read)
        fleet.after(1)
        assert instance.last_error == "'foreign'"
        assert places(instance) == modulo(6)


def test_a_store_that_was_lost_is_written_again(fleet: Fleet) -> None:
    instance = fleet.start(6)
    places(instance)
    see(instance, 12)
    instance.cut_over("t", delay=10)
    fleet.after(10)
    known = instance.pins["t"]
    lost: list[dict[str, History]] = [{}, {"t": known[:1]}]
    for left in lost:
        fleet.store._histories = left
        fleet.after(1)
        assert fleet.store.read() == {"t": known}
        assert places(instance) == modulo(12)


# -- placing -------------------------------------------------------------------------------------------------


def test_placing_a_key_takes_no_lock_and_no_look_at_the_store(fleet: Fleet) -> None:
    instance = fleet.start(6)
    places(instance)
    fleet.after(1)
    topics, reads, placed = instance._topics, len(fleet.store.reads), []
    assert topics is not None
    with topics._lock, topics._using_store, instance._watcher._condition:
        producer = threading.Thread(target=lambda: placed.append(places(instance)))
        producer.start()
        producer.join(LIMIT_S)
        assert placed == [modulo(6)]
    assert len(fleet.store.reads) == reads


def test_offline_partitions_are_as_with_every_partitioner(fleet: Fleet) -> None:
    pinned, rerouted, refused = (fleet.start(6, keyed=keyed) for keyed in ("pin", "reroute", "raise"))
    for instance in (pinned, rerouted, refused):
        places(instance)
        instance.adopt(cluster_of({"t": [None] + [1] * 11}))
    at_home = [place == 0 for place in modulo(6)]
    assert places(pinned) == modulo(6)
    moved = places(rerouted)
    assert [a != b for a, b in zip(moved, modulo(6), strict=True)] == at_home
    assert 0 not in moved
    with pytest.raises(PartitionOfflineError, match="partition 0 of topic t"):
        places(refused)


def test_unkeyed_records_go_as_with_the_adaptive_partitioner() -> None:
    ours = GrowthSafePartitioner(mapping="rendezvous", turn_bytes=50, rng=random.Random(7))
    theirs = AdaptivePartitioner(turn_bytes=50, rng=random.Random(7))
    asked = []
    for partitioner in (ours, theirs):
        partitioner.adopt(cluster_of({"t": [1, 2, 3, 1, 2, 3]}))
        asked.append([partitioner.partition("t", None, None, b"v", b"v", None) for _ in range(100)])
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ({"mapping": "pinned"}, "needs a store"),
        ({"mapping": "sticky"}, "pinned, rendezvous, not 'sticky'"),
        ({"mapping": "pinned", "store": MemoryPinStore(), "interval": 0.0}, "interval must be more than 0"),
        ({"mapping": "rendezvous", "hash_name": "md5"}, "not 'md5'"),
    ],
)
def test_wrong_arguments_are_told_with_the_cure(arguments: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        GrowthSafePartitioner(**arguments)


# -- life ----------------------------------------------------------------------------------------------------


def watchers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "kpe-pins"}


def test_a_partitioner_that_is_dropped_ends_its_thread() -> None:
    before = watchers()
    partitioner = GrowthSafePartitioner(mapping="pinned", store=MemoryPinStore(), clock=ManualClock())
    [thread] = watchers() - before
    see(partitioner, 6)
    places(partitioner)
    del partitioner
    gc.collect()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_a_partitioner_that_was_closed_begins_again_when_it_is_used(fleet: Fleet) -> None:
    before = watchers()
    instance = fleet.start(6)
    [thread] = watchers() - before
    places(instance)
    fleet.after(1)
    for _ in range(2):
        instance.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    other = fleet.start(12)
    other.cut_over("t", delay=10, count=12)
    see(instance, 12)
    assert places(instance) == modulo(6)
    fleet.after(10)
    assert places(instance) == modulo(12)


def test_closing_while_a_look_at_the_store_hangs(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = fleet.start(6)
    places(instance)
    fleet.clock.wait_for_waiters(1)
    hanging, goes_on = threading.Event(), threading.Event()

    def hang() -> Mapping[str, History]:
        hanging.set()
        goes_on.wait(LIMIT_S)
        return {}

    [thread] = watchers()
    monkeypatch.setattr(fleet.store, "read", hang)
    fleet.clock.advance(1)
    assert hanging.wait(LIMIT_S)
    instance.close()
    goes_on.set()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert instance._topics is not None
    assert instance._topics.in_force == {}, "or nobody would begin again"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_the_store_by_itself(fleet: Fleet) -> None:
    instance = fleet.start(6)
    places(instance)
    fleet.clock.wait_for_waiters(1)
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)  # a deadlock ends here, with a signal
        good = places(instance) == modulo(6) and len(watchers()) == 1
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
