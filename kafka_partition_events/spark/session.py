"""A small local Spark with the Kafka connector."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_partition_events.jvm import java
from kafka_partition_events.spark.errors import SparkJobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",  # the default of 200 makes small jobs 8 times slower
    # For jobs of seconds: compiling less and planning once halves their time and their CPU.
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    ),
}


def local_session(
    jars: Sequence[Path], *, cores: int = 2, name: str = "kafka-partition-events"
) -> "SparkSession":
    """Return a local session, the running one if this process has one already. Takes some seconds.

    It is made for small jobs, which are over before a JVM has warmed up; for hundreds of millions of
    records bring a session of your own.

    Sets the environment variable ``PYSPARK_PYTHON`` of this process, unless it is set, to the running
    interpreter: Spark would start its Python workers with another one.

    Args:
        jars: The jars of the Kafka connector. They are taken up when the JVM starts, so a session that
            runs already must have them.
        cores: How many threads Spark uses.
        name: The application's name.

    Raises:
        SparkJobError: PySpark or Java is missing, a jar does not exist, or Spark does not start.
    """
    try:
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra of 400 MB
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SparkJobError(
            "PySpark is not installed: pip install 'kafka-partition-events[spark]'"
        ) from error
    if java() is None:
        raise SparkJobError("Spark needs Java 17 or newer: install it, or let JAVA_HOME name it")
    if missing := [str(jar) for jar in jars if not jar.is_file()]:
        raise SparkJobError(f"these jars do not exist: {', '.join(missing)}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    if jars:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars))
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        raise SparkJobError(f"Spark did not start; is Java 17 or newer the one in use? {error}") from error
