"""A cluster as one process sees it: polled, with what is wrong and the last events."""

from collections import deque
from typing import Final

from kafka_partition_events.cli.cluster.top_view import Look
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import MetadataSource
from kafka_partition_events.observe.alert_board import AlertBoard
from kafka_partition_events.observe.probes import silent_after

_KEPT: Final = 200


class Watched(PartitionChangeListener):
    """Polls a cluster from its making to `close`. Thread-safe."""

    name = "top"

    def __init__(self, source: MetadataSource, *, name: str, interval: float, clock: Clock) -> None:
        """Begin to poll.

        Args:
            source: Where metadata comes from; closed with this.
            name: What the cluster is called.
            interval: Seconds between polls when all is well.
            clock: Tells the time.
        """
        self._called, self._clock = name, clock
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._poller = MetadataPoller(source, interval=interval, fetch_timeout=FIRST_ANSWER_S, clock=clock)
        self._board = AlertBoard(
            self._poller,
            cluster=lambda: name,
            silent_after=silent_after(interval, FIRST_ANSWER_S),
            holds={},
            known=None,
            clock=clock,
        )
        self._poller.register(self._board)
        self._poller.register(self)
        self._poller.start()

    def on_event(self, event: Event) -> None:
        """Keep it, unless it is what the first snapshot had."""
        if not event.initial:
            self._events.append(event)

    def look(self) -> Look:
        """Return what is known now."""
        return Look(
            name=self._called,
            cluster=self._poller.cluster,
            health=self._poller.health,
            board=self._board.read(),
            events=tuple(self._events.copy()),
            now=self._clock.monotonic(),
        )

    def close(self) -> None:
        """Stop polling. Idempotent."""
        self._poller.close(timeout=1.0)
