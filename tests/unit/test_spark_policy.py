"""What follows, for rows in Spark, from a snapshot, a cap and a policy; and where snapshots come from."""

import socket
from contextlib import closing
from typing import Any

import pytest

from kafka_partition_events import BufferBudget, Cluster, ConfigurationError, Node
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.spark.errors import UnknownPartitionError
from kafka_partition_events.spark.partitioner import snapshot
from kafka_partition_events.spark.partitioner.policy import PartitionPolicy, Target, targets_of
from kafka_partition_events.spark.partitioner.snapshot import take_snapshot
from kafka_partition_events.testing import MockCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.scripted import cluster_of

HALF_DOWN = cluster_of({"orders": [1, None, 3, 1, None, 3]})


def target(cluster: Cluster = HALF_DOWN, unreachable: frozenset[int] = frozenset(), **policy: Any) -> Target:
    return targets_of(cluster, PartitionPolicy(**policy), ["orders"], unreachable)["orders"]


def test_rows_without_a_key_avoid_what_is_offline() -> None:
    found = target()
    assert (found.count, found.usable, found.offline) == (6, (0, 2, 3, 5), (1, 4))
    assert not found.uses_all


def test_pinned_rows_go_everywhere() -> None:
    assert target(offline="pin").usable == (0, 1, 2, 3, 4, 5)
    assert target(offline="pin").offline == (1, 4)


def test_ids_are_a_cap_that_opens_only_when_all_of_them_are_offline() -> None:
    assert target(cap={"orders": {0, 1}}).usable == (0,)
    assert target(cap={"orders": [4, 1]}).usable == (0, 2, 3, 5)
    assert target(cap={"payments": [0]}).usable == (0, 2, 3, 5)
    assert target(cap={"orders": range(6)}).usable == (0, 2, 3, 5)


def test_a_budget_is_a_cap_with_stand_ins() -> None:
    budget = BufferBudget(max_partitions={"orders": 3}, instance_id="spark")
    for cap in (budget, budget.admit(HALF_DOWN)):
        usable = target(cap=cap).usable
        assert len(usable) == 3
        assert not {1, 4} & set(usable)


def test_a_budget_is_shared_by_the_topics_that_are_written() -> None:
    cluster = cluster_of({"orders": [1] * 6, "payments": [1] * 6, "of others": [1] * 50})
    policy = PartitionPolicy(cap=BufferBudget(buffer_memory=4, batch_size=1, instance_id="spark"))
    targets = targets_of(cluster, policy, ["orders", "payments"])
    assert [len(found.usable) for found in targets.values()] == [2, 2]


def test_a_cap_from_before_the_topic_grew_still_holds() -> None:
    granted = BufferBudget(max_partitions={"orders": 3}).admit(cluster_of({"orders": [1, 1, 1]}))
    assert target(cluster_of({"orders": [1] * 6}), cap=granted).usable == (0, 1, 2)


@pytest.mark.parametrize("ids", [{6}, {-1, 0}, ()])
def test_a_cap_must_name_partitions_that_are_there(ids: set[int]) -> None:
    with pytest.raises(UnknownPartitionError, match="cap of topic orders"):
        target(cap={"orders": ids})


def test_partitions_of_brokers_out_of_reach_are_avoided_while_others_remain() -> None:
    found = target(unreachable=frozenset({3}))
    assert (found.usable, found.avoided, found.offline) == ((0, 3), (2, 5), (1, 4))
    assert target(unreachable=frozenset({1, 3})).usable == (0, 2, 3, 5)


def test_a_topic_without_an_online_partition_still_takes_rows() -> None:
    assert target(cluster_of({"orders": [None, None]}, brokers=[1])).usable == (0, 1)


def test_a_topic_must_be_known() -> None:
    with pytest.raises(UnknownPartitionError, match="'payments'"):
        targets_of(HALF_DOWN, PartitionPolicy(), ["payments"])
    assert set(targets_of(HALF_DOWN, PartitionPolicy())) == {"orders"}


@pytest.mark.parametrize("wrong", [{"offline": "wait"}, {"reach": 0}], ids=lambda wrong: next(iter(wrong)))
def test_a_wrong_policy_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        PartitionPolicy(**wrong)


# -- snapshots -------------------------------------------------------------------------------------------


def test_a_cluster_is_its_own_snapshot() -> None:
    assert take_snapshot(HALF_DOWN).cluster is HALF_DOWN
    assert take_snapshot(lambda: HALF_DOWN).cluster is HALF_DOWN


def test_a_poller_that_has_not_polled_yet_is_no_source() -> None:
    with pytest.raises(MetadataFetchError, match="no metadata snapshot yet"):
        take_snapshot(Cluster)


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a int"):
        take_snapshot(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("topics", [["orders"], None], ids=["one topic", "all"])
def test_a_cluster_is_asked_by_its_address(mock_cluster: MockCluster, topics: list[str] | None) -> None:
    mock_cluster.create_topic("orders", 3)
    mock_cluster.create_topic("payments", 2)
    mock_cluster.set_leader("orders", 1, None)
    found = take_snapshot(mock_cluster.bootstrap_servers, topics, reach=1.0)
    assert len(found.cluster.nodes) == 3
    assert found.cluster.available_partitions_for_topic("orders") == {0, 2}
    assert ("payments" not in found.cluster.by_topic) == (topics is not None)
    assert not found.unreachable


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_FETCH_S", 0.5)
    [port] = free_ports(1)
    with pytest.raises(MetadataFetchError, match="the cluster does not answer"):
        take_snapshot({"bootstrap.servers": f"{HOST}:{port}"})


def test_a_leader_that_accepts_no_connection_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server((HOST, 0))) as listening:
        alive = Node(1, HOST, listening.getsockname()[1])
        dead, idle = (Node(number, HOST, port) for number, port in zip((2, 3), free_ports(2), strict=True))
        cluster = cluster_of({"orders": [1, 2]}, brokers=[alive, dead, idle])
        monkeypatch.setattr(snapshot, "_fetch", lambda *_: cluster)
        assert take_snapshot("any:9092", reach=1.0).unreachable == {2}
        assert not take_snapshot("any:9092", reach=None).unreachable
    assert not take_snapshot(
        "any:9092", reach=1.0
    ).unreachable  # nobody answers: it is the driver's own trouble
