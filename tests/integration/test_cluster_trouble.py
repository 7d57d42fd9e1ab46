"""Controllers that fail over, settings, quotas, elections and disks in trouble: on a real Kafka."""

import shutil
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_partition_events.testing import KafkaCluster, KitError
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0
wait_until = waiting(LIMIT_S)
HAS_COMPILER = shutil.which("cc") is not None


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    return own_kafka_cluster(brokers=2, controllers=3, session_timeout_ms=2000, slow_disks=HAS_COMPILER)


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = f"trouble-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment={0: [1, 2], 1: [2, 1]})
    return name


def failed(cluster: KafkaCluster, topic: str, partition: int, limit_ms: int = 2_000) -> bool:
    """Send a record of 10 kB."""
    errors: list[Any] = []
    config = {"bootstrap.servers": cluster.bootstrap_servers, "delivery.timeout.ms": limit_ms, "log_level": 2}
    producer = Producer(config)
    producer.produce(
        topic, bytes(10_000), partition=partition, on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(LIMIT_S)
    [error] = errors
    return error is not None


def test_another_controller_takes_over(cluster: KafkaCluster, topic: str) -> None:
    assert cluster.controllers == (100, 101, 102)
    before = cluster.active_controller
    after = cluster.fail_over_controller()
    assert after == cluster.active_controller
    assert after != before
    cluster.grow_topic(topic, 3)
    assert set(cluster.pids) == {1, 2, 100, 101, 102}


def test_too_few_replicas_in_sync_and_an_election_afterwards(cluster: KafkaCluster, topic: str) -> None:
    cluster.set_config({"min.insync.replicas": "2"}, topic=topic)
    cluster.stop(2)
    try:
        assert cluster.leaders(topic) == {0: 1, 1: 1}
        assert failed(cluster, topic, 0)
        cluster.set_config({"min.insync.replicas": None}, topic=topic)
        wait_until(lambda: not failed(cluster, topic, 0), "one replica will do")
    finally:
        cluster.restart(2)
    assert cluster.leaders(topic) == {0: 1, 1: 1}
    cluster.elect(topic)
    assert cluster.leaders(topic) == {0: 1, 1: 2}
    cluster.elect(topic)  # no need: no error


def test_an_unclean_election_loses_what_the_dead_leader_had(cluster: KafkaCluster) -> None:
    topic = f"unclean-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, assignment={0: [2, 1]})
    cluster.kill(1)
    cluster.await_registered(2)
    assert not failed(cluster, topic, 0)  # broker 1 will never see it
    cluster.kill(2)
    cluster.restart(1)
    try:
        assert cluster.leaders(topic) == {0: None}
        cluster.elect(topic, unclean=True)
        assert cluster.leaders(topic) == {0: 1}
    finally:
        cluster.restart(2)


def test_a_quota_slows_one_client_down(cluster: KafkaCluster, topic: str) -> None:
    cluster.quota(producer_bytes_per_s=40_000, client_id="greedy")
    config = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "greedy", "linger.ms": 0}
    producer = Producer(config)

    def send(count: int) -> float:
        began = time.monotonic()
        for _ in range(count):
            producer.produce(topic, bytes(10_000), partition=0)
        producer.flush(LIMIT_S)
        return time.monotonic() - began

    # Kafka lets ten seconds' worth pass at first, and answers before it makes the client wait.
    wait_until(lambda: send(60) + send(1) >= 0.5, "it is slowed down")
    cluster.quota(client_id="greedy")
    with pytest.raises(KitError, match="could not set quotas"):
        cluster.quota(client_id="greedy", producer_bytes_per_s=-1.0)


def test_a_full_disk_halts_a_broker(cluster: KafkaCluster, topic: str) -> None:
    cluster.fill_disk(2)
    try:
        assert cluster.running == (1,)
        cluster.await_registered(1)
        assert cluster.leaders(topic) == {0: 1, 1: 1}
        with pytest.raises(KitError, match="broker-2 does not run"):
            cluster.fill_disk(2)
    finally:
        cluster.restart(2)
    assert not failed(cluster, topic, 1)


def test_a_slow_disk(cluster: KafkaCluster, topic: str) -> None:
    if not HAS_COMPILER:
        with pytest.raises(KitError, match="slow_disks=True"):
            cluster.slow_disk(2, 400)
        return

    def takes() -> float:
        began = time.monotonic()
        assert not failed(cluster, topic, 1, limit_ms=15_000)  # each write takes longer
        return time.monotonic() - began

    cluster.elect(topic)
    cluster.slow_disk(2, 400)
    try:
        assert takes() >= 0.4
    finally:
        cluster.slow_disk(2, 0)
    assert min(takes() for _ in range(3)) < 0.4


def test_a_rolling_restart_loses_nothing(cluster: KafkaCluster, topic: str) -> None:
    before = cluster.pids
    cluster.rolling_restart()
    assert all(cluster.pids[broker] != before[broker] for broker in cluster.brokers)
    assert not failed(cluster, topic, 0)
