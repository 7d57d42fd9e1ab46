"""A cluster of three brokers, a topic to be seen and one for events, observers and a reader."""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import require_java
from tests.observe_kit import Observer, Reader


@pytest.fixture(scope="package")
def cluster() -> Iterator[KafkaCluster]:
    """As the cluster that others share, with a shorter session; and it creates topics that are written to."""
    require_java()
    with KafkaCluster(brokers=3, broker_config={"auto.create.topics.enable": "true"}) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 3, 1)
    return name


@pytest.fixture
def events_topic(cluster: KafkaCluster) -> str:
    name = f"events-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, 3, 3)
    return name


@pytest.fixture
def observer(cluster: KafkaCluster, tmp_path: Path) -> Iterator[Callable[..., Observer]]:
    with contextlib.ExitStack() as ending:

        def make(name: str, more: str = "", **how: Any) -> Observer:
            made = Observer(tmp_path, cluster, name, more, **how)
            ending.callback(made.kill)
            return made

        yield make


@pytest.fixture
def reader(cluster: KafkaCluster, events_topic: str) -> Iterator[Reader]:
    with contextlib.closing(Reader(cluster, events_topic)) as reader:
        yield reader
