"""What Spark raises, with a JVM beside it and without one."""

from typing import Final

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
except ImportError:  # there is no JVM beside a client of Spark Connect
    Py4JJavaError = PySparkException

SPARK_ERRORS: Final = (PySparkException, Py4JJavaError)
"""Whatever PySpark raises itself, and what comes through from the JVM as it is."""
