"""A listener that posts events to a URL, for processes that have no observer beside them."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import httpx
from attrs import field, frozen
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.cloudevents import TYPE_PREFIX
from kafka_partition_events.events.entries import to_entry
from kafka_partition_events.events.names import NAMES, is_churn, name_of
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.events import Event, PartitionOffline, Resync
from kafka_partition_events.outbox import Deliverer, MemoryQueue, RetryPolicy, Stream, Write
from kafka_partition_events_listeners.cloudevents_listener import CloudEventsListener
from kafka_partition_events_listeners.webhook.egress import Egress
from kafka_partition_events_listeners.webhook.sink import WebhookSink

_log = get_logger(__name__)


@frozen(kw_only=True)
class WebhookStats:
    """What became of the events so far.

    Attributes:
        state: What the delivery is doing: ``delivering``, ``idle``, ``backing_off`` after a failure, ``open``
            after many, or ``off``, when the target wants nothing any more (HTTP 410).
        delivered: Events that the target took.
        waiting: Events that it has not got yet.
        dropped: Events that are lost, because too many were waiting.
        refused: Events that the target declined for good, or that were too old when it came back.
        failures: Tries that failed, by reason, such as ``timeout`` or ``http_503``.
    """

    state: str
    delivered: int
    waiting: int
    dropped: int
    refused: int
    failures: Mapping[str, int] = field(factory=dict)


class WebhookListener(CloudEventsListener):
    """Posts events to a URL as they happen: no hold-down, no grouping; that is for `kpe observe`.

    Events wait in memory, on their way to a thread of the listener's own, so a target that is slow or dead
    holds up nobody. They are posted in order and at least once, with growing pauses after failures; what
    still waits when the process ends is lost. See `WebhookSink` for what is sent and what answers mean.

    Registered with one poller at a time. A forked child posts what it hears itself, over connections of its
    own; what waits at the time of the fork is the parent's to post. `stats` may be read from any thread, also
    after `close`.
    """

    def __init__(
        self,
        url: str,
        *,
        events: Iterable[str] | None = None,
        name: str = "webhook",
        format: str = "cloudevents",  # noqa: A002 - the word that users know
        template: str | None = None,
        runbook_url: str | None = None,
        secrets: Iterable[str] = (),
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        batch: int = 1,
        allow_private: bool = False,
        egress: Egress | None = None,
        redact: Iterable[str] = (),
        transport: httpx.BaseTransport | None = None,
        retry: RetryPolicy | None = None,
        max_entries: int = 10_000,
        drain_timeout: float = 5.0,
        observer: str | None = None,
        type_prefix: str = TYPE_PREFIX,
    ) -> None:
        """Make a listener; nothing is connected to before the first event.

        Args:
            url: Where to post.
            events: Names of events to post, or patterns of them, such as ``partition.*``; by default all but
                leaders and replica sets that moved. What merely tells the state that the listener found, or
                that a forked child begins with, is never posted, except for partitions that it found offline.
            name: How logs call it.
            format: As for `WebhookSink`, and so are the next ten.
            template: See there.
            runbook_url: See there.
            secrets: See there.
            headers: See there.
            timeout: See there.
            batch: See there.
            allow_private: See there.
            egress: See there.
            redact: See there.
            transport: See there. A forked child uses it, too: let it keep no connection alive.
            retry: How patient to be with the target.
            max_entries: How many events may wait; beyond that the oldest are dropped, and counted.
            drain_timeout: Seconds that `close` waits for deliveries.
            observer: The name of this observer, for ``data.observer``; useful when there are several.
            type_prefix: What comes before the name in the CloudEvents ``type``.

        Raises:
            ConfigurationError: an argument is of no use; the message names it.
        """
        super().__init__(observer=observer, type_prefix=type_prefix)
        if drain_timeout < 0:
            raise ConfigurationError(f"drain_timeout must not be negative, but is {drain_timeout} s")
        self.name = name
        self._patterns = None if events is None else _checked(events)
        self._drain_timeout = drain_timeout
        sink = WebhookSink(
            url,
            name=name,
            stream=Stream.EVENTS,
            format=format,
            template=template,
            runbook_url=runbook_url,
            secrets=secrets,
            headers=headers,
            timeout=timeout,
            batch=batch,
            allow_private=allow_private,
            egress=egress,
            redact=redact,
            transport=transport,
        )
        self._outbox = MemoryQueue(max_entries)
        self._deliverer = Deliverer(self._outbox, sink, retry=retry)
        self._reader = name

    @property
    def stats(self) -> WebhookStats:
        """What became of the events so far."""
        delivery, reader = self._deliverer.stats, self._outbox.stats(self._reader)
        return WebhookStats(
            state=delivery.state,
            delivered=delivery.delivered,
            waiting=reader.waiting,
            dropped=reader.dropped,
            refused=reader.dead,
            failures=delivery.failures,
        )

    def wants(self, event: Event) -> bool:
        """Tell whether an event is posted."""
        if event.initial and not isinstance(event, PartitionOffline):
            return False
        if isinstance(event, Resync) and not event.dropped:  # nothing was missed: a child begins with it
            return False
        name = name_of(event)
        if self._patterns is None:
            return not is_churn(name)
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def on_cloudevent(self, event: Event, cloudevent: CloudEvent) -> None:
        """Let the event wait for its delivery. Never waits itself."""
        self._deliverer.start()
        self._outbox.write(Write(entries=[to_entry(event, cloudevent)]))

    def close(self) -> None:
        """Wait for deliveries, for ``drain_timeout`` seconds at most."""
        self._deliverer.close(self._drain_timeout)
        # The outbox stays open: it holds nothing but memory, and `stats` reads it.
        if waiting := self._outbox.stats(self._reader).waiting:
            _log.error("webhook_abandoned", sink=self._reader, events=waiting)


def _checked(events: Iterable[str]) -> frozenset[str]:
    patterns = frozenset([] if isinstance(events, str) else events)
    if not patterns:
        raise ConfigurationError(f'events must be names or patterns such as ["partition.*"], not {events!r}')
    unknown = [p for p in sorted(patterns) if not any(fnmatchcase(name, p) for name in NAMES)]
    if unknown:  # not an error: applications may emit events of their own
        _log.warning("webhook_events_unknown", events=unknown)
    return patterns
