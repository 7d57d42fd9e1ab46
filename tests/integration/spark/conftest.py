"""One Spark session for all of these tests: one takes seconds to start, and minutes to be at full speed."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafka_partition_events.jvm import spark_jars
from kafka_partition_events.spark.session import LASTING, local_session, own_session
from tests.fleet_feed import STORY
from tests.fleet_kit import COMPILED, INTERPRETED, Gold, gold_at_once

ONE_TASK = dict.fromkeys(
    (
        "spark.default.parallelism",
        "spark.sql.shuffle.partitions",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        "spark.databricks.delta.snapshotPartitions",
    ),
    "1",
)
"""What tests have in their tables is little: each task more costs more than it takes away from others."""


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """A local Spark session with the Kafka connector.

    Tests have another plan each, so most of what a JVM compiles thoroughly is run too seldom to pay for it.
    """
    options = "spark.driver.extraJavaOptions"
    quick = {options: f"-XX:TieredStopAtLevel=1 {LASTING[options]}"}
    session = local_session(spark_jars(), settings={**LASTING, **INTERPRETED, **ONE_TASK, **quick})
    for name, value in COMPILED.items():
        session.conf.set(name, value)
    yield session
    session.stop()


@pytest.fixture(scope="package")
def pipelines_spark(spark: SparkSession) -> SparkSession:
    """A session as pipelines make theirs, for tests that use parts of one."""
    return own_session(spark)


@pytest.fixture(scope="package")
def gold_of_the_story(spark: SparkSession) -> Gold:
    """What gold must be of `tests.fleet_feed.STORY`, however it got there."""
    return gold_at_once(spark, [record.value for record in STORY.records], STORY.days)
