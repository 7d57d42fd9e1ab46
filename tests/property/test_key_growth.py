"""Whatever a topic grows through: where its keys may go."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events import AdaptivePartitioner, DefaultPartitioner, GrowthSafePartitioner, Partitioner
from kafka_partition_events.routing.hashing import HashName
from kafka_partition_events.testing.scripted import cluster_of

KEYS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=20)
GROWTH = st.lists(st.integers(1, 60), min_size=1, max_size=6).map(sorted)
HASHES = st.sampled_from(["murmur2", "crc32", "fnv1a"])


def where(partitioner: Partitioner, keys: list[bytes], count: int) -> list[int]:
    partitioner.apply_snapshot(cluster_of({"t": [1] * count}))
    return [partitioner.partition("t", key, key, None, None, None) for key in keys]


@given(keys=KEYS, first=st.integers(1, 60), growth=GROWTH, hash_name=HASHES, data=st.data())
def test_a_key_of_a_topic_in_key_partitions_never_moves(
    keys: list[bytes], first: int, growth: list[int], hash_name: HashName, data: st.DataObject
) -> None:
    fixed = {"t": data.draw(st.integers(1, first), label="key_partitions")}
    for partitioner in (
        DefaultPartitioner(hash_name=hash_name, key_partitions=fixed),
        AdaptivePartitioner(hash_name=hash_name, key_partitions=fixed),
        GrowthSafePartitioner(mapping="rendezvous", hash_name=hash_name, key_partitions=fixed),
    ):
        before = where(partitioner, keys, first)
        assert max(before) < fixed["t"]
        for more in growth:
            assert where(partitioner, keys, first + more) == before


@given(keys=KEYS, growth=GROWTH, hash_name=HASHES)
def test_rendezvous_moves_a_key_only_to_a_partition_that_is_new(
    keys: list[bytes], growth: list[int], hash_name: HashName
) -> None:
    partitioner = GrowthSafePartitioner(mapping="rendezvous", hash_name=hash_name)
    before, had = where(partitioner, keys, growth[0]), growth[0]
    for count in growth[1:]:
        after = where(partitioner, keys, count)
        assert all(a == b or a >= had for a, b in zip(after, before, strict=True))
        before, had = after, count
