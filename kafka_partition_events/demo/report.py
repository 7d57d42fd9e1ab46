"""Let Spark read the topics and write the report."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import asdict

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.demo.ledger import Reconciliation
from kafka_partition_events.demo.scenario import EVENTS


def write_report(
    bootstrap_servers: str, accounts: Sequence[Reconciliation], out: Path, *, note: str
) -> list[str]:
    """Write the report.

    Returns:
        Every topic of which Spark counts something else than was counted here, in words.

    Raises:
        CliError: Spark failed, or the file can't be written.
    """
    from kafka_partition_events.spark.job import run_report  # noqa: PLC0415 - PySpark is an extra of 400 MB

    counters: dict[str, dict[str, dict[str, int]]] = {}
    for account in accounts:
        counters.setdefault(account.producer, {})[account.topic] = asdict(account.told)
    with _jvm_silenced():
        data = run_report(
            bootstrap_servers,
            events_topic=EVENTS,
            data_topics=[account.topic for account in accounts],
            counters=counters,
            out=out,
            note=note,
        )
    differences = []
    for account in accounts:
        stored = data.stored.get(account.topic)
        if (counted := stored.numbers if stored else 0) != account.found.acknowledged:
            differences.append(f"{account.topic}: Spark counts {counted:,} different records in the topic")
    return differences


@contextlib.contextmanager
def _jvm_silenced() -> Iterator[None]:
    """Keep what Spark's JVM writes to standard error for the case that it fails.

    Some of it is written before any setting of Spark's has a say, and would end up in the live display.
    """
    with tempfile.TemporaryFile() as kept:
        stderr = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except Exception as error:
            kept.seek(0)
            last = kept.read().decode(errors="replace").strip().splitlines()[-1:]
            raise CliError(f"Spark made no report: {one_line(error)} {' '.join(last)}".rstrip()) from error
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
