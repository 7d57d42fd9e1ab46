"""The reader of the control topics on a real Kafka: marks of transactions, tombstones, topics that change."""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from kafka_partition_events import ControlTopicError
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.protocol.codec import Record, encode, key_of
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.testing import KafkaCluster
from tests.control_kit import ONE, Story, growth, lease
from tests.waiting_kit import own_control_topics, waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0
wait_until = waiting(LIMIT_S, 0.05)


@pytest.fixture
def prefix(kafka_cluster: KafkaCluster) -> str:
    prefix = own_control_topics(kafka_cluster.bootstrap_servers, wait_until)
    log = ControlLog({"bootstrap.servers": kafka_cluster.bootstrap_servers}, prefix)
    read_until(log, lambda: True)  # brokers hear of new topics one after another
    log.close()
    return prefix


@pytest.fixture
def log(kafka_cluster: KafkaCluster, prefix: str) -> Iterator[ControlLog]:
    log = ControlLog({"bootstrap.servers": kafka_cluster.bootstrap_servers}, prefix)
    yield log
    log.close()


Writes = Callable[..., None]


@pytest.fixture
def write(kafka_cluster: KafkaCluster, prefix: str) -> Writes:
    topics = {"Command": "commands", "Change": "changes", "Lease": "leases"}

    def write(*records: Record, partition: int = -1) -> None:
        # A new one each time: it knows the partitions that there are now.
        producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
        for record in records:
            topic = f"{prefix}{topics[type(record).__name__]}"
            producer.produce(topic, encode(record), key_of(record), partition=partition)
        assert producer.flush(LIMIT_S) == 0

    return write


@pytest.fixture
def tracker(kafka_cluster: KafkaCluster, prefix: str) -> Producer:
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers, "transactional.id": f"{prefix}tracker"}
    producer = Producer(config)
    producer.init_transactions(LIMIT_S)
    return producer


def read_until(log: ControlLog, true: Callable[[], bool]) -> None:
    """Read until something is there: a commit takes a moment to be seen, and so does a new topic."""

    def is_there() -> bool:
        with contextlib.suppress(ControlTopicError):
            log.read(LIMIT_S)
            return true()
        return False

    wait_until(is_there, "what it is to read")


def a_change(change_id: str = ONE) -> Change:
    change = Story().request(growth(), change_id)
    assert change is not None
    return change


def test_it_reads_everything_to_the_end_and_then_what_is_new(log: ControlLog, write: Writes) -> None:
    before = time.time() * 1_000
    write(*(lease(name) for name in "abcdef"))
    log.read(LIMIT_S)
    assert sorted(log.ledger.leases) == [*"abcdef"]
    assert before - 1_000 < log.ledger.leases["a"].at_ms < time.time() * 1_000 + 1_000
    write(lease("a", seen=12, lease_seq=2), lease("g"))
    log.read(LIMIT_S)
    assert "g" in log.ledger.leases
    assert log.ledger.leases["a"].record.view[0].seen == 12


def test_it_reads_what_was_committed_and_waits_for_no_mark(
    log: ControlLog, tracker: Producer, prefix: str
) -> None:
    one, other = a_change(), a_change("chg-2")
    for change, commit in ((one, True), (other, False)):
        tracker.begin_transaction()
        tracker.produce(f"{prefix}changes", encode(change), key_of(change))
        tracker.flush(LIMIT_S)
        tracker.commit_transaction(LIMIT_S) if commit else tracker.abort_transaction(LIMIT_S)
    read_until(log, lambda: bool(log.ledger.changes))
    assert log.ledger.changes == {ONE: one}
    tracker.begin_transaction()
    tracker.produce(f"{prefix}changes", None, key_of(one))
    tracker.commit_transaction(LIMIT_S)
    read_until(log, lambda: not log.ledger.changes)


def test_it_waits_for_a_leader_that_is_being_elected(
    log: ControlLog, write: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic that was just created, a broker may not know yet that it leads."""
    write(lease("a"))
    admin = log._topics._connection.admin()
    list_offsets, refused = admin.list_offsets, Future[Any]()
    refused.set_exception(KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)))

    def ask(latest: dict[TopicPartition, Any], **options: Any) -> Any:
        monkeypatch.undo()
        return {**list_offsets(latest, **options), next(iter(latest)): refused}

    monkeypatch.setattr(admin, "list_offsets", ask)
    log.read(LIMIT_S)
    assert "a" in log.ledger.leases


def test_it_finds_the_partitions_that_a_topic_has_gained(
    kafka_cluster: KafkaCluster, log: ControlLog, write: Writes, prefix: str
) -> None:
    write(lease("a"))
    log.read(LIMIT_S)
    kafka_cluster.grow_topic(f"{prefix}leases", 13)
    write(lease("b"), partition=12)
    read_until(log, lambda: "b" in log.ledger.leases)


def test_a_topic_that_was_created_anew_is_read_from_its_beginning(
    kafka_cluster: KafkaCluster, log: ControlLog, write: Writes, prefix: str
) -> None:
    write(lease("a"), lease("b"))
    log.read(LIMIT_S)
    kafka_cluster.delete_topic(f"{prefix}leases")
    with pytest.raises(ControlTopicError, match=rf"no topic {prefix}leases; `kpe tracker init`"):
        log.read(LIMIT_S)
    kafka_cluster.create_topic(f"{prefix}leases", 12)
    write(lease("c"))
    read_until(log, lambda: "c" in log.ledger.leases)


def test_what_is_not_understood_is_counted(kafka_cluster: KafkaCluster, log: ControlLog, prefix: str) -> None:
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.produce(f"{prefix}leases", b"rubbish", "a")
    producer.produce(f"{prefix}leases", b'{"format":"kpe.lease","version":99}', "b")
    assert producer.flush(LIMIT_S) == 0
    log.read(LIMIT_S)
    assert log.skipped.counts == {"malformed": 1, "version": 1}


def test_nobody_there_is_an_error_that_says_so() -> None:
    log = ControlLog({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(ControlTopicError, match=r"127\.0\.0\.1:1.*; are the brokers up") as failed:
        log.read(1.0)
    assert "kpe tracker init" not in str(failed.value)  # nobody has said that a topic is missing
    log.close()
