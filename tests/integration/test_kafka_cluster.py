"""The kit's real Kafka does what it says, and leaves nothing behind."""

import shutil
import signal
import subprocess
import sys
import uuid

import pytest

from kafka_partition_events.jvm import kafka_lock
from kafka_partition_events.testing import KafkaCluster, KitError
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0

OWNER = """
import time
from kafka_partition_events.testing import KafkaCluster

with KafkaCluster(brokers=1) as cluster:
    cluster.freeze(1)
    print(cluster._directory, *cluster.pids.values(), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def topic() -> str:
    return f"kit-{uuid.uuid4().hex[:8]}"


def seen_by(cluster: KafkaCluster, broker: int, topic: str) -> int:
    """How many partitions of a topic one particular broker knows of."""
    return len(cluster._node(broker).ask().topics.get(topic, {}))


def test_it_is_the_kafka_that_was_asked_for(kafka_cluster: KafkaCluster) -> None:
    assert kafka_cluster._directory is not None
    log = (kafka_cluster._directory / "logs" / "broker-1.log").read_text()
    assert f"Kafka version: {kafka_lock().removeprefix('kafka-')}." in log


def test_topic_changes_are_visible_on_every_broker_at_once(kafka_cluster: KafkaCluster, topic: str) -> None:
    kafka_cluster.create_topic(topic, 4, replication_factor=2)
    assert [seen_by(kafka_cluster, broker, topic) for broker in (1, 2, 3)] == [4, 4, 4]

    kafka_cluster.grow_topic(topic, 9)
    assert [seen_by(kafka_cluster, broker, topic) for broker in (1, 2, 3)] == [9, 9, 9]

    kafka_cluster.delete_topic(topic)
    assert [seen_by(kafka_cluster, broker, topic) for broker in (1, 2, 3)] == [0, 0, 0]


def test_a_killed_broker_takes_its_partitions_offline_until_restarted(
    kafka_cluster: KafkaCluster, topic: str
) -> None:
    kafka_cluster.create_topic(topic, assignment={0: [1], 1: [2], 2: [3]})
    assert kafka_cluster.leaders(topic) == {0: 1, 1: 2, 2: 3}
    servers = kafka_cluster.bootstrap_servers

    kafka_cluster.kill(2)
    try:
        assert set(kafka_cluster.running) == {1, 3}
        kafka_cluster.await_registered(1, 3)
        assert kafka_cluster.leaders(topic) == {0: 1, 1: None, 2: 3}
        kafka_cluster.grow_topic(topic, 4)  # works with a broker down
    finally:
        kafka_cluster.restart(2)

    assert set(kafka_cluster.running) == {1, 2, 3}
    assert kafka_cluster.bootstrap_servers == servers
    assert kafka_cluster.leaders(topic)[1] == 2


def test_wrong_requests_say_what_is_wrong(kafka_cluster: KafkaCluster, topic: str) -> None:
    with pytest.raises(KitError, match="no broker 7, only 1, 2, 3"):
        kafka_cluster.kill(7)
    with pytest.raises(KitError, match="must have partitions 0"):
        kafka_cluster.create_topic(topic, assignment={1: [1]})
    with pytest.raises(KitError, match=f"could not create topic {topic}"):
        kafka_cluster.create_topic(topic)
    with pytest.raises(KitError, match=f"could not grow topic {topic} to 3 partitions"):
        kafka_cluster.grow_topic(topic, 3)
    with pytest.raises(KitError, match="has not been started"):
        _ = KafkaCluster().bootstrap_servers
    with pytest.raises(ValueError, match="at least 1"):
        KafkaCluster(brokers=0)


def test_nothing_is_left_running_when_the_owner_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        try:
            directory, *pids = owner.stdout.readline().split()
        finally:
            owner.send_signal(signal.SIGKILL)
    assert len(pids) == 2

    waiting(LIMIT_S)(lambda: not any(is_kafka(pid, directory) for pid in pids), "all have ended")
    shutil.rmtree(directory)


def test_a_failed_start_names_the_cause_and_keeps_the_log() -> None:
    cluster = KafkaCluster(brokers=1, broker_config={"num.network.threads": "none"})
    with pytest.raises(KitError, match=r"Invalid value none") as failure:
        cluster.start()
    assert cluster._directory is not None
    assert str(cluster._directory) in str(failure.value)
    assert [path.name for path in (cluster._directory / "logs").iterdir()] == ["controller.log"]
    cluster.close()
    with pytest.raises(KitError, match="closed"):
        cluster.start()
    shutil.rmtree(cluster._directory)


def is_kafka(pid: str, directory: str) -> bool:
    """Whether the process is (still) the node that was started: a pid alone may have been given out again."""
    command = ["ps", "-ww", "-o", "args=", "-p", pid]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    return directory in shown.stdout
