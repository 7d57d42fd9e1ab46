"""How the pipeline is, for Prometheus. Needs the extra ``metrics``."""

import json
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from kafka_partition_events.spark import events
from kafka_partition_events.spark.progress import BatchDone, Progress, Refreshed
from kafka_partition_events.spark.tables.ledger import CONTROL, INGEST

_NAMESPACE: Final = "kpe_spark"


class Metrics(Progress, StreamingQueryListener):
    """Counts what a pipeline tells, and what Spark tells of its queries; passes on the former.

    Give it to `Pipeline` as its progress. Counters begin at 0 with the process.
    """

    def __init__(self, registry: CollectorRegistry, progress: Progress) -> None:
        """Register the metrics.

        Args:
            registry: Whose ``/metrics`` they are on.
            progress: Hears all that is told, too.
        """
        self._progress = progress
        how: dict[str, Any] = {"namespace": _NAMESPACE, "registry": registry}
        of_query = {"labelnames": ("query",), **how}
        self._read = Counter("records", "Records that were read.", **of_query)
        self._bad = Counter(
            "quarantined_records", "Records that are no events of ours.", ("query", "defect"), **how
        )
        self._missing = Counter(
            "missing_offsets", "Offsets that were gone before they were read; markers, too.", **of_query
        )
        self._lag = Gauge(
            "lag_offsets",
            "Offsets that were there when a batch was planned, and are in none yet.",
            **of_query,
        )
        self._batch = Summary(
            "batch_duration_seconds", "How long batches took, planning included.", **of_query
        )
        self._refresh = Summary("refresh_duration_seconds", "How long it took to make tables anew.", **how)
        self._until = Gauge(
            "gold_until_timestamp_seconds", "The last news that is in the tables.", ("kafka_cluster",), **how
        )
        for query in (INGEST, CONTROL):  # from 0 on, or the first of each would be no increase
            self._missing.labels(query)
            for defect in events.DEFECTS:
                self._bad.labels(query, defect)

    # -- what the pipeline tells ---------------------------------------------------------------------

    def step(self, text: str) -> None:
        """Pass it on."""
        self._progress.step(text)

    def batch(self, done: BatchDone) -> None:
        """Count it."""
        counts = done.counts
        self._read.labels(done.query).inc(counts.read)
        self._missing.labels(done.query).inc(counts.missing)
        for defect in events.DEFECTS:
            self._bad.labels(done.query, defect).inc(getattr(counts, defect))
        self._progress.batch(done)

    def refreshed(self, done: Refreshed) -> None:
        """Take its time, and until when the tables are."""
        self._refresh.observe(done.seconds)
        for cluster, until in done.clusters.items():
            self._until.labels(cluster).set(until.timestamp())
        self._progress.refreshed(done)

    # -- what Spark tells, on a thread of its own ----------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Pass over it."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take the time of a batch, and how far it is behind the topics."""
        told = event.progress
        query = str(told.name).removeprefix("kpe-")
        self._batch.labels(query).observe(told.batchDuration / 1_000)
        self._lag.labels(query).set(sum(behind(s.latestOffset, s.endOffset) for s in told.sources))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Pass over it: a pipeline that ends says why."""


def behind(latest: str, end: str) -> int:
    """Return how many offsets of topics lie between two of Spark's offsets of a source; of files none."""
    there, taken = json.loads(latest or "null"), json.loads(end or "null")
    if not isinstance(there, dict) or not isinstance(taken, dict):
        return 0
    return sum(
        max(0, offset - taken.get(topic, {}).get(partition, 0))
        for topic, partitions in there.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    )
