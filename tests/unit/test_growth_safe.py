"""Keys by the jump hash: how many move when their topic grows, and where to."""

import random
from typing import Any

import pytest

from kafka_partition_events import AdaptivePartitioner, GrowthSafePartitioner
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import ask, with_table

KEYS = [b"user-%d" % number for number in range(300)]


def places(partitioner: GrowthSafePartitioner) -> list[int]:
    return [ask(partitioner, key) for key in KEYS]


def rendezvous(**options: Any) -> GrowthSafePartitioner:
    return GrowthSafePartitioner(mapping="rendezvous", **options)


def test_a_key_goes_to_its_jump_hash_over_the_partitions_that_there_are() -> None:
    partitioner, jumps = rendezvous(), jump_hash("murmur2")
    for count in (1, 2, 12, 13):
        with_table(partitioner, *[1] * count)
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
