"""Both clients live through the same: brokers die, topics grow, within a cap or a limit, or are missing.

Their cluster creates every topic that it is asked for.
"""

import contextlib
import gc
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Protocol

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaProducer

from kafka_partition_events import (
    AdaptivePartitioner,
    BufferBudget,
    CapReached,
    DefaultPartitioner,
    MetadataPoller,
    MetadataSource,
    Partitioner,
    PartitionOffline,
    PartitionOnline,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource, attach
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.routing.limits import NO_LIMITS
from kafka_partition_events.testing import KafkaCluster, RecordingListener
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
INTERVAL_S = 0.2
PAUSE_S = 0.004
CAP = 9
SPREAD = {partition: [partition % 3 + 1] for partition in range(6)}
ON_BROKER_3 = frozenset({2, 5})
OLD, NEW = range(3), range(3, 6)
wait_until = waiting(LIMIT_S, 0.02)

Arrived = Callable[[int], None]


class Client(Protocol):
    """Sends records, and tells the partition of each that has arrived."""

    poller: MetadataPoller

    def send(self, topic: str, key: bytes | None, arrived: Arrived) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Confluent:
    """Looks for new partitions all the time, so that it knows them before anybody else does."""

    def __init__(self, cluster: KafkaCluster, partitioner: Partitioner) -> None:
        config = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 5,
            "message.timeout.ms": 60_000,
            "topic.metadata.refresh.interval.ms": 100,
            "log_level": 0,
        }
        self.producer = PartitioningProducer(config, partitioner, poller_options={"interval": INTERVAL_S})
        self.poller = self.producer.poller

    def send(self, topic: str, key: bytes | None, arrived: Arrived) -> None:
        def note(error: object, message: Any) -> None:
            if error is None:
                arrived(message.partition())

        self.producer.produce(topic, b"v", key, on_delivery=note)
        self.producer.poll(0)

    def flush(self) -> None:
        assert self.producer.flush(LIMIT_S) == 0

    def close(self) -> None:
        self.flush()
        self.producer.close()


class KafkaPython:
    def __init__(self, cluster: KafkaCluster, partitioner: Partitioner) -> None:
        self.producer: Any = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","),
            partitioner=partitioner,
            linger_ms=5,
            metadata_max_age_ms=300,
        )
        self.poller = attach(self.producer, interval=INTERVAL_S)

    def send(self, topic: str, key: bytes | None, arrived: Arrived) -> None:
        self.producer.send(topic, b"v", key).add_callback(lambda metadata: arrived(metadata.partition))

    def flush(self) -> None:
        self.producer.flush(LIMIT_S)

    def close(self) -> None:
        self.producer.close(timeout=LIMIT_S)


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    return own_kafka_cluster(brokers=3, broker_config={"auto.create.topics.enable": "true"})


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment=SPREAD)
    return name


Make = Callable[[Partitioner], Client]


@pytest.fixture(params=[Confluent, KafkaPython], ids=["confluent-kafka", "kafka-python"])
def make(cluster: KafkaCluster, request: pytest.FixtureRequest) -> Iterator[Make]:
    with contextlib.ExitStack() as closing:

        def make(partitioner: Partitioner) -> Client:
            made: Client = request.param(cluster, partitioner)
            closing.callback(made.close)
            return made

        yield make
    gc.collect()  # of kafka-python's sockets, while their warning is filtered


def sent(client: Client, topic: str, key: bytes | None, count: int) -> Counter[int]:
    """Send records to the end, and return where they went."""
    got: Counter[int] = Counter()
    for _ in range(count):
        client.send(topic, key, lambda partition: got.update([partition]))
        time.sleep(0.001)
    client.flush()
    wait_until(lambda: got.total() == count, "all records")
    return got


def count_of(client: Client, topic: str) -> int:
    """Return how many partitions of a topic its poller knows."""
    seen = client.poller.cluster
    return 0 if seen is None or topic not in seen.by_topic else len(seen.by_topic[topic].partitions)


# -- brokers that die ----------------------------------------------------------------------------------


