"""What a writer in Spark knows of a topic, and whether its keys would lie where those of others do."""

import socket
from contextlib import closing

import pytest
from confluent_kafka import Producer
from structlog.testing import capture_logs

from kafka_partition_events import ConfigurationError, Node
from kafka_partition_events.diagnose.fingerprint import HashRule
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.routing.hashing import key_hash
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.spark.errors import UnknownPartitionError
from kafka_partition_events.spark.partitioner import compared, snapshot
from kafka_partition_events.spark.partitioner.compared import compare, newest, refuse_others
from kafka_partition_events.spark.partitioner.snapshot import examine
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.scripted import cluster_of
from tests.mock_cluster import MockCluster

HALF_DOWN = cluster_of({"orders": [1, None, 3, 1, None, 3]})
KEYS = [b"user-%d" % number for number in range(300)]


def test_rows_without_a_key_avoid_what_is_offline() -> None:
    found = examine(HALF_DOWN, "orders")
    assert (found.count, found.usable, found.offline) == (6, (0, 2, 3, 5), (1, 4))


def test_a_topic_without_an_online_partition_still_takes_rows() -> None:
    assert examine(cluster_of({"orders": [None, None]}, brokers=[1]), "orders").usable == (0, 1)


def test_a_topic_must_be_known() -> None:
    with pytest.raises(UnknownPartitionError, match="'payments'"):
        examine(HALF_DOWN, "payments")


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a int"):
        examine(7, "orders")  # type: ignore[arg-type]


def test_a_cluster_is_asked_by_its_address(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    mock_cluster.set_leader("orders", 1, None)
    found = examine(mock_cluster.bootstrap_servers, "orders")
    assert len(found.cluster.nodes.values()) == 3
    assert (found.usable, found.offline, found.avoided) == ((0, 2), (1,), ())


def test_a_cluster_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_FETCH_S", 0.5)
    [port] = free_ports(1)
    with pytest.raises(MetadataFetchError, match="the cluster does not answer"):
        examine({"bootstrap.servers": f"{HOST}:{port}"}, "orders")


def test_a_leader_that_accepts_no_connection_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server((HOST, 0))) as listening:
        alive = Node(1, HOST, listening.getsockname()[1])
        dead, idle = (Node(number, HOST, port) for number, port in zip((2, 3), free_ports(2), strict=True))
        cluster = cluster_of({"orders": [1, 2]}, brokers=[alive, dead, idle])
        monkeypatch.setattr(snapshot, "_fetch", lambda *_: cluster)
        found = examine("any:9092", "orders")
        assert (found.usable, found.avoided, found.offline) == ((0,), (1,), ())
    # Nobody answers: it is the driver's own trouble.
    assert examine("any:9092", "orders").usable == (0, 1)


def placed_by(hash_name: str, partitions: int) -> list[tuple[bytes, int]]:
    place = key_hash(hash_name)  # type: ignore[arg-type]
    return [(key, place(key, partitions)) for key in KEYS]


@pytest.mark.parametrize(
    ("placements", "complaint"),
    [
        (
            placed_by("crc32", 12),
            'by crc32 over 12 partitions, not by murmur2 over 12: .* hash_name="crc32";',
        ),
        (placed_by("crc32", 7), r'Set hash_name="crc32", key_partitions=7; or hash_name="murmur2" to'),
        (placed_by("murmur2", 7), r'Set hash_name="murmur2", key_partitions=7;'),
        (placed_by("fnv1a", 12), 'by fnv1a, which Spark does not have: .* set hash_name="murmur2"'),
        (
            [(key, jump_hash(key_hash("murmur2"))(key, 12)) for key in KEYS],
            "by rendezvous-murmur2, which Spark",
        ),
    ],
    ids=["another hash", "another hash, kept", "kept", "Sarama's", "growth-safe"],
)
def test_keys_that_lie_elsewhere_are_told_with_what_to_set(
    placements: list[tuple[bytes, int]], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        refuse_others(placements, 12, "orders", HashRule("murmur2", 12))


def test_a_setting_of_javas_client_alone_is_an_error_in_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match="librdkafka refuses a setting: Java TrustStores are not"):
        newest({"bootstrap.servers": "x:1", "ssl.truststore.location": "/a/file"}, "orders")


def test_a_partition_that_is_offline_does_not_end_the_comparison(
    mock_cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock_cluster.create_topic("orders", 6)
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers}
    producer = Producer(config)
    for key, partition in placed_by("crc32", 6):
        producer.produce("orders", key=key, partition=partition)
    assert producer.flush(30) == 0
    for partition in range(6):
        mock_cluster.set_leader("orders", partition, None)
    with capture_logs() as told:
        compare(config, "a cluster", "orders", "murmur2", 6)  # nothing can be read
    assert [(one["event"], one["partitions"]) for one in told] == [("keys_not_compared", [0, 1, 2, 3, 4, 5])]
    for partition in range(1, 6):
        mock_cluster.set_leader("orders", partition, 1)
    compare(config, "a cluster", "orders", "murmur2", 6)  # five minutes later
    monkeypatch.setattr(compared, "_next", {})
    with pytest.raises(ConfigurationError, match='Set hash_name="crc32"'):
        compare(config, "a cluster", "orders", "murmur2", 6)


def test_a_topic_that_is_not_there_has_no_newest_keys(mock_cluster: MockCluster) -> None:
    with pytest.raises(UnknownPartitionError, match="there is no topic ordesr; check the name"):
        newest({"bootstrap.servers": mock_cluster.bootstrap_servers}, "ordesr")


@pytest.mark.parametrize(
    "placements",
    [
        placed_by("murmur2", 12),
        [],
        placed_by("crc32", 12)[:3],
        [(key, number % 5) for number, key in enumerate(KEYS)],
        placed_by("murmur2", 12)[:100] + placed_by("murmur2", 6)[100:],
    ],
    ids=["the same", "none", "too few", "by no hash", "grown a moment ago"],
)
def test_keys_that_lie_there_or_tell_nothing_are_no_objection(placements: list[tuple[bytes, int]]) -> None:
    refuse_others(placements, 12, "orders", HashRule("murmur2", 12))
