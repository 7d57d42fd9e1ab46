"""Each key in its order on real brokers, by a hand-written producer whose keys move."""

import random
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from confluent_kafka import Producer
from kafka import KafkaConsumer

from kafka_partition_events.clients.confluent import OrderedConsumer
from kafka_partition_events.clients.kafka_python import ordered
from kafka_partition_events.testing import KafkaCluster
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka
PARTITIONS, KEYS, RECORDS, VICTIM = 6, 20, 4_000, 2
MEMBER = Path(__file__).with_name("ordered_member.py")


def write(servers: str, topic: str, count: int, *, rate: float) -> None:
    """Write each record when its key's last is acknowledged; one in five goes to another partition."""
    producer, dice = Producer({"bootstrap.servers": servers, "linger.ms": 1}), random.Random(7)
    last: dict[int, tuple[int, int]] = {}
    places = {key: key % PARTITIONS for key in range(KEYS)}
    numbers: dict[int, int] = defaultdict(int)
    outstanding: set[int] = set()

    def reported(key: int) -> Any:
        def report(error: Any, message: Any) -> None:
            assert error is None, error
            last[key] = message.partition(), message.offset()
            outstanding.discard(key)

        return report

    for written in range(count):
        key = dice.randrange(KEYS)
        while key in outstanding:
            producer.poll(0.01)
        if dice.random() < 0.2:
            places[key] = dice.randrange(PARTITIONS)
        was = last.get(key)
        after: list[tuple[str, str | bytes | None]] = []
        if was is not None and was[0] != places[key]:
            after.append(("kpe-after", b"%d:%d" % was))
        outstanding.add(key)
        value = str(numbers[key])
        producer.produce(topic, value, str(key), places[key], on_delivery=reported(key), headers=after)
        numbers[key] += 1
        if written % 10 == 0:
            producer.poll(0)
            time.sleep(10 / rate)
    assert producer.flush(30) == 0


@define(frozen=True)
class Seen:
    """What an application was handed."""

    at: int
    partition: int
    offset: int
    key: int
    number: int


class Member:
    """A process that reads."""

    def __init__(self, servers: str, topic: str, assignor: str) -> None:
        command = [sys.executable, str(MEMBER), servers, topic, f"{topic}-readers", assignor]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.seen: list[Seen] = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if len(fields := line.split()) == 5:
                self.seen.append(Seen(*map(int, fields)))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


def out_of_order(seen: list[Seen]) -> list[Seen]:
    """Return what was handed out for the first time after a later record of its key."""
    newest: dict[int, int] = {}
    known: set[tuple[int, int]] = set()
    found = []
    for each in sorted(seen, key=lambda each: each.at):
        if (each.key, each.number) not in known and each.number != newest.get(each.key, -1) + 1:
            found.append(each)
        known.add((each.key, each.number))
        newest[each.key] = max(each.number, newest.get(each.key, -1))
    return found


@pytest.mark.parametrize("assignor", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.weekly)])
def test_applications_have_each_key_in_order_while_members_come_die_and_go(
    kafka_cluster: KafkaCluster, topic: str, assignor: str
) -> None:
    servers = kafka_cluster.bootstrap_servers
    members = [Member(servers, topic, assignor) for _ in range(2)]
    try:
        writer = threading.Thread(target=write, args=(servers, topic, RECORDS), kwargs={"rate": 300.0})
        writer.start()
        waiting(30.0, 0.05)(lambda: all(len(member.seen) > 100 for member in members), "all have some")
        members[0].kill()
        members.append(Member(servers, topic, assignor))  # which rebalances, and so does its session's end
        writer.join()
        waiting(60.0, 0.2)(
            lambda: len({(s.partition, s.offset) for m in members for s in m.seen}) >= RECORDS, "all records"
        )
    finally:
        for member in members:
            member.kill()
    seen = [each for member in members for each in member.seen]
    assert out_of_order(seen) == []
    assert all(member.seen for member in members)
    newest = {each.key: each.number for each in sorted(seen, key=lambda each: each.at)}
    assert newest == {key: max(s.number for s in seen if s.key == key) for key in newest}


def test_a_consumer_of_kafka_python_has_them_in_order_too(kafka_cluster: KafkaCluster, topic: str) -> None:
    write(kafka_cluster.bootstrap_servers, topic, 1_000, rate=5_000)
    reader = ordered(
        KafkaConsumer(
            topic,
            group_id=f"{topic}-readers",
            auto_offset_reset="earliest",
            consumer_timeout_ms=5_000,
            fetch_max_wait_ms=20,  # each wait costs a fetch
            bootstrap_servers=kafka_cluster.bootstrap_servers,
        )
    )
    try:
        half = [record for _, record in zip(range(500), reader, strict=False)]
        rest: list[Any] = []
        deadline = time.monotonic() + 30
        while len(rest) < 500 and time.monotonic() < deadline:
            rest += [record for records in reader.poll(500).values() for record in records]
        positions = sum(reader.position(each) for each in reader.assignment())
    finally:
        reader.close()
    seen = [
        Seen(at, record.partition, record.offset, int(record.key), int(record.value))
        for at, record in enumerate([*half, *rest])
    ]
    assert len(seen) == positions == 1_000
    assert out_of_order(seen) == []


@pytest.fixture
def frozen(cluster: KafkaCluster) -> Iterator[str]:
    """A topic whose partition 0 stays where it is while its only broker hangs."""
    name = f"frozen-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment={0: [VICTIM], 1: [1], 2: [3]})
    yield name
    cluster.thaw(VICTIM)


def test_what_names_a_partition_whose_leader_hangs_waits_and_the_others_go_on(
    cluster: KafkaCluster, frozen: str
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for partition in range(3):
        producer.produce(frozen, "before", partition=partition)
    assert producer.flush(30) == 0
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": f"{frozen}-readers",
        "auto.offset.reset": "earliest",
    }
    with OrderedConsumer(settings) as consumer:
        consumer.subscribe([frozen])

        def read(count: int, seconds: float = 30) -> list[str]:
            found: list[str] = []
            deadline = time.monotonic() + seconds
            while len(found) < count and time.monotonic() < deadline:
                started = time.monotonic()
                message = consumer.poll(0.2)
                assert time.monotonic() < started + 1.0
                if message is not None and message.error() is None:
                    found.append((message.value() or b"").decode())
            return found

        assert read(3) == ["before"] * 3
        producer.produce(frozen, "on the frozen one", partition=0)
        assert producer.flush(30) == 0
        cluster.freeze(VICTIM)
        producer.produce(frozen, "waits", partition=1, headers={"kpe-after": b"0:2"})
        for number in range(5):
            producer.produce(frozen, f"goes on {number}", partition=2)
        producer.flush(10)
        found = read(6, seconds=4)
        assert [each for each in found if each.startswith("goes on")] == [f"goes on {n}" for n in range(5)]
        assert "waits" not in found
        cluster.thaw(VICTIM)
        producer.produce(frozen, "the one it waits for", partition=0)
        producer.flush(30)
        rest = [*found, *read(8 - len(found))]
        assert rest.index("waits") > rest.index("the one it waits for")
