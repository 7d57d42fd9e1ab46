"""Where keys belong (`home`), who may compute it (`keying.by_hash`) and who may guess it."""

from typing import Any

import pytest

from kafka_partition_events import (
    AdaptivePartitioner,
    DefaultPartitioner,
    Partitioner,
    Route,
    StickyPartitioner,
)
from kafka_partition_events.routing.hashing import crc32_partition, murmur2_partition
from kafka_partition_events.testing.scripted import cluster_of

KEYS = [b"", b"a", b"order-1", b"\x00\xff", b"x" * 50]


class Mirrored(DefaultPartitioner):
    """An application's own rule for keys, in a built-in's place."""

    def home(self, route: Route, key: bytes) -> int:
        return route.count - 1 - super().home(route, key)


def ask(partitioner: Partitioner, key: bytes, *leaders: int | None) -> int:
    partitioner.apply_snapshot(cluster_of({"t": leaders}))
    return partitioner.partition("t", key, key, b"v", b"v", None)


@pytest.mark.parametrize("make", [StickyPartitioner, DefaultPartitioner, AdaptivePartitioner])
def test_a_keys_home_is_its_hash_online_or_not(make: Any) -> None:
    by_murmur2, by_crc32 = make(), make(hash_name="crc32")
    for partitioner, place in ((by_murmur2, murmur2_partition), (by_crc32, crc32_partition)):
        partitioner.apply_snapshot(cluster_of({"t": [None, 1, None, 1, 1]}))
        route = partitioner.route("t")
        assert [partitioner.home(route, key) for key in KEYS] == [place(key, 5) for key in KEYS]


class TestAnOwnHome:
    def test_is_obeyed(self) -> None:
        for key in KEYS:
            assert ask(Mirrored(), key, *[1] * 12) == 11 - murmur2_partition(key, 12)

    def test_is_kept_to_although_it_is_offline(self) -> None:
        home = ask(Mirrored(), b"a", *[1] * 4)
        leaders = [None if partition == home else 1 for partition in range(4)]
        assert ask(Mirrored(), b"a", *leaders) == home


def test_a_home_of_ones_own_requires_metadata() -> None:
    assert Mirrored().requires_metadata("t")
