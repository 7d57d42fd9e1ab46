"""Keys when their topic grows: where they stay, and that placing them waits for nothing."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events import AdaptivePartitioner, PartitionOfflineError
from kafka_partition_events.errors import ConfigurationError, PinStoreError
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pinned_topics import PinnedTopics
from kafka_partition_events.partitioners.pins import History, MemoryPinStore, Pin
from kafka_partition_events.routing.hashing import crc32_partition
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.growth_kit import KEYS, LIMIT_S, Fleet, modulo, places, see


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with closing(Fleet()) as fleet:
        yield fleet


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


class TestATopicThatWasCreatedAnewWithFewerPartitions:
    def test_goes_by_those_that_it_has(self, fleet: Fleet) -> None:
        instance = fleet.start(12)
        places(instance)
        see(instance, 5)
        assert places(instance) == modulo(5)
        see(instance, 12)
        assert places(instance) == modulo(12)


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
        ({"mapping": "sticky"}, "pinned, rendezvous, not 'sticky'"),
        ({"mapping": "pinned", "store": MemoryPinStore(), "interval": 0.0}, "interval must be more than 0"),
        ({"mapping": "rendezvous", "hash_name": "md5"}, "not 'md5'"),
    ],
)
def test_wrong_arguments_are_told_with_the_cure(arguments: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        GrowthSafePartitioner(**arguments)


def test_one_topics_pins_that_can_not_be_read_refuse_its_keys_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "pins.json"
    path.write_text('{"format": "kpe.pins", "version": 1, "topics": {"t": []}}')
    with closing(GrowthSafePartitioner(mapping="pinned", store=FilePinStore(path))) as partitioner:
        partitioner.adopt(cluster_of({"t": [1, 1], "u": [1, 1]}))
        with pytest.raises(PinStoreError, match=r"pins\.json holds no pins .*: topic .t"):
            partitioner.partition("t", None, b"k", None, None, None)
        assert partitioner.partition("u", None, b"k", None, None, None) in {0, 1}
