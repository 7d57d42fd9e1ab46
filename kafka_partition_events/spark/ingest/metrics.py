"""How the pipeline is, for Prometheus. Needs the extra ``metrics``."""

from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary

from kafka_partition_events.spark import events
from kafka_partition_events.spark.progress import Progress, Refreshed
from kafka_partition_events.spark.tables.state import CONTROL, INGEST

_NAMESPACE: Final = "kpe_spark"


class IngestMetrics(Progress):
    """Counts what a pipeline reports, and passes it on.

    Give it to `Pipeline` as its progress. Counters begin at 0 with the process.
    """

    def __init__(self, registry: CollectorRegistry, progress: Progress) -> None:
        """Register the metrics in a registry; ``progress`` gets all reports, too."""
        self._progress = progress
        how: dict[str, Any] = {"namespace": _NAMESPACE, "registry": registry}
        of_query = {"labelnames": ("query",), **how}
        self._read = Counter("records", "Records that were read.", **of_query)
        of_defect = {**how, "labelnames": ("query", "defect")}
        self._bad = Counter("quarantined_records", "Records that are no events of ours.", **of_defect)
        missing = "Offsets that were gone before they were read; markers, too; none of a compacted topic."
        self._missing = Counter("missing_offsets", missing, **of_query)
        lag = "Offsets that were there when a batch was planned, and are in none yet."
        self._lag = Gauge("lag_offsets", lag, **of_query)
        self._refresh = Summary("refresh_duration_seconds", "How long it took to refresh tables.", **how)
        of_cluster = {**how, "labelnames": ("kafka_cluster",)}
        self._until = Gauge(
            "gold_until_timestamp_seconds", "The last news that is in the tables.", **of_cluster
        )
        for query in (INGEST, CONTROL):  # from 0 on, or the first of each would be no increase
            self._missing.labels(query)
            for defect in events.DEFECTS:
                self._bad.labels(query, defect)

    def report(self, what: str | Refreshed) -> None:
        """Count what a refresh has taken up, and pass it on."""
        if isinstance(what, Refreshed):
            for query, counts in what.counts.items():
                self._read.labels(query).inc(counts.read)
                self._missing.labels(query).inc(counts.missing)
                for defect in events.DEFECTS:
                    self._bad.labels(query, defect).inc(getattr(counts, defect))
            for query, behind in what.behind.items():
                self._lag.labels(query).set(behind)
            self._refresh.observe(what.seconds)
            for cluster, until in what.clusters.items():
                self._until.labels(cluster).set(until.timestamp())
        self._progress.report(what)
