"""What integration tests share.

One Spark session for the whole run, because starting one takes seconds; and, for modules about delivery
feedback, a cluster whose broker 2 is there to be frozen and killed.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.fleet_feed import STORY
from tests.fleet_kit import INTERPRETED, Gold, gold_at_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.testing import KafkaCluster


COMPILED: Final = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's defaults."""


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: "Callable[..., KafkaCluster]") -> "KafkaCluster":
    """Three brokers with a long session: metadata has nothing to say for as long as a test looks."""
    return own_kafka_cluster(brokers=3, session_timeout_ms=9000)


@pytest.fixture
def topic(cluster: "KafkaCluster") -> str:
    """Six partitions, two on each broker: broker 2 leads 1 and 4."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, assignment={partition: [partition % 3 + 1] for partition in range(6)})
    return name


@pytest.fixture(scope="session")
def orders(kafka_cluster: "KafkaCluster") -> str:
    """The address of a cluster with the topic that all documented examples write to."""
    kafka_cluster.create_topic("orders", 6)
    return kafka_cluster.bootstrap_servers


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A local Spark session with the Kafka connector."""
    from kafka_partition_events.jvm import spark_jars  # noqa: PLC0415
    from kafka_partition_events.spark.session import BRIEF, local_session  # noqa: PLC0415

    session = local_session(
        spark_jars(), settings={**BRIEF, **INTERPRETED, "spark.sql.shuffle.partitions": "1"}
    )
    for name, value in COMPILED.items():
        session.conf.set(name, value)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def pipelines_spark(spark: "SparkSession") -> "SparkSession":
    """A session as pipelines make theirs, for tests that use parts of one."""
    from kafka_partition_events.spark.session import own_session  # noqa: PLC0415

    return own_session(spark)


@pytest.fixture(scope="session")
def gold_of_the_story(spark: "SparkSession") -> Gold:
    """What gold must be of `tests.fleet_feed.STORY`, however it got there."""
    return gold_at_once(spark, [record.value for record in STORY.records], STORY.days)
