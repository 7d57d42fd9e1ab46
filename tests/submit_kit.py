"""Programs under a real spark-submit, as on a cluster."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

import kafka_partition_events
from kafka_partition_events.jvm import spark_jars
from kafka_partition_events.spark.session import DELTAS
from tests.fleet_kit import BRIEF_JVM

SCRIPT = Path(kafka_partition_events.__file__).parent / "spark" / "submit" / "kpe_spark.py"
"""What spark-submit runs: ``kpe spark ...`` on the Spark that it gives."""


def submit(*arguments: str, env: Mapping[str, str] = BRIEF_JVM) -> "subprocess.CompletedProcess[str]":
    """Run a program and its arguments; what it writes is all in ``stdout``."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    # spark.sql.shuffle.partitions: 200 is for clusters, and takes minutes here.
    settings = ("--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2")
    return subprocess.run(
        [str(program), *settings, "--conf", "spark.ui.enabled=false", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # spark-submit puts both of Python's into its own standard output
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **env, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
    )


def connector() -> list[str]:
    """Return the options that bring Spark's Kafka connector and Delta, without asking a repository."""
    settings = [word for name, value in DELTAS.items() for word in ("--conf", f"{name}={value}")]
    return ["--jars", ",".join(map(str, spark_jars())), *settings]
