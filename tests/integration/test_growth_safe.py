"""Pinned keys on a real cluster: a topic grows under a fleet that writes, and nobody ever disagrees."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from kafka import KafkaProducer

from kafka_partition_events.clients.confluent import KafkaPinStore, PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.partitioners import user_pins
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pins import Pin
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
INTERVAL_S = 0.2
DELAY_S = 5.0
SLACK_S = 0.5
"""How late a thread may be for the moment of the cut-over on a machine with two busy cores."""

KEYS = [b"user-%d" % number for number in range(60)]


@frozen
class Placed:
    """Where a record went, and between which moments it was placed."""

    key: bytes
    partition: int
    not_before: float
    not_after: float


class Writer:
    """One instance of a fleet: a producer with its own partitioner, poller and connection to the store."""

    def __init__(self, cluster: KafkaCluster, pins: str) -> None:
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
        self.store = KafkaPinStore(config, pins)
        self.partitioner = GrowthSafePartitioner(
            mapping="pinned", store=self.store, interval=INTERVAL_S, hash_name="murmur2"
        )
        self.producer = PartitioningProducer(
            config, self.partitioner, poller_options={"interval": INTERVAL_S}
        )
        self.placed: list[Placed] = []
        self.errors: list[str] = []

    def write(self, topic: str) -> None:
        """Send a record of every key."""
        for key in KEYS:
            times = [time.time()]
            self.producer.produce(topic, b"v", key, on_delivery=self._report(key, times))
            times.append(time.time())
        self.producer.poll(0)

    def _report(self, key: bytes, times: list[float]) -> Callable[[Any, Any], None]:
        def report(error: Any, message: Any) -> None:
            if error is None:
                self.placed.append(Placed(key, message.partition(), times[0], times[1]))
            else:
                self.errors.append(error.name())

        return report

    def knows(self, topic: str, partitions: int) -> bool:
        route = self.partitioner.route(topic)
        return route is not None and route.count == partitions

    def close(self) -> None:
        self.producer.close()
        self.store.close()


@pytest.fixture
def start(kafka_cluster: KafkaCluster) -> Iterator[Callable[[], Writer]]:
    pins = f"pins-{uuid.uuid4().hex[:8]}"
    writers: list[Writer] = []

    def start() -> Writer:
        writers.append(Writer(kafka_cluster, pins))
        return writers[-1]

    yield start
    for writer in writers:
        writer.close()


def write_until(writers: list[Writer], topic: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < deadline
        for writer in writers:
            writer.write(topic)
            writer.producer.poll(0.005)


def test_a_fleet_keeps_its_keys_over_growth_and_cuts_over_at_one_moment(
    start: Callable[[], Writer], kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=6)
    fleet = [start(), start()]
    write_until(fleet, topic, lambda: all(len(writer.placed) > 300 for writer in fleet))
    kafka_cluster.grow_topic(topic, 12)
    write_until(fleet, topic, lambda: all(writer.knows(topic, 12) for writer in fleet))
    seen = [len(writer.placed) for writer in fleet]
    write_until(
        fleet, topic, lambda: all(len(w.placed) > before + 300 for w, before in zip(fleet, seen, strict=True))
    )
    pin = fleet[0].partitioner.cut_over(topic, delay=DELAY_S)

    def late(writer: Writer) -> list[Placed]:
        return [each for each in writer.placed if each.not_before > pin.effective_at + SLACK_S]

    write_until(
        fleet, topic, lambda: time.time() > pin.effective_at + 1.5 and all(len(late(w)) > 60 for w in fleet)
    )
    for writer in fleet:
        assert writer.producer.flush(LIMIT_S) == 0
        assert writer.errors == []
        assert writer.partitioner.pins[topic][-1] == pin
        early = [each for each in writer.placed if each.not_after < pin.effective_at]
        assert len(early) > 600
        assert all(each.partition == murmur2_partition(each.key, 6) for each in early)
        assert all(each.partition == murmur2_partition(each.key, 12) for each in late(writer))

    newcomer = start()
    newcomer.write(topic)
    assert newcomer.producer.flush(LIMIT_S) == 0
    assert [each.partition for each in sorted(newcomer.placed, key=lambda each: KEYS.index(each.key))] == [
        murmur2_partition(key, 12) for key in KEYS
    ]


def test_a_restart_after_growth_finds_the_pin(
    start: Callable[[], Writer], kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=6)
    first = start()
    write_until([first], topic, lambda: topic in first.store.read())
    first.producer.close()
    kafka_cluster.grow_topic(topic, 12)
    second = start()
    write_until([second], topic, lambda: len(second.placed) > 120)
    assert second.knows(topic, 12)
    assert all(each.partition == murmur2_partition(each.key, 6) for each in second.placed)
    assert second.errors == []


def where(producer: KafkaProducer, topic: str) -> list[int]:
    futures = [producer.send(topic, b"v", key) for key in KEYS]
    return [future.get(LIMIT_S).partition for future in futures]


def modulo(count: int) -> list[int]:
    return [murmur2_partition(key, count) for key in KEYS]


@pytest.mark.parametrize("attached", [False, True])
def test_the_same_partitioner_on_kafka_python(
    attached: bool, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, store = kafka_topic(partitions=6), FilePinStore(tmp_path / "pins.json")

    def start() -> tuple[GrowthSafePartitioner, KafkaProducer]:
        partitioner = GrowthSafePartitioner(
            mapping="pinned", store=store, interval=INTERVAL_S, hash_name="murmur2"
        )
        producer = KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers,
            partitioner=partitioner,
            metadata_max_age_ms=200,
        )
        return partitioner, producer

    partitioner, producer = start()
    poller = attach(producer, interval=INTERVAL_S) if attached else None
    assert where(producer, topic) == modulo(6)

    def knows_all() -> bool:
        route = partitioner.route(topic)  # of the poller, which may be later than the producer
        return len(producer.partitions_for(topic)) == 12 and (route is None or route.count == 12)

    kafka_cluster.grow_topic(topic, 12)
    deadline = time.monotonic() + LIMIT_S
    while not knows_all():
        assert time.monotonic() < deadline
        assert where(producer, topic) == modulo(6)
    assert where(producer, topic) == modulo(6)
    pin = partitioner.cut_over(topic, delay=DELAY_S, count=12)
    while time.time() < pin.effective_at + SLACK_S:
        placed = where(producer, topic)
        if time.time() < pin.effective_at:
            assert placed == modulo(6)
    assert where(producer, topic) == modulo(12)
    if poller is not None:
        poller.close()
    partitioner.close()
    producer.close(timeout=LIMIT_S)

    restarted, producer = start()
    assert restarted.pins[topic] == (Pin(1, 6, restarted.pins[topic][0].effective_at), pin)
    assert where(producer, topic) == modulo(12)
    restarted.close()
    producer.close(timeout=LIMIT_S)


# -- without a store -----------------------------------------------------------------------------------


def by_confluent(cluster: KafkaCluster, topic: str) -> tuple[list[int], int]:
    partitioner, placed = GrowthSafePartitioner(mapping="pinned", hash_name="murmur2"), dict[bytes, int]()

    def report(error: Any, message: Any) -> None:
        assert error is None
        placed[message.key()] = message.partition()

    config = {"bootstrap.servers": cluster.bootstrap_servers, "on_delivery": report}
    with PartitioningProducer(config, partitioner) as producer:
        for key in KEYS:
            producer.produce(topic, b"v", key)
        assert producer.flush(LIMIT_S) == 0
        route = partitioner.route(topic)
        assert route is not None
        await_pin(topic)
        return [placed[key] for key in KEYS], route.count


def by_kafka_python(cluster: KafkaCluster, topic: str) -> tuple[list[int], int]:
    partitioner = GrowthSafePartitioner(mapping="pinned", hash_name="murmur2")
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, partitioner=partitioner)
    try:
        placed = where(producer, topic)
        await_pin(topic)
        return placed, len(producer.partitions_for(topic))
    finally:
        partitioner.close()
        producer.close(timeout=LIMIT_S)


def await_pin(topic: str) -> None:
    """Wait until the file has the topic's pin, as a program that runs for a second does."""
    directory = Path(os.environ["XDG_STATE_HOME"]) / "kafka-partition-events"
    deadline = time.monotonic() + LIMIT_S
    while not any(topic in FilePinStore(path).read() for path in directory.glob("pins-*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("client", [by_confluent, by_kafka_python])
def test_without_a_store_a_file_of_this_user_keeps_keys_over_a_restart(
    client: Callable[[KafkaCluster, str], tuple[list[int], int]],
    kafka_cluster: KafkaCluster,
    kafka_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(user_pins, "_MOUNTS", tmp_path / "on a disk, even in a container")
    topic = kafka_topic(partitions=6)
    assert client(kafka_cluster, topic) == (modulo(6), 6)
    kafka_cluster.grow_topic(topic, 12)
    assert client(kafka_cluster, topic) == (modulo(6), 12)
