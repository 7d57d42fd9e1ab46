"""A pytest plugin for kafka-python's own tests: each producer that they make has a partitioner of ours.

``KPE_PARTITIONER`` names the class in `kafka_partition_events`; ``KPE_ATTACH`` says whether it is attached.
The cluster is that of ``KPE_BROKERS``; its topics are made by the first record.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

import kafka_partition_events
from kafka_partition_events.clients.kafka_python import attach

OPTIONS: dict[str, dict[str, Any]] = {"GrowthSafePartitioner": {"mapping": "rendezvous"}}
Factory = Callable[..., AbstractContextManager[Any]]


def _factory(make: Callable[..., Any]) -> Factory:
    @contextmanager
    def factory(*args: Any, **config: Any) -> Iterator[Any]:
        client = make(*args, bootstrap_servers=os.environ["KPE_BROKERS"].split(","), **config)
        try:
            yield client
        finally:
            client.close()

    return factory


@pytest.fixture
def kafka_producer_factory() -> Factory:
    def make(**config: Any) -> Any:
        name = os.environ["KPE_PARTITIONER"]
        partitioner = getattr(kafka_partition_events, name)(**OPTIONS.get(name, {}))
        producer = KafkaProducer(partitioner=partitioner, **config)
        if os.environ["KPE_ATTACH"] == "yes":
            attach(producer)
        return producer

    return _factory(make)


@pytest.fixture
def kafka_consumer_factory() -> Factory:
    def make(topics: tuple[str, ...], **config: Any) -> Any:
        # Nothing of ours is in it. One that misses a topic as it comes into being would ask again in five
        # minutes, and its test gives up after half a minute; that was seen once, on a busy machine.
        settings = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 1_000}
        return KafkaConsumer(*topics, **{**settings, **config})

    return _factory(make)


@pytest.fixture
def kafka_admin_client_factory() -> Factory:
    return _factory(KafkaAdminClient)
