import copy
import pickle
from collections.abc import Callable

import pytest

from kafka_partition_events.metadata.cluster import EMPTY, Cluster, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.testing.scripted import cluster_of


def test_a_topic_partition_equals_and_hashes_as_any_named_tuple_of_its_shape() -> None:
    structs = pytest.importorskip("kafka.structs")
    theirs, ours = structs.TopicPartition("orders", 3), TopicPartition("orders", 3)
    assert ours == theirs == ("orders", 3)
    assert {theirs: 1}[ours] == 1
    assert {ours: 1}[("orders", 3)] == 1  # type: ignore[index]


class TestFrozen:
    def test_mappings_cannot_be_changed(self) -> None:
        cluster = cluster_of({"orders": [1]})
        with pytest.raises(TypeError):
            cluster.by_topic["orders"] = TopicInfo("orders", ())  # type: ignore[index]
        with pytest.raises(TypeError):
            del cluster.nodes[1]  # type: ignore[attr-defined]

    def test_a_snapshot_does_not_follow_the_mapping_it_was_made_from(self) -> None:
        topics = {"orders": TopicInfo("orders", ())}
        cluster = Cluster(by_topic=topics)
        topics.clear()
        assert set(cluster.by_topic) == {"orders"}


class TestEquality:
    def test_says_the_same_about_brokers_and_topics(self) -> None:
        ours = cluster_of({"orders": [1, None]}, cluster_id="a", generation=1)
        theirs = cluster_of({"orders": [1, None]}, cluster_id="b", generation=7)
        assert ours == theirs
        assert ours != cluster_of({"orders": [1, 1]})
        assert ours != cluster_of({"orders": [1, None]}, brokers=[1, 2])

    def test_parts_hash_and_a_snapshot_does_not(self) -> None:
        assert len({PartitionInfo("t", 0, 1), PartitionInfo("t", 0, 1), PartitionInfo("t", 0, 2)}) == 2
        with pytest.raises(TypeError, match="unhashable"):
            hash(EMPTY)


def test_partitions_are_read_as_of_kafka_pythons_cluster() -> None:
    cluster = cluster_of({"orders": [1, None, 2], "__consumer_offsets": [1]}, brokers=[2, 1])
    assert cluster.partitions_for_topic("orders") == {0, 1, 2}
    assert cluster.available_partitions_for_topic("orders") == {0, 2}
    assert cluster.partitions_for_topic("nope") is None
    assert cluster.available_partitions_for_topic("nope") is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda cluster: pickle.loads(pickle.dumps(cluster))])  # noqa: S301
def test_a_snapshot_can_be_copied_and_sent_to_another_process(copied: Callable[[Cluster], Cluster]) -> None:
    cluster = cluster_of({"orders": {"id": "A", "partitions": [1, None]}}, brokers=[1], generation=7)
    twin = copied(cluster)
    assert twin == cluster
    assert (twin.cluster_id, twin.generation) == (cluster.cluster_id, 7)
