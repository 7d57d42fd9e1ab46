"""``kpe version``: what a bug report needs to know."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import kafka_partition_events
from kafka_partition_events.cli.common.output import write_line

_BESIDE: Final = ("confluent-kafka", "kafka-python", "pyspark", "prometheus-client", "attrs", "structlog")


def version_command() -> None:
    """Show the versions of this library, the Kafka clients, Python and the system.

    \b
    kpe version

    Exit code: 0.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
    for name, number in versions():
        write_line(f"{name:<24}{number}")


def versions() -> Iterator[tuple[str, str]]:
    """Yield the name and the version of each thing that may matter for a bug."""
    yield "kafka-partition-events", kafka_partition_events.__version__
    for name in _BESIDE:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"
    yield "librdkafka", _librdkafka()
    yield "Python", f"{platform.python_implementation()} {sys.version.split()[0]}"
    yield "system", platform.platform()


def _librdkafka() -> str:
    try:
        from confluent_kafka import libversion  # noqa: PLC0415 - it comes with an extra
    except ImportError:
        return "not installed"
    return str(libversion()[0])
