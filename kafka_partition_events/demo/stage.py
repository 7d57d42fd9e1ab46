"""The two clusters that the demo can play on: real Kafka, or librdkafka's mock."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.testing import KafkaCluster, MockCluster

BROKERS = (1, 2, 3)


class Stage(Protocol):
    """A cluster and the trouble that can be made on it."""

    name: str
    real: bool

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect to."""

    def create(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Create a topic whose leaders are spread evenly."""

    def grow(self, topic: str, partitions: int) -> None:
        """Grow a topic. On a real cluster only."""

    def kill(self, broker: int) -> None:
        """Let a broker die. What it alone holds goes offline."""

    def restart(self, broker: int) -> None:
        """Bring it back and wait for it."""

    def delete(self, topic: str) -> None:
        """Delete a topic."""


class RealStage:
    """Three brokers and a controller, Apache Kafka on this machine."""

    name = "Apache Kafka, three brokers and a controller"
    real = True

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.delete = cluster.delete_topic
        self.grow = cluster.grow_topic
        self.kill = cluster.kill
        self.restart = cluster.restart

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect to."""
        return self._cluster.bootstrap_servers

    def create(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Create a topic whose leaders are spread evenly."""
        self._cluster.create_topic(topic, assignment=_spread(partitions, replication_factor))


class MockStage:
    """Brokers inside librdkafka. They elect no leaders, so what a controller would do is done here."""

    name = "librdkafka's mock cluster, three brokers"
    real = False

    def __init__(self, cluster: MockCluster) -> None:
        self._cluster = cluster
        self._replicas: dict[tuple[str, int], list[int]] = {}
        self.bootstrap_servers = cluster.bootstrap_servers

    def create(self, topic: str, partitions: int, replication_factor: int) -> None:
        """Create a topic whose leaders are spread evenly."""
        self._cluster.create_topic(topic, partitions, replication_factor)
        for partition, replicas in _spread(partitions, replication_factor).items():
            self._cluster.set_leader(topic, partition, replicas[0])
            self._replicas[topic, partition] = replicas

    def grow(self, topic: str, partitions: int) -> None:
        """Refuse: the mock can't."""
        raise CliError(f"the mock cluster can't grow {topic} to {partitions} partitions")

    def kill(self, broker: int) -> None:
        """Take a broker down; its partitions move to the next replica or go offline."""
        # Leaders first. The mock names a broker that is down as leader without listing it, and kafka-python
        # never recovers from such an answer: its I/O thread spins on UnknownBrokerIdError.
        for (topic, partition), replicas in self._replicas.items():
            if replicas[0] == broker:
                self._cluster.set_leader(topic, partition, replicas[1] if len(replicas) > 1 else None)
        self._cluster.set_broker_down(broker)

    def restart(self, broker: int) -> None:
        """Bring it back, with its partitions."""
        self._cluster.set_broker_up(broker)
        for (topic, partition), replicas in self._replicas.items():
            if replicas[0] == broker:
                self._cluster.set_leader(topic, partition, broker)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._cluster.delete_topic(topic)
        self._replicas = {tp: replicas for tp, replicas in self._replicas.items() if tp[0] != topic}


def _spread(partitions: int, replication_factor: int) -> Mapping[int, list[int]]:
    count = len(BROKERS)
    return {
        partition: [BROKERS[(partition + copy) % count] for copy in range(replication_factor)]
        for partition in range(partitions)
    }


@contextlib.contextmanager
def open_stage(*, mock: bool, progress: Callable[[str], None]) -> Iterator[Stage]:
    """Start a cluster; whatever happens, nothing of it is left running."""
    if mock:
        with MockCluster(len(BROKERS)) as mock_cluster:
            yield MockStage(mock_cluster)
    else:
        with KafkaCluster(len(BROKERS), progress=progress) as cluster:
            yield RealStage(cluster)