def test_a_killed_broker_is_seen_avoided_and_welcomed_back(
    cluster: KafkaCluster, topic: str, make: Make
) -> None:
    client, heard = make(DefaultPartitioner(hash_name="murmur2")), RecordingListener()
    key = next(b"key-%d" % i for i in range(100) if murmur2_partition(b"key-%d" % i, 6) not in ON_BROKER_3)
    home = murmur2_partition(key, 6)
    sent(client, topic, None, 1)
    client.poller.register(heard)
    heard.wait_for(lambda events: any(e.kind == "topic_added" for e in events), LIMIT_S)

    cluster.kill(3)
    try:
        heard.wait_for(lambda events: offline(events) == ON_BROKER_3, LIMIT_S)
        assert not ON_BROKER_3 & set(sent(client, topic, None, 200))
        assert sent(client, topic, key, 5) == {home: 5}
    finally:
        cluster.restart(3)
    heard.wait_for(lambda events: offline(events) == frozenset(), LIMIT_S)
    seen: set[int] = set()

    def reaches_all() -> bool:  # turns are drawn at random
        seen.update(sent(client, topic, None, 50))
        return seen >= ON_BROKER_3

    wait_until(reaches_all, "broker 3 gets records")
    assert sent(client, topic, key, 5) == {home: 5}


def offline(events: Any) -> frozenset[int]:
    """Return the partitions that are offline after these events."""
    down: set[int] = set()
    for event in events:
        if isinstance(event, PartitionOffline):
            down.add(event.partition)
        elif isinstance(event, PartitionOnline):
            down.discard(event.partition)
    return frozenset(down)


class Load:
    """A thread that sends a record every few ms, and what has arrived: when and where."""

    def __init__(self, client: Client, topic: str) -> None:
        self.arrivals: list[tuple[float, int]] = []
        self._client, self._topic = client, topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            self._client.send(self._topic, None, lambda p: self.arrivals.append((time.monotonic(), p)))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def partitions(self, since: float = 0.0) -> set[int]:
        return {partition for at, partition in list(self.arrivals) if at >= since}

    def longest_gap(self, since: float) -> float:
        times = [at for at, _ in list(self.arrivals) if at >= since]
        return max(later - sooner for sooner, later in pairwise(times))


def test_growth_beyond_the_cap_and_an_outage(cluster: KafkaCluster, topic: str, make: Make) -> None:
    """A cap of 9, a topic that grows from 6 to 12 partitions, and broker 2, which leads some of them."""
    partitioner = AdaptivePartitioner(budget=BufferBudget(max_partitions={topic: CAP}, instance_id="pod-0"))
    client, heard = make(partitioner), RecordingListener()
    client.poller.register(heard)
    load = Load(client, topic)

    def usable() -> frozenset[int]:
        """What unkeyed records may go to; a broker that is suspect for a moment doesn't count here."""
        route = partitioner.route(topic)
        return frozenset() if route is None else frozenset(route.admitted_online)

    try:
        wait_until(lambda: usable() == load.partitions() == set(range(6)), "all six partitions get records")
        began = time.monotonic()

        cluster.grow_topic(topic, 12)
        heard.wait_for(lambda events: any(isinstance(event, CapReached) for event in events), LIMIT_S)
        admitted = usable()
        assert len(admitted) == CAP
        assert admitted > set(range(6)), "growth keeps the partitions that were admitted"
        wait_until(lambda: load.partitions() == admitted, "the admitted partitions get records")
        time.sleep(1.0)
        assert load.partitions() == admitted, "and no other ever did"
        assert load.longest_gap(began) < 1.0

        led = {partition for partition, leader in cluster.leaders(topic).items() if leader == 2}
        cluster.kill(2)
        wait_until(lambda: bool(usable()) and not usable() & led, "broker 2 is left alone")
        stood_in = time.monotonic()
        wait_until(lambda: usable() == set(range(12)) - led, "all that is online stands in")
        wait_until(lambda: load.partitions(stood_in) >= usable(), "stand-ins get records")

        cluster.restart(2)
        wait_until(lambda: usable() == admitted, "the first choice is back")
        returned = time.monotonic()
        wait_until(lambda: load.partitions(returned) >= admitted, "and gets records")
        time.sleep(1.0)  # what was on its way to the stand-ins has arrived
        given_back = time.monotonic()
        time.sleep(1.0)
        # No record takes another one back: once a stand-in has got one, this never comes true.
        wait_until(lambda: load.partitions(given_back) == admitted, "and the stand-ins get none any more")
    finally:
        load.stop()
        if 2 not in cluster.running:
            cluster.restart(2)


