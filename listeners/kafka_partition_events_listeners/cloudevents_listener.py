"""The base of listeners that pass events on as CloudEvents."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.digests import Observed
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event, MetadataRecovered
from kafka_partition_events.metadata.listener import PartitionChangeListener

Labels = Callable[[Event], Mapping[str, Any]]
"""Returns what else ``data`` of an event is to say; called once for each event, and must not raise."""


class ObservingListener(PartitionChangeListener):
    """Hands each event to `on_observed`, with what its observer adds to it. One poller at a time."""

    def __init__(
        self, *, observer: str | None = None, labels: Labels | None = None, clock: Clock | None = None
    ) -> None:
        """Make a listener.

        Args:
            observer: The name of this observer, for ``data.observer``; useful when there are several.
            labels: What else to say of each event; on the thread that receives it.
            clock: Gives the time at which an event is recorded; the system's by default.
        """
        self._observer = observer
        self._labels: Labels = labels or (lambda _event: {})
        self._clock = clock or Clock()
        self._blind_from: datetime | None = None

    @abstractmethod
    def on_observed(self, observed: Observed) -> None:
        """Hear of an event."""

    def on_event(self, event: Event) -> None:
        """Add what the observer knows of it and hand it over."""
        if isinstance(event, MetadataRecovered):
            # It is the first event of a poll; whatever else that poll found has the same beginning.
            self._blind_from = event.previous_at
        recorded_at = self._clock.now().astimezone(UTC)
        blind, labels = self._blind(event), self._labels(event)
        self.on_observed(Observed(event=event, recorded_at=recorded_at, blind=blind, labels=labels))

    def _blind(self, event: Event) -> bool:
        # What the gate had doubted for some polls, such as a deletion, may begin before the blind time does.
        began, blind_from = event.previous_at, self._blind_from
        return began is not None and blind_from is not None and began <= blind_from


class CloudEventsListener(ObservingListener):
    """Hands each event to `on_cloudevent`, with a CloudEvent made of it. One poller at a time."""

    @abstractmethod
    def on_cloudevent(self, event: Event, cloudevent: CloudEvent) -> None:
        """Hear of an event, with the CloudEvent that was made of it."""

    def on_observed(self, observed: Observed) -> None:
        """Make the CloudEvent and hand it over."""
        self.on_cloudevent(observed.event, observed.cloudevent(self._observer))
