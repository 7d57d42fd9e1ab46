"""What integration tests share: one Spark session for the whole run, because starting one takes seconds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A local Spark session with the Kafka connector."""
    from kafka_partition_events.jvm import spark_jars  # noqa: PLC0415
    from kafka_partition_events.spark.session import local_session  # noqa: PLC0415

    session = local_session(spark_jars())
    yield session
    session.stop()
