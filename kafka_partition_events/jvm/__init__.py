"""What the test kit and the Spark jobs need of the JVM: Java, Kafka's jars, Spark's Kafka connector, Delta.

Neither Docker nor a Kafka installation is needed. PySpark brings Apache Ivy (without PySpark jgo fetches it),
which fetches the jars that a lock pins (``kafka-4.1.xml``, ``spark.xml``, ...); every jar is checked against
the lock's checksums (``kafka-4.1.sha256``) before it is used. The jars are kept outside the source tree, in
``$XDG_CACHE_HOME/kafka-partition-events`` (by default ``~/.cache``), one directory per content of a lock.

``python -m kafka_partition_events.jvm`` fetches them ahead of time.
"""

import functools
import os
from pathlib import Path

from kafka_partition_events.errors import JvmError
from kafka_partition_events.jvm.ivy import fetch
from kafka_partition_events.jvm.java import JAVA_MISSING, find_java
from kafka_partition_events.jvm.store import JarStore

__all__ = [
    "JAVA_MISSING",
    "KAFKA_VERSIONS",
    "SPARK",
    "ensure_jars",
    "jar_store",
    "java",
    "kafka_classpath",
    "kafka_lock",
    "spark_jars",
]

KAFKA_VERSIONS = ("3.7", "3.9", "4.0", "4.1")
"""The versions of Kafka that there are locks of, oldest first."""

SPARK = "spark"
"""The lock of Spark's Kafka connector and of Delta."""

_HERE = Path(__file__).parent


def java() -> Path | None:
    """Return the ``java`` to use: version 17 or newer, from ``JAVA_HOME`` or else from ``PATH``.

    None when there is none. The first check of an executable runs ``java -version`` (about 0.1 s); its
    answer is remembered.
    """
    return find_java(os.environ)


def kafka_lock(version: str | None = None) -> str:
    """Return the name of the lock of a version of Kafka.

    Args:
        version: One of `KAFKA_VERSIONS`; None: what the environment variable ``KPE_KAFKA_VERSION`` says, and
            the newest where it is not set.

    Raises:
        JvmError: there is no such lock.
    """
    version = version or os.environ.get("KPE_KAFKA_VERSION") or KAFKA_VERSIONS[-1]
    if version not in KAFKA_VERSIONS:
        raise JvmError(f"there are no jars of Kafka {version}, only of {', '.join(KAFKA_VERSIONS)}")
    return f"kafka-{version}"


def jar_store(lock: str) -> JarStore:
    """Return the store of the jars of a lock, whether they have been fetched or not."""
    cache = os.environ.get("XDG_CACHE_HOME")
    parent = Path(cache) if cache else Path.home() / ".cache"
    return JarStore.of(
        ivy_file=_HERE / f"{lock}.xml",
        checksums_file=_HERE / f"{lock}.sha256",
        parent=parent / "kafka-partition-events",
    )


def ensure_jars(lock: str) -> Path:
    """Fetch and verify the jars of a lock unless that has been done before, and return their directory.

    Takes about half a minute the first time (Kafka's: 45 MB), some milliseconds afterwards. Safe to call from
    several threads and processes at once: one fetches, the others wait for it.

    Raises:
        JvmError: Java or Ivy is missing, or the download was incomplete or corrupt; the message names
            the jars at fault and how to try again.
    """
    return jar_store(lock).ensure(functools.partial(fetch, java=java()))


def kafka_classpath(version: str | None = None) -> str:
    """Return the class path of a Kafka server, fetching the jars first if need be.

    Raises:
        JvmError: as `kafka_lock` and `ensure_jars`.
    """
    # The JVM expands the wildcard itself; 46 paths spelled out would hide everything else in `ps`.
    return str(ensure_jars(kafka_lock(version)) / "kafka" / "*")


def spark_jars() -> list[Path]:
    """Return the jars of Spark's Kafka connector and of Delta, for the setting ``spark.jars``.

    They are fetched if need be, and are made for the PySpark of the extra ``spark``.

    Raises:
        JvmError: as `ensure_jars`.
    """
    return sorted((ensure_jars(SPARK) / "spark").glob("*.jar"))
