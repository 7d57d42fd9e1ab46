"""Brings what one producer learns of its records to the failure detector, and what follows to listeners."""

import contextlib
from collections.abc import Iterable

from kafka_partition_events.clients.flight.copies import Stuck
from kafka_partition_events.clients.flight.record import Attempt
from kafka_partition_events.errors import PollerClosedError
from kafka_partition_events.metadata.events import BrokerSuspected, Event
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.routing.table import Route


class ProducerReports:
    """What one producer reports to the failure detector that its partitioner shares. Thread-safe."""

    def __init__(self, partitioner: Partitioner, poller: MetadataPoller | None = None) -> None:
        self.poller = poller  # publishes the events that follow; None as long as there is none
        self.deliveries = partitioner.deliveries  # which knows the suspects
        self._producer = self.deliveries.new_producer()

    def sent(self, attempt: Attempt, route: Route, *, sampled: bool = False) -> None:
        """Note an attempt that is handed to the client, soon or a moment ago; see `FailureDetector.sent`."""
        info = route.info.partitions[attempt.partition]
        where, by = (attempt.topic, attempt.partition), (attempt.handle, self._producer)
        self.deliveries.sent(*where, info.leader, info.followers, *by, sampled=sampled)

    def withdrawn(self, attempt: Attempt) -> None:
        """Take `sent` back: the client did not take it, or it is reported elsewhere."""
        self.deliveries.withdrawn(attempt.topic, attempt.partition, attempt.handle, self._producer)

    def answered(self, attempt: Attempt, latency_s: float) -> None:
        """Note that a broker answered, well or not, so many seconds after the attempt was sent."""
        by = attempt.handle, self._producer
        self.emit(self.deliveries.answered(attempt.topic, attempt.partition, latency_s, *by))

    def failed(self, attempt: Attempt) -> None:
        """Note that the client gave an attempt up without an answer."""
        self.emit(self.deliveries.failed(attempt.topic, attempt.partition, attempt.handle, self._producer))

    def unreachable(self, broker: int) -> None:
        """Note that the client lost its connection to a broker, or could not make one."""
        self.emit(self.deliveries.unreachable(broker))

    def ended(self) -> None:
        """Note that nothing will be reported any more: the producer was closed, or dropped."""
        self.deliveries.producer_ended(self._producer)

    def has_in_flight(self, broker: int) -> bool:
        """Return whether a tracked record is in flight to a partition that a broker leads."""
        cluster = None if self.poller is None else self.poller.cluster
        in_flight = self.deliveries.stats.outstanding
        return cluster is not None and any(
            count and (info := cluster.partition(place)) is not None and info.leader == broker
            for place, count in in_flight.items()
        )

    def polled(self) -> None:
        """Note that all reports that had come in were served; cheap to call often."""
        if events := self.deliveries.polled():
            self.emit(events)

    def stuck(self) -> Stuck:
        """Return where records wait for a suspect."""
        return self.deliveries.stuck() if self.deliveries.avoiding else {}

    def emit(self, events: Iterable[Event]) -> None:
        """Hand events to the poller; ask for a poll at once if a broker has become suspect."""
        if (poller := self.poller) is None:
            return
        for event in events:
            poller.emit(event)
            if isinstance(event, BrokerSuspected):
                with contextlib.suppress(PollerClosedError):
                    poller.refresh()
