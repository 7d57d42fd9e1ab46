"""``kpe doctor partitioner`` on topics that real clients have written with their own defaults."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.mock_cluster import MockCluster

DOCTOR = [sys.executable, "-m", "kafka_partition_events.cli", "doctor", "partitioner"]
LIMIT_S = 30.0
KEYS = [b"customer-%d" % number for number in range(2_000)]
EARLIER, LATER = KEYS[:1_000], KEYS[1_000:]


def doctor(servers: str, topic: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*DOCTOR, "-b", servers, "--topic", topic, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def diagnosed(servers: str, topic: str, *options: str) -> tuple[int, dict[str, Any]]:
    done = doctor(servers, topic, *options)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def write_by_confluent(servers: str, topic: str, keys: Iterable[bytes | None], **config: Any) -> None:
    producer = Producer({"bootstrap.servers": servers, **config})
    for key in keys:
        producer.produce(topic, b"v", key)
    assert producer.flush(LIMIT_S) == 0


def write_by_kafka_python(servers: str, topic: str, keys: Iterable[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=servers.split(","))
    for key in keys:
        producer.send(topic, b"v", key)
    producer.flush(LIMIT_S)
    producer.close()


def names(document: dict[str, Any]) -> list[tuple[str, int]]:
    return [(finding["hash"], finding["partitions"]) for finding in document["findings"]]


@pytest.fixture
def servers(kafka_cluster: KafkaCluster) -> str:
    return kafka_cluster.bootstrap_servers


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("write", "hash_name"), [(write_by_confluent, "crc32"), (write_by_kafka_python, "murmur2")]
)
def test_what_a_client_does_by_default(
    write: Callable[..., None], hash_name: str, servers: str, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(12)
    write(servers, topic, KEYS)
    code, document = diagnosed(servers, topic)
    assert (code, names(document)) == (0, [(hash_name, 12)])
    assert document["records"] == document["keys"] == 2_000


@pytest.mark.kafka
def test_both_on_one_topic_disagree(servers: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(6)
    write_by_confluent(servers, topic, KEYS)
    write_by_kafka_python(servers, topic, EARLIER)
    code, document = diagnosed(servers, topic)
    assert (code, sorted(names(document))) == (1, [("crc32", 6), ("murmur2", 6)])
    assert document["split_keys"] > 500  # of 1,000 that both wrote, 5 in 6 are on two partitions


@pytest.mark.kafka
def test_it_reads_the_latest_records_evenly(servers: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(4)
    write_by_kafka_python(servers, topic, EARLIER * 3)
    write_by_confluent(servers, topic, LATER * 3)
    code, document = diagnosed(servers, topic, "--records", "1000")
    assert (code, names(document)) == (0, [("crc32", 4)])
    assert 1_000 <= document["records"] <= 1_003


def groups_of(admin: AdminClient) -> set[str]:
    listed = admin.list_consumer_groups().result(LIMIT_S)
    assert listed.errors == []
    return {group.group_id for group in listed.valid}


@pytest.mark.kafka
def test_it_leaves_no_group_behind(servers: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(3)
    write_by_confluent(servers, topic, EARLIER)
    admin = AdminClient({"bootstrap.servers": servers})  # has to outlive its futures: they are its own
    shown = admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions("billing", [TopicPartition(topic, 0, 1)])]
    )
    shown["billing"].result(LIMIT_S)
    before = groups_of(admin)
    assert "billing" in before
    assert doctor(servers, topic).returncode == 0
    assert groups_of(admin) <= before


@pytest.mark.kafka
def test_an_unknown_topic_is_told_and_not_created(kafka_cluster: KafkaCluster, servers: str) -> None:
    done = doctor(servers, "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kpe: there is no topic nowhere, or you may not see it\n"
    admin = AdminClient({"bootstrap.servers": servers})
    assert "nowhere" not in admin.list_topics(timeout=LIMIT_S).topics


def test_a_short_time_is_kept(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    servers = mock_cluster.bootstrap_servers
    write_by_confluent(servers, "orders", KEYS)
    began = time.monotonic()
    code, document = diagnosed(servers, "orders", "--timeout", "1ms")
    assert time.monotonic() - began < 15
    assert (code, document["timed_out"]) == (3, True)
