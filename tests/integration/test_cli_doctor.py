"""``kpe doctor`` on real clusters: what clients have written by default, what comes true of a forecast."""

import json
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.change_kit import documents
from tests.integration.programs import KPE, ended
from tests.mock_cluster import MockCluster
from tests.replicas_kit import around
from tests.waiting_kit import waiting

LIMIT_S = 30.0
SESSION_S = 9.0
"""The shared cluster's."""
VICTIM = 2
KEYS = [b"customer-%d" % number for number in range(2_000)]
EARLIER, LATER = KEYS[:1_000], KEYS[1_000:]


def doctor(servers: str, *words: str) -> "subprocess.CompletedProcess[str]":
    return ended(*KPE, "doctor", *words, "-b", servers, limit_s=90)


def diagnosed(servers: str, *words: str) -> tuple[int, dict[str, Any]]:
    done = doctor(servers, *words)
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
    code, document = diagnosed(servers, "partitioner", "--topic", topic)
    assert (code, names(document)) == (0, [(hash_name, 12)])
    assert document["records"] == document["keys"] == 2_000


@pytest.mark.kafka
def test_both_on_one_topic_disagree(servers: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(6)
    write_by_confluent(servers, topic, KEYS)
    write_by_kafka_python(servers, topic, EARLIER)
    code, document = diagnosed(servers, "partitioner", "--topic", topic)
    assert (code, sorted(names(document))) == (1, [("crc32", 6), ("murmur2", 6)])
    assert document["split_keys"] > 500  # of 1,000 that both wrote, 5 in 6 are on two partitions


@pytest.mark.kafka
def test_it_reads_the_latest_records_evenly(servers: str, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(4)
    write_by_kafka_python(servers, topic, EARLIER * 3)
    write_by_confluent(servers, topic, LATER * 3)
    code, document = diagnosed(servers, "partitioner", "--topic", topic, "--records", "1000")
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
    assert doctor(servers, "partitioner", "--topic", topic).returncode == 0
    assert groups_of(admin) <= before


@pytest.mark.kafka
def test_an_unknown_topic_is_told_and_not_created(kafka_cluster: KafkaCluster, servers: str) -> None:
    done = doctor(servers, "partitioner", "--topic", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kpe: there is no topic nowhere, or you may not see it\n"
    admin = AdminClient({"bootstrap.servers": servers})
    assert "nowhere" not in admin.list_topics(timeout=LIMIT_S).topics


def test_a_short_time_is_kept(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    servers = mock_cluster.bootstrap_servers
    write_by_confluent(servers, "orders", KEYS)
    began = time.monotonic()
    code, document = diagnosed(servers, "partitioner", "--topic", "orders", "--timeout", "1ms")
    assert time.monotonic() - began < 15
    assert (code, document["timed_out"]) == (3, True)


@pytest.mark.kafka
def test_a_cluster_that_is_well(servers: str, kafka_topic: MakeTopic) -> None:
    events = kafka_topic(3, 3, {"min.insync.replicas": "2"})
    done = doctor(servers, "--events-topic", events)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["check"]: each for each in documents(done.stdout)}
    assert {each["status"] for each in found.values()} == {"ok"}
    assert [name for name in found if name.startswith("broker ")] == ["broker 1", "broker 2", "broker 3"]
    assert found[f"WRITE on topic {events}"]["detail"] == "held"
    assert done.stderr == ""


# -- replicas ------------------------------------------------------------------------------------------


def await_synced(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})

    def synced() -> bool:
        partitions = admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions.values()
        return bool(partitions) and all(p.leader > 0 and len(p.isrs) == len(p.replicas) for p in partitions)

    waiting(LIMIT_S)(synced, f"{topic} is in sync")


def written(producer: Producer, topic: str, partitions: int) -> set[int]:
    """Write a record to each partition and return those that took it before it expired."""
    took: set[int] = set()

    def note(error: KafkaError | None, message: Message) -> None:
        if error is None:
            took.add(message.partition() or 0)

    for number in range(partitions):
        producer.produce(topic, b"v", partition=number, on_delivery=note)
    assert producer.flush(LIMIT_S) == 0
    return took


@pytest.mark.kafka
def test_what_it_foretells_of_a_broker_that_hangs_comes_true(cluster: KafkaCluster) -> None:
    servers, rows = cluster.bootstrap_servers, around(6, 3, 2)
    cluster.create_topic("thirds", assignment=dict(enumerate(map(list, rows))))
    await_synced(servers, "thirds")
    code, document = diagnosed(servers, "replicas", "--topics", "thirds")
    assert (code, document["without_safe_alternative"]) == (0, 0)
    (victim,) = (each for each in document["brokers"] if each["broker"] == VICTIM)
    hanging, out = (victim[what]["partitions"] for what in ("while_it_hangs", "once_it_is_out"))
    assert (hanging, out) == (2, 6)

    quick = Producer({"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": 4_000})
    assert len(written(quick, "thirds", 6)) == 6
    cluster.freeze(VICTIM)
    try:
        took = written(quick, "thirds", 6)
        assert took == {number for number, row in enumerate(rows) if VICTIM not in row}
        assert len(took) == hanging
        time.sleep(SESSION_S)
        late = Producer({"bootstrap.servers": servers, "acks": "all", "socket.timeout.ms": 5_000})
        assert len(written(late, "thirds", 6)) == out
    finally:
        cluster.thaw(VICTIM)
        cluster.await_registered()
    await_synced(servers, "thirds")
