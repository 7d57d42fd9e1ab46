"""What both collectors have in common: a scrape that a bug can make poorer, but not break."""

import threading
import traceback
from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events_listeners.prometheus_families import Reading

_log = get_logger(__name__)

Part = Callable[[], Iterable[Reading | Metric]]
"""Reads some families; a `Metric` has been made before."""


class Scraper:
    """Runs the parts of scrapes and counts those that failed. Thread-safe."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._lock = threading.Lock()
        self._errors = 0
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Replace the lock in a forked child: another scrape may have held it."""
        self._lock = threading.Lock()

    @property
    def errors(self) -> int:
        """How many parts have failed so far."""
        with self._lock:
            return self._errors

    def run(self, parts: Iterable[Part], kafka_cluster: str) -> list[Metric]:
        """Return the metrics of all parts but those that fail."""
        metrics: list[Metric] = []
        for part in parts:
            try:
                metrics += [
                    found
                    if isinstance(found, Metric)
                    else found[0].metric(self.namespace, kafka_cluster, found[1])
                    for found in part()
                ]
            except Exception as error:  # noqa: BLE001 - one family's bug must not take the others along
                with self._lock:
                    self._errors += 1
                _log.error("scrape_part_failed", error=repr(error), exception=traceback.format_exc())
        return metrics
