"""A Spark session that may warm up: with all of the JVM's compilers, unlike the one for small jobs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.errors import BenchError
from kafka_partition_events.jvm import java, spark_jars


@contextmanager
def bench_session(cores: int = 2, memory: str = "3g") -> Iterator[SparkSession]:
    """Open a local session with the Kafka connector."""
    if java() is None:
        raise BenchError("Spark needs Java 17 or newer: install it, or let JAVA_HOME name it")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("kafka-partition-events-bench")
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")  # as `kafka_partition_events.spark`
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.jars", ",".join(str(jar) for jar in spark_jars()))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def jvm_of(session: SparkSession) -> int:
    """Return the process id of a session's JVM."""
    jvm: Any = session._jvm  # noqa: SLF001 - nothing else tells
    return int(jvm.java.lang.ProcessHandle.current().pid())
