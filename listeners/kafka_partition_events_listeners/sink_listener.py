"""A listener that delivers events by a sink, for processes that have no observer beside them."""

import random
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from attrs import evolve, field, frozen
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.cloudevents import to_entry
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import Event, Resync
from kafka_partition_events.outbox import DeliveryError, Entry, RetryPolicy, Sink
from kafka_partition_events.outbox.retry import decide
from kafka_partition_events.process import OwnProcess
from kafka_partition_events_listeners.cloudevents_listener import CloudEventsListener

PATIENCE: Final = RetryPolicy(max_delay=30.0, max_age=600.0)
"""Events are given up after ten minutes: `kpe observe` has more patience."""

_log = get_logger(__name__)


@frozen(kw_only=True)
class SinkStats:
    """What became of the events so far.

    Attributes:
        delivered: Events that the target took, or that were not asked for.
        lost: Events that the target declined for good, or that it did not take in time.
        failures: Tries that failed, by reason, such as ``timeout`` or ``http_503``.
    """

    delivered: int = 0
    lost: int = 0
    failures: Mapping[str, int] = field(factory=dict)


class SinkListener(CloudEventsListener):
    """Delivers events as they happen, by a `KafkaSink`, a `WebhookSink` or one of yours. Not durable.

    ::

        poller.register(SinkListener(WebhookSink("https://hooks.example.com/kafka")))

    What one poll found is delivered together, on the listener's own thread, in order and at least once, with
    growing pauses after failures, for ten minutes at most; what happens meanwhile waits in the poller's
    mailbox of this listener. Where that overflows, `Resync` says so. A slow or dead target holds up no other
    listener. With Kafka, make the topic yourself, with a replication factor that survives the outages that it
    is to report.

    Registered with one poller at a time, in the process that made it. `stats` may be read from any thread.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        retry: RetryPolicy = PATIENCE,
        observer: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make a listener; nothing is sent yet.

        Args:
            sink: What delivers; it is the listener's from now on, which closes it.
            retry: How patient to be with the target.
            observer: The name of this observer, for ``data.observer``; useful when there are several.
            clock: For tests.
        """
        super().__init__(observer=observer, clock=clock)
        self.name = sink.name
        self._sink = sink
        self._retry = retry
        self._process = OwnProcess(type(self).__name__)
        self._pause = threading.Condition()
        self._waiting: list[Entry] = []
        self._stats = SinkStats()

    @property
    def stats(self) -> SinkStats:
        """What became of the events so far."""
        return self._stats

    def on_event(self, event: Event) -> None:
        """Hear of an event; one that says that nothing was missed is none for the sink.

        Raises:
            ForkedError: the listener was made before a fork.
        """
        self._process.check()
        if not isinstance(event, Resync) or event.dropped:
            super().on_event(event)

    def on_cloudevent(self, event: Event, cloudevent: CloudEvent) -> None:
        """Keep it until all that belongs to it is there."""
        self._waiting.append(to_entry(event, cloudevent))

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        """Deliver what is waiting; return when the target has it, or it is given up."""
        waiting, self._waiting = self._waiting, []
        failures, give_up_at = 0, self._clock.monotonic() + self._retry.max_age
        while waiting:
            batch = waiting[: 1 if failures else self._sink.batch]
            error = self._try(batch)
            decision = decide(self._retry, failures, len(batch), error, random.random())
            failures = decision.failures
            self._stats = evolve(self._stats, delivered=self._stats.delivered + decision.delivered)
            del waiting[: decision.delivered]
            if error is None:
                continue
            if decision.refused:
                self._lose([waiting.pop(0)], error)
            elif self._clock.monotonic() + decision.delay > give_up_at:
                self._lose(waiting, error)
                return
            with self._pause:
                self._clock.wait(self._pause, decision.delay)

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()

    def _try(self, batch: list[Entry]) -> DeliveryError | None:
        try:
            self._sink.deliver(batch)
        except DeliveryError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - a bug of the sink's must not cost what is behind it
            found = DeliveryError(repr(error), reason="error", refused=len(batch) == 1)
        else:
            return None
        counted = {**self._stats.failures, found.reason: self._stats.failures.get(found.reason, 0) + 1}
        self._stats = evolve(self._stats, failures=counted)
        return found

    def _lose(self, entries: list[Entry], error: DeliveryError) -> None:
        self._stats = evolve(self._stats, lost=self._stats.lost + len(entries))
        _log.error("events_lost", sink=self.name, events=[entry.name for entry in entries], error=str(error))
