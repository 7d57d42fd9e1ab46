"""Looks at the cluster that is changed. Needs confluent-kafka."""

import math
import time
from collections.abc import Mapping
from typing import Any, Final

from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.poller import MetadataPoller

_LOOK_S: Final = 5.0
_FETCH_S: Final = 10.0
_BLIND_AFTER: Final = 3


class Watcher:
    """A poller, and when its snapshot is too old to decide by. Thread-safe.

    Attributes:
        poller: The poller.
    """

    def __init__(self, config: Mapping[str, Any], interval: float) -> None:
        """Make it; nothing is asked before the poller is started.

        Args:
            config: librdkafka's settings; those that say how to connect are used.
            interval: Seconds between two looks.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._needed_from = -math.inf
        self._too_old_s = _BLIND_AFTER * interval + _FETCH_S
        self.poller = MetadataPoller(
            ConfluentMetadataSource(config), interval=interval, fetch_timeout=_FETCH_S
        )

    def refresh(self) -> None:
        """Look now, and wait for the answer for a few seconds; what was seen before counts no more."""
        self._needed_from = time.monotonic()
        self.poller.refresh("the tracker needs it", wait=_LOOK_S)

    def cluster(self) -> Cluster | None:
        """Return what was seen last; None if that is nothing, or too old."""
        seen_at = self.poller.health.last_success
        if seen_at is None or seen_at < self._needed_from or time.monotonic() > seen_at + self._too_old_s:
            return None
        return self.poller.cluster
