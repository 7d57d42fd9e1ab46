"""The Spark that a job runs on: spark-submit's, a Connect server, one that is there, or a small local one."""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_partition_events.jvm import java, spark_jars
from kafka_partition_events.spark.errors import SparkJobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME: Final = "kafka-partition-events"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""The environment variable by which spark-submit shows Python where its JVM is."""

_CONNECT: Final = "SPARK_REMOTE"
"""The one that names a Spark Connect server."""

_LOGGING: Final = Path(__file__).with_name("log4j2.properties").as_uri()
DELTAS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings without which a session knows no tables of Delta."""

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",  # the default of 200 makes small jobs 8 times slower
    # Delta's VACUUM lists files in as many tasks as this, per table: 10,000 by default, half a minute here.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # A refresh has some hundred classes; Spark keeps a hundred, and would compile all of them each time.
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.databricks.delta.snapshotPartitions": "2",  # what a log says is little; the default is 50 tasks
    "spark.sql.adaptive.enabled": "false",  # planning once halves the time of jobs of seconds
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # else each expression seeks its line of code
}

BRIEF: Final = {
    **_SETTINGS,
    # For a JVM that lives for a minute: a second compiler takes a third of its CPU, and pays after that.
    "spark.driver.extraJavaOptions": (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING}"
    ),
}
"""Settings of a local session for jobs that are over before a JVM has warmed up."""

LASTING: Final = {
    **_SETTINGS,
    "spark.driver.extraJavaOptions": (
        f"-XX:+UseSerialGC -XX:ReservedCodeCacheSize=512m -Dlog4j2.configurationFile={_LOGGING}"
    ),
}
"""Settings of a local session for streams, and for many millions of records."""


_OWN: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.maxConcurrentOutputFileWriters": "64",  # else each write sorts by its partitions
    # Files with the default, INT96, can't be skipped by the times that they hold.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Sets of few values by many keys stay in hash tables: with the default of 128 keys all is sorted.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}
"""Settings of the session that a pipeline works in, wherever it runs."""


@contextlib.contextmanager
def opened_session(
    jars: Callable[[], Sequence[Path]] = spark_jars,
    *,
    cores: int = 2,
    name: str = _NAME,
    settings: Mapping[str, str] = BRIEF,
) -> Iterator["SparkSession"]:
    """Yield the session to use: spark-submit's, that of a Connect server, the running one, or a local one.

    A session that was made here is stopped in the end. The arguments are for a local one; see there.

    Raises:
        SparkJobError: PySpark or Java is missing, or Spark does not start.
        JvmError: the connector's jars could not be fetched.
    """
    _require_pyspark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra of 400 MB

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    if _SUBMITTED in os.environ or _CONNECT in os.environ:
        session = SparkSession.builder.appName(name).getOrCreate()
    else:
        session = local_session(jars(), cores=cores, name=name, settings=settings)
    try:
        yield session
    finally:
        session.stop()


def local_session(
    jars: Sequence[Path], *, cores: int = 2, name: str = _NAME, settings: Mapping[str, str] = BRIEF
) -> "SparkSession":
    """Return a local session, the running one if this process has one already. Takes some seconds.

    It is made for small machines; for a cluster run the job by spark-submit.

    Sets the environment variable ``PYSPARK_PYTHON`` of this process, unless it is set, to the running
    interpreter: Spark would start its Python workers with another one.

    Args:
        jars: Those of the Kafka connector and of Delta. They are taken up when the JVM starts, so a session
            that runs already must have them.
        cores: How many threads Spark uses.
        name: The application's name.
        settings: ``BRIEF`` or ``LASTING``.

    Raises:
        SparkJobError: PySpark or Java is missing, a jar does not exist, or Spark does not start.
    """
    _require_pyspark()
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if java() is None:
        raise SparkJobError("Spark needs Java 17 or newer: install it, or let JAVA_HOME name it")
    if missing := [str(jar) for jar in jars if not jar.is_file()]:
        raise SparkJobError(f"these jars do not exist: {', '.join(missing)}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    with_delta = DELTAS if any(jar.name.startswith("delta-spark") for jar in jars) else {}
    for key, value in {**settings, **with_delta}.items():
        builder = builder.config(key, value)
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise SparkJobError(f"Spark did not start; is Java 17 or newer the one in use? {error}") from error


def own_session(spark: "SparkSession") -> "SparkSession":
    """Return a session on the same Spark that keeps its time in UTC; the one that is given stays as it is."""
    session = spark.newSession()
    for name, value in _OWN.items():
        session.conf.set(name, value)
    return session


def _require_pyspark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise SparkJobError("PySpark is not installed: pip install 'kafka-partition-events[spark]'")