# -- limits --------------------------------------------------------------------------------------------


def test_growth_reaches_records_when_the_limit_is_lifted_and_not_before(
    cluster: KafkaCluster, make: Make
) -> None:
    topic = f"limited-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, len(OLD))
    partitioner = DefaultPartitioner()
    client = make(partitioner)
    send_for(client, topic, 1.0)
    partitioner.routing.limit({topic: len(OLD)})
    cluster.grow_topic(topic, len(OLD) + len(NEW))

    send_for(client, topic, 2.0)
    assert count_of(client, topic) == len(OLD) + len(NEW), "the poller knows of the growth"
    late_partitioner = DefaultPartitioner()
    late_partitioner.routing.limit({topic: len(OLD)})
    send_for(make(late_partitioner), topic, 0.5)
    assert reached(cluster, topic) == set(OLD)

    partitioner.routing.limit(NO_LIMITS)
    send_for(client, topic, 1.0)
    assert reached(cluster, topic) == {*OLD, *NEW}


def send_for(client: Client, topic: str, seconds: float) -> None:
    """Send records with a key and without, by confluent-kafka in batches, too."""
    over, n = time.monotonic() + seconds, 0
    while time.monotonic() < over:
        key = b"key-%d" % n if n % 2 else None
        client.send(topic, key, lambda _partition: None)
        if isinstance(client, Confluent):
            client.producer.produce_batch(topic, [{"value": b"v", "key": key}])
        n += 1
        time.sleep(0.002)
    client.flush()


def reached(cluster: KafkaCluster, topic: str) -> set[int]:
    """Return the partitions that hold records."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody"})
    try:
        ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), LIMIT_S)[1] for p in (*OLD, *NEW)}
    finally:
        consumer.close()
    return {partition for partition, end in ends.items() if end > 0}


# -- topics that are missing ---------------------------------------------------------------------------


def test_asking_never_creates_a_topic(cluster: KafkaCluster, topic: str, make: Make) -> None:
    ghost, servers = f"ghost-{uuid.uuid4().hex}", cluster.bootstrap_servers
    own: list[MetadataSource] = [
        ConfluentMetadataSource({"bootstrap.servers": servers}),
        KafkaPythonMetadataSource({"bootstrap_servers": servers}),
    ]
    pollers = [MetadataPoller(source, [ghost]) for source in own]
    client = make(DefaultPartitioner())
    sent(client, topic, None, 1)
    client.poller.track(ghost)
    for _ in range(5):
        for poller in pollers:
            poller.poll_once()
        assert client.poller.refresh("test", wait=LIMIT_S)
    everything = own[0].fetch(None, started_at=0.0, timeout=LIMIT_S)
    assert ghost not in everything.topics
    assert topic in everything.topics
    for poller in pollers:
        poller.close()


def test_growth_beside_a_missing_topic_does_not_bring_that_back(
    cluster: KafkaCluster, topic: str, make: Make
) -> None:
    """The producer must be taught here, and a careless way of teaching creates the missing topic."""
    client, ghost = make(DefaultPartitioner()), f"ghost-{uuid.uuid4().hex}"
    client.poller.track(ghost, topic)
    assert client.poller.refresh("test", wait=LIMIT_S)
    cluster.grow_topic(topic, 8)

    def knows_all() -> bool:
        assert client.poller.refresh("test", wait=LIMIT_S)
        return count_of(client, topic) == 8

    wait_until(knows_all, "the growth is seen")
    source = ConfluentMetadataSource({"bootstrap.servers": cluster.bootstrap_servers})
    assert ghost not in source.fetch(None, started_at=0.0, timeout=LIMIT_S).topics
    source.close()
