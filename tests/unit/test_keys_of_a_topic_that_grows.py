"""Keys of a topic that grows: with `key_partitions` they stay, with ``rendezvous`` few of them move."""

import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafka_partition_events import (
    AdaptivePartitioner,
    ConfigurationError,
    DefaultPartitioner,
    GrowthSafePartitioner,
    Partitioner,
    StickyPartitioner,
)
from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.routing.hashing import key_hash, murmur2_partition
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import cluster_of

KEYS = [b"user-%d" % number for number in range(300)]
KEYED = [StickyPartitioner, DefaultPartitioner, AdaptivePartitioner]


def see(partitioner: Partitioner, partitions: int) -> None:
    partitioner.apply_snapshot(cluster_of({"t": [1] * partitions, "other": [1] * partitions}))


def places(partitioner: Partitioner, topic: str = "t", cluster: Any = None) -> list[int]:
    return [partitioner.partition(topic, key, key, b"v", b"v", cluster) for key in KEYS]


def murmur2(count: int) -> list[int]:
    return [murmur2_partition(key, count) for key in KEYS]


def rendezvous(**options: Any) -> GrowthSafePartitioner:
    return GrowthSafePartitioner(mapping="rendezvous", **options)


@pytest.mark.parametrize("make", KEYED)
def test_keys_stay_by_the_clients_metadata_too_and_those_of_other_topics_do_not(make: Any) -> None:
    partitioner = make(key_partitions={"t": 12})
    assert places(partitioner, cluster=cluster_of({"t": [1] * 24})) == murmur2(12)
    see(partitioner, 24)
    assert places(partitioner, "other") == murmur2(24)


def test_a_topic_with_fewer_partitions_goes_by_those_that_it_has_and_is_logged_once() -> None:
    partitioner = DefaultPartitioner(key_partitions={"t": 12})
    with capture_logs() as logs:
        see(partitioner, 6)
        assert places(partitioner) == murmur2(6)
        see(partitioner, 12)
        assert places(partitioner) == murmur2(12)
    facts = {"topic": "t", "key_partitions": 12, "partitions": 6}
    assert logs == [{"event": "key_partitions_not_there", "log_level": "warning", **facts}]


def test_a_limit_of_change_control_holds_for_keys_too() -> None:
    partitioner = DefaultPartitioner(key_partitions={"t": 12})
    see(partitioner, 24)
    partitioner.routing.limit({"t": 6})
    assert places(partitioner) == murmur2(6)
    partitioner.routing.limit({"t": 18})
    assert places(partitioner) == murmur2(12)


@pytest.mark.parametrize("make", [*KEYED, rendezvous])
@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        ({"orders": 0}, r"key_partitions\['orders'\] must be a whole number of at least 1, not 0"),
        ({"orders": -3}, r"\['orders'\] must be"),
        ({"orders": 1.5}, r"\['orders'\] must be"),
        ({"orders": True}, r"\['orders'\] must be"),
        ({"a": 1, "orders": "12"}, r"\['orders'\] must be a whole number of at least 1, not '12'"),
        ("orders", "must be numbers by topic"),
    ],
)
def test_what_is_no_number_of_partitions_is_refused(make: Any, wrong: Any, cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        make(key_partitions=wrong)


def test_librdkafka_places_keys_of_the_topics_only_that_are_not_named() -> None:
    partitioner = DefaultPartitioner(key_partitions={"t": 12}, hash_name="crc32")
    chooser = Chooser(partitioner, {}, chunks=True)
    assert (partitioner.requires_metadata("t"), partitioner.requires_metadata("other")) == (True, False)
    assert (chooser.leaves_keys("t"), chooser.leaves_keys("other")) == (False, True)
    assert (chooser.must_place("t", b"k"), chooser.must_place("t", None)) == (True, False)
    assert not chooser.must_place("other", b"k")


# -- rendezvous: by the jump hash --------------------------------------------------------------------------


def test_a_key_goes_to_its_jump_hash_over_the_partitions_that_there_are() -> None:
    partitioner, jumps = rendezvous(), jump_hash(key_hash("murmur2"))
    for count in (1, 2, 12, 13):
        see(partitioner, count)
        assert places(partitioner) == [jumps(key, count) for key in KEYS]


def test_no_client_may_place_its_keys() -> None:
    assert rendezvous().requires_metadata("t")


def test_unkeyed_records_go_as_with_the_adaptive_partitioner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdaptivePartitioner, "turn_bytes", 50)
    ours = GrowthSafePartitioner(mapping="rendezvous", rng=random.Random(7))
    theirs = AdaptivePartitioner(rng=random.Random(7))
    asked = []
    for partitioner in (ours, theirs):
        partitioner._clock = ManualClock().monotonic  # turns end by bytes alone
        partitioner.apply_snapshot(cluster_of({"t": [1, 2, 3, 1, 2, 3]}))
        asked.append([partitioner.partition("t", None, None, b"v", b"v", None) for _ in range(100)])
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ({"mapping": "pinned"}, "not 'pinned'; where no key may move, give any partitioner key_partitions"),
        ({"mapping": "rendezvous", "hash_name": "md5"}, "not 'md5'"),
    ],
)
def test_wrong_arguments_are_refused_with_the_cure(arguments: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        GrowthSafePartitioner(**arguments)
