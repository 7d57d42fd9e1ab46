"""A listener that keeps what it hears."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicPartition
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener

AnyEvent = TypeVar("AnyEvent", bound=Event)


class RecordingListener(PartitionChangeListener):
    """Keeps every event and every KIP-34 call, in order. Thread-safe."""

    def __init__(self, name: str | None = None) -> None:
        """Make a listener.

        Args:
            name: How logs and thread names call it.
        """
        self.name = name
        self._events: list[Event] = []
        self._changes: list[tuple[Cluster, Mapping[TopicPartition, PartitionInfo]]] = []
        self._closed = 0
        self._heard = threading.Condition()

    def on_event(self, event: Event) -> None:
        """Keep the event."""
        with self._heard:
            self._events.append(event)
            self._heard.notify_all()

    def on_partitions_change(
        self, cluster: Cluster, partitions_changed: Mapping[TopicPartition, PartitionInfo]
    ) -> None:
        """Keep the call's arguments."""
        with self._heard:
            self._changes.append((cluster, partitions_changed))
            self._heard.notify_all()

    def close(self) -> None:
        """Count the call."""
        with self._heard:
            self._closed += 1
            self._heard.notify_all()

    @property
    def events(self) -> tuple[Event, ...]:
        """The events so far."""
        with self._heard:
            return tuple(self._events)

    @property
    def changes(self) -> tuple[tuple[Cluster, Mapping[TopicPartition, PartitionInfo]], ...]:
        """The calls of `on_partitions_change` so far, as (cluster, partitions_changed)."""
        with self._heard:
            return tuple(self._changes)

    @property
    def closed(self) -> int:
        """How often `close` was called."""
        with self._heard:
            return self._closed

    def kinds(self) -> list[str]:
        """Return the kind of each event so far."""
        return [event.kind for event in self.events]

    def of(self, cls: type[AnyEvent]) -> list[AnyEvent]:
        """Return the events of one class so far."""
        return [event for event in self.events if isinstance(event, cls)]

    def clear(self) -> None:
        """Forget events and calls."""
        with self._heard:
            self._events.clear()
            self._changes.clear()

    def wait_for(
        self, wanted: int | Callable[[Sequence[Event]], bool], timeout: float = 10.0
    ) -> tuple[Event, ...]:
        """Wait, in real time, for a number of events or until a test on all of them holds.

        Args:
            wanted: How many events, or a function of the events so far.
            timeout: Real seconds after which to give up.

        Returns:
            The events so far.

        Raises:
            TimeoutError: it did not come; the message lists what came instead.
        """

        def satisfied() -> bool:
            return len(self._events) >= wanted if isinstance(wanted, int) else wanted(self._events)

        with self._heard:
            if not self._heard.wait_for(satisfied, timeout):
                heard = ", ".join(event.kind for event in self._events) or "nothing"
                raise TimeoutError(f"waited {timeout} s in vain; heard so far: {heard}")
            return tuple(self._events)
