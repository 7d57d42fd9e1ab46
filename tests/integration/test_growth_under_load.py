"""A capped producer at work on a real cluster: its topic grows, a broker dies and comes back.

Both clients live through the same story: a cap of 9, a topic that grows from 6 to 12 partitions, and broker
2, which leads some of them.
"""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Protocol

import pytest
from kafka import KafkaProducer

from kafka_partition_events import AdaptivePartitioner, BufferBudget, CapReached, MetadataPoller
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.testing import KafkaCluster, RecordingListener

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0
CAP = 9
PAUSE_S = 0.004


class Client(Protocol):
    """Sends unkeyed records and tells when and where they arrived."""

    partitioner: AdaptivePartitioner
    poller: MetadataPoller

    def send(self, topic: str, on_arrival: Callable[[int], None]) -> None: ...
    def close(self) -> None: ...


class Confluent:
    def __init__(self, cluster: KafkaCluster, partitioner: AdaptivePartitioner) -> None:
        config = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 5,
            "message.timeout.ms": 60_000,
        }
        self.partitioner = partitioner
        self._producer = PartitioningProducer(config, partitioner, poller_options={"interval": 0.2})
        self.poller = self._producer.poller

    def send(self, topic: str, on_arrival: Callable[[int], None]) -> None:
        def arrived(error: object, message: object) -> None:
            if error is None:
                on_arrival(message.partition())  # type: ignore[attr-defined]

        self._producer.produce(topic, b"v", on_delivery=arrived)
        self._producer.poll(0)

    def close(self) -> None:
        assert self._producer.flush(LIMIT_S) == 0
        self._producer.close()


class KafkaPython:
    def __init__(self, cluster: KafkaCluster, partitioner: AdaptivePartitioner) -> None:
        self.partitioner = partitioner
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers.split(","),
            partitioner=partitioner,
            linger_ms=5,
        )
        self.poller = attach(self._producer, interval=0.2)

    def send(self, topic: str, on_arrival: Callable[[int], None]) -> None:
        future = self._producer.send(topic, b"v")
        future.add_callback(lambda metadata: on_arrival(metadata.partition))

    def close(self) -> None:
        self._producer.flush(LIMIT_S)
        self._producer.close(timeout=LIMIT_S)


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
            self._client.send(self._topic, lambda p: self.arrivals.append((time.monotonic(), p)))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def partitions(self, since: float) -> set[int]:
        return {partition for at, partition in list(self.arrivals) if at >= since}

    def longest_gap(self, since: float) -> float:
        times = [at for at, _ in list(self.arrivals) if at >= since]
        return max(later - sooner for sooner, later in pairwise(times))


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    return own_kafka_cluster(brokers=3)


@pytest.fixture(params=[Confluent, KafkaPython], ids=["confluent-kafka", "kafka-python"])
def client(cluster: KafkaCluster, request: pytest.FixtureRequest) -> Iterator[Confluent | KafkaPython]:
    topic = f"orders-{request.param.__name__}"
    cluster.create_topic(topic, assignment={partition: [partition % 3 + 1] for partition in range(6)})
    budget = BufferBudget(max_partitions={topic: CAP}, instance_id="pod-0")
    client = request.param(cluster, AdaptivePartitioner(budget=budget))
    yield client
    client.close()
    gc.collect()  # of kafka-python's sockets, while their warning is filtered


def wait_until(true: Callable[[], bool], what: str) -> float:
    """Return the moment when it has come true."""
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, f"not in {LIMIT_S:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic()


def test_growth_beyond_the_cap_and_an_outage(cluster: KafkaCluster, client: Client) -> None:
    topic = f"orders-{type(client).__name__}"
    heard = RecordingListener()
    client.poller.register(heard)
    load = Load(client, topic)

    def usable() -> frozenset[int]:
        """What unkeyed records may go to; a broker that is suspect for a moment doesn't count here."""
        route = client.partitioner.route(topic)
        return frozenset() if route is None else frozenset(route.admitted_online)

    try:
        wait_until(lambda: usable() == set(range(6)), "the partitioner knows the topic")
        began = wait_until(lambda: load.partitions(0) == set(range(6)), "all six partitions get records")

        cluster.grow_topic(topic, 12)
        heard.wait_for(lambda events: any(isinstance(event, CapReached) for event in events), LIMIT_S)
        admitted = usable()
        assert len(admitted) == CAP
        assert admitted > set(range(6)), "growth keeps the partitions that were admitted"
        wait_until(lambda: load.partitions(0) == admitted, "the admitted partitions get records")
        time.sleep(1.0)
        assert load.partitions(0) == admitted, "and no other ever did"
        assert load.longest_gap(began) < 1.0

        led = {partition for partition, leader in cluster.leaders(topic).items() if leader == 2}
        cluster.kill(2)
        stood_in = wait_until(lambda: bool(usable()) and not usable() & led, "broker 2 is left alone")
        wait_until(lambda: len(usable()) == 12 - len(led), "all that is online stands in")
        assert usable() == set(range(12)) - led
        wait_until(lambda: load.partitions(stood_in) >= usable(), "stand-ins get records")

        cluster.restart(2)
        returned = wait_until(lambda: usable() == admitted, "the first choice is back")
        wait_until(lambda: load.partitions(returned) >= admitted, "and gets records")
        time.sleep(1.0)  # what was on its way to the stand-ins has arrived
        given_back = time.monotonic()
        time.sleep(1.0)
        # No record takes another one back: once a stand-in has got one, this never comes true.
        wait_until(lambda: load.partitions(given_back) == admitted, "and the stand-ins get none any more")
    finally:
        load.stop()
