"""`kpe observe` on a real Kafka with control topics: growth that a change had asked for, and other growth."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.testing import KafkaCluster
from tests.observe_kit import Observer, Reader, kafka_sink
from tests.waiting_kit import own_control_topics, waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 20.0


@pytest.fixture
def prefix(kafka_cluster: KafkaCluster) -> str:
    prefix = own_control_topics(kafka_cluster.bootstrap_servers, waiting(LIMIT_S))
    kafka_cluster.create_topic(f"{prefix}events", 3, 1)
    return prefix


@pytest.fixture
def observed(kafka_cluster: KafkaCluster, prefix: str, tmp_path: Path) -> Iterator[Observer]:
    more = f'[control]\nenabled = true\nprefix = "{prefix}"\n{kafka_sink(f"{prefix}events")}'
    observer = Observer(tmp_path, kafka_cluster, "noc-1", more)
    yield observer
    observer.kill()


@pytest.fixture
def reader(kafka_cluster: KafkaCluster, prefix: str) -> Iterator[Reader]:
    with contextlib.closing(Reader(kafka_cluster, f"{prefix}events")) as reader:
        yield reader


def request(servers: str, prefix: str, created: dict[str, Any], to_count: int) -> None:
    """Accept a change of the topic that an event tells of, in a transaction, as the tracker does."""
    spec = Spec(
        cluster_id=created["cluster_id"],
        topic=created["topic"],
        topic_id=created["topic_id"],
        from_count=created["after"]["count"],
        to_count=to_count,
    )
    change = Change(
        change_id="chg-1",
        tracker_epoch=1,
        revision=1,
        state=State.REQUESTED,
        spec=spec,
        requested_by="alice",
        requested_ms=round(1_000 * time.time()),
    )
    tracker = Producer({"bootstrap.servers": servers, "transactional.id": f"{prefix}tracker"})
    tracker.init_transactions(LIMIT_S)
    tracker.begin_transaction()
    tracker.produce(f"{prefix}changes", encode(change), key_of(change))
    tracker.commit_transaction(LIMIT_S)


def test_a_growth_is_planned_if_a_change_had_asked_for_it_and_never_held_up(
    kafka_cluster: KafkaCluster, topic: str, prefix: str, observed: Observer, reader: Reader
) -> None:
    def grown(size: int) -> dict[str, Any]:
        """Let the topic grow, and return what is told of it."""

        def told() -> list[dict[str, Any]]:
            growths = (event["data"] for event in reader.named("partitions.added"))
            return [data for data in growths if data["after"]["count"] == size and data["topic"] == topic]

        kafka_cluster.grow_topic(topic, size)
        observed.wait_until(f"told of {size}", lambda: bool(told()), LIMIT_S)
        (data,) = told()
        return data

    def found() -> list[dict[str, Any]]:
        return [e["data"] for e in reader.named("topic.created") if e["data"]["topic"] == topic]

    observed.start().ready()
    observed.wait_until("told of the topic", lambda: bool(found()))
    (created,) = found()
    assert "planned" not in created

    request(kafka_cluster.bootstrap_servers, prefix, created, 8)
    # At once, so the growth is seen before the change was read.
    asked = grown(8)
    assert (asked["planned"], asked["change_id"]) == (True, "chg-1")
    unasked = grown(9)
    assert (unasked["planned"], unasked.get("change_id")) == (False, None)

    kafka_cluster.delete_topic(f"{prefix}changes")
    unknown = grown(10)
    assert unknown.keys() & {"planned", "change_id"} == set()
    assert "control_topics_unreachable" in observed.log.read_text()

    counts = {
        label: observed.metric("kpe_events_labelled_total", event="partitions.added", planned=label)
        for label in ("true", "false", "unknown")
    }
    assert counts == {"true": 1.0, "false": 1.0, "unknown": 1.0}
    listed = map(json.loads, observed.kpe("events", "ls", "--type", "partitions.added").splitlines())
    assert [e["data"]["after"]["count"] for e in listed if e["data"].get("planned") is False] == [9]
