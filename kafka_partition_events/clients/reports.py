"""What both clients' reports have in common: whom they tell what a producer has heard of its records."""

import contextlib
from collections.abc import Iterable, Mapping

from kafka_partition_events.errors import PollerClosedError
from kafka_partition_events.metadata.events import BrokerSuspected, Event
from kafka_partition_events.metadata.listener import name_of
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

Stuck = Mapping[tuple[int, str, int], int | None]
"""Ways, topics and partitions where records wait for a suspect, and who leads there."""


class ProducerReports:
    """Brings what one producer hears to its partitioner, and what follows to listeners. Thread-safe.

    Attributes:
        poller: Whose listeners hear of it; None as long as there is none.
    """

    def __init__(self, partitioner: Partitioner, poller: MetadataPoller | None = None) -> None:
        self.poller = poller
        self._deliveries = partitioner.deliveries
        self._name = name_of(partitioner)

    def heard(self) -> None:
        """Note that all reports have been served that had come in; cheap to call often."""
        self.emit(self._deliveries.heard(self._name))

    def stuck(self) -> Stuck:
        """Return where records wait for a suspect; see `Deliveries.stuck`."""
        return self._deliveries.stuck() if self._deliveries.avoidance else {}

    def emit(self, events: Iterable[Event]) -> None:
        """Hand events to the poller; ask it to look at once if a broker has become suspect."""
        if self.poller is None:
            return
        for event in events:
            self.poller.emit(event)
            if isinstance(event, BrokerSuspected):
                with contextlib.suppress(PollerClosedError):
                    self.poller.refresh(f"broker {event.broker} is suspect")
