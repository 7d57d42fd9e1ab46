"""An agent's link on a real Kafka: transactions and their marks; and a gate from request to opening."""

import contextlib
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafka_partition_events import ControlTopicError, DefaultPartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.agents.producer_agent import ProducerAgent
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.testing import KafkaCluster
from tests.control_kit import Story, gated
from tests.waiting_kit import own_control_topics, waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0
wait_until = waiting(LIMIT_S, every_s=0.05)


@pytest.fixture
def prefix(kafka_cluster: KafkaCluster) -> str:
    """Control topics of this test's own."""
    return own_control_topics(kafka_cluster.bootstrap_servers, wait_until)


@pytest.fixture
def tracker(kafka_cluster: KafkaCluster, prefix: str) -> Producer:
    """A transactional producer, as the tracker's."""
    producer = Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers, "transactional.id": f"{prefix}tracker"}
    )
    producer.init_transactions(LIMIT_S)
    return producer


@pytest.fixture
def link(kafka_cluster: KafkaCluster, prefix: str) -> Iterator[ControlLink]:
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    with contextlib.closing(ControlLink(config, prefix=prefix)) as link:
        yield link


def write(tracker: Producer, prefix: str, change: Change, *, commit: bool = True) -> None:
    tracker.begin_transaction()
    tracker.produce(f"{prefix}changes", encode(change), key_of(change))
    tracker.flush(LIMIT_S)
    if commit:
        tracker.commit_transaction(LIMIT_S)
    else:
        tracker.abort_transaction(LIMIT_S)


def a_change(**fields: object) -> Change:
    story = Story()
    story.request(gated(**fields))
    return story.change


def test_it_reads_what_was_committed_to_the_end_and_then_what_is_new(
    tracker: Producer, prefix: str, link: ControlLink
) -> None:
    change = a_change()
    assert link.read_changes(LIMIT_S) == []
    write(tracker, prefix, change)
    write(tracker, prefix, change, commit=False)
    expected = [(key_of(change).encode(), encode(change))]
    wait_until(lambda: link.read_changes(LIMIT_S) == expected, "the committed record is read")
    began = time.monotonic()
    assert link.read_changes(LIMIT_S) == []
    assert time.monotonic() - began < LIMIT_S / 2, "the mark at the end is not waited for"
    write(tracker, prefix, change)
    wait_until(lambda: link.read_changes(LIMIT_S) == expected, "the next one is read")


def test_it_tells_when_a_record_was_appended(link: ControlLink) -> None:
    done: list[int | None] = []
    before = time.time() * 1_000
    link.publish("leases", "a", b"{}", done.append)

    def heard() -> bool:
        link.read_changes(LIMIT_S)
        return bool(done)

    wait_until(heard, "the delivery is told")
    (at_ms,) = done
    assert at_ms is not None
    assert before - 1_000 < at_ms < time.time() * 1_000 + 1_000


def test_topics_that_are_not_there_are_an_error_with_a_cure(kafka_cluster: KafkaCluster) -> None:
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    with (
        contextlib.closing(ControlLink(config, prefix="no-such.")) as link,
        pytest.raises(ControlTopicError, match="kpe tracker init"),
    ):
        link.read_changes(5.0)


def test_a_gate_is_held_and_opened_on_a_real_producer(
    kafka_cluster: KafkaCluster, tracker: Producer, prefix: str
) -> None:
    topic = f"gated-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, 6)
    partitioner = DefaultPartitioner()
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    producer = PartitioningProducer(config, partitioner, poller_options={"interval": 0.3})
    producer.produce(topic, b"v", b"k")
    producer.flush(LIMIT_S)
    wait_until(lambda: partitioner.route(topic) is not None, "the topic is known")
    cluster = producer.poller.cluster
    assert cluster is not None
    change = a_change(topic=topic, topic_id=None, cluster_id=cluster.cluster_id)
    write(tracker, prefix, change)

    link = ControlLink(config, prefix=prefix)
    agent = ProducerAgent(producer.poller, link, "a")
    try:
        assert agent.start(LIMIT_S)

        def held() -> bool:
            agent._wake()  # a commit takes a moment to be seen; the next look by itself is 30 s away
            return partitioner.routing.limits == {topic: 6}

        wait_until(held, "the gate is held")
        kafka_cluster.grow_topic(topic, 12)

        def seen() -> int:
            cluster = producer.poller.cluster
            assert cluster is not None
            return len(cluster.by_topic[topic].partitions)

        wait_until(lambda: seen() == 12, "the poller sees the growth")
        route = partitioner.route(topic)
        assert route is not None
        assert route.count == 6

        opened = Story()
        opened.ledger.take_change(change)
        opened.sees(count=12, readers=frozenset(), topic_id=None)
        opened.probed("billing", positioned=change.spec.affected, assigned=change.spec.affected)
        opened.tick()
        assert opened.change.opened_by is not None
        write(tracker, prefix, opened.change)

        def all_used() -> bool:
            route = partitioner.route(topic)
            return route is not None and route.count == 12

        wait_until(all_used, "the gate opens")
    finally:
        producer.close()
