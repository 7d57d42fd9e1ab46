"""Prometheus' Alertmanager, by its API v2: an incident here is an alert there for as long as it lasts.

Alertmanager forgets an alert that it is not told again. So what is open is posted again every so often, each
time with an end some intervals ahead; an observer that dies, or that another one takes over from, leaves
nothing behind that would fire for ever. What is open stands in the outbox, so a restart begins with it.

Source: https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.incidents.reminders import reminders_in
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.outbox import DeliveryError, Entry, Journal, Stream
from kafka_partition_events_listeners.webhook.alerts import (
    annotations_of,
    labels_of,
    subject_of,
    times_of,
)
from kafka_partition_events_listeners.webhook.payload import Payload
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from kafka_partition_events_listeners.webhook.wording import News, read

INTERVALS: Final = 4
"""How many intervals ahead an alert ends: as many as Prometheus takes. Three posts in a row may fail."""

_PATH: Final = "/api/v2/alerts"

_log = get_logger(__name__)


class AlertmanagerSink:
    """Posts alerts to one or several Alertmanagers, again and again while they last.

    Each of several gets everything, as Prometheus does it: they agree among themselves who notifies. An
    entry is delivered when at least one has taken it. One that was down meanwhile learns what is open by the
    next repetition, and of what has ended by the end that it was told last. When none takes it, it waits and
    is tried again, see `WebhookSink` for what answers mean.

    The labels are ``alertname``, ``kafka_cluster``, ``severity``, ``broker`` or ``topic``, ``incident_id``:
    the same from the beginning to the end. If an incident gets graver, it goes on as another alert, and the
    former one ends by itself. What neither begins nor ends (a topic was deleted) is no alert: it is passed
    over.

    Implements `RepeatingSink`: one thread at a time.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        name: str = "alertmanager",
        repeat_interval: float = 60.0,
        runbook_url: str | None = None,
        clock: Clock | None = None,
        **http: Any,
    ) -> None:
        """Make a sink; nothing is connected to yet.

        Args:
            urls: Where the Alertmanagers are, such as ``http://alertmanager:9093``, with their prefix if they
                have one.
            name: How configuration, metrics and logs call it.
            repeat_interval: Seconds after which what is open is posted again.
            runbook_url: Where it is written what to do: an annotation.
            clock: Tells when to post again; the system's by default.
            http: Further arguments of `WebhookSink`, such as ``headers`` and ``timeout``.

        Raises:
            ConfigurationError: an argument is of no use; the message names it.
        """
        if not urls:
            raise ConfigurationError("urls must name at least one Alertmanager")
        if repeat_interval <= 0:
            raise ConfigurationError(f"repeat_interval must be more than 0 seconds, not {repeat_interval}")
        self.name = name
        self.stream = Stream.INCIDENTS
        self.batch = 1
        self._runbook_url = runbook_url
        self._interval = repeat_interval
        self._clock: Clock = clock or SystemClock()
        self._due = self._clock.monotonic()
        self._targets = [
            WebhookSink(
                url.rstrip("/").removesuffix(_PATH) + _PATH,
                name=name,
                stream=self.stream,
                write=self._written,
                clock=self._clock,
                **http,
            )
            for url in urls
        ]
        self._failing: set[int] = set()

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Post the alert of each entry.

        Raises:
            DeliveryError: no Alertmanager has taken it; its reason is as `WebhookSink` has it.
        """
        for delivered, entry in enumerate(entries):
            try:
                self._post([entry])
            except DeliveryError as error:
                error.delivered = delivered
                raise

    def repeat(self, journal: Journal, /) -> bool:
        """Post what is open, if it is time for that; tell whether anything was posted.

        Args:
            journal: Where it stands what is open.

        Raises:
            DeliveryError: no Alertmanager has taken it.
            OutboxError: the outbox can't be read.
        """
        now = self._clock.monotonic()
        if now < self._due:
            return False
        standing = reminders_in(journal, self._clock.now())
        if standing:
            self._post(standing)
        self._due = now + self._interval
        return bool(standing)

    def close(self) -> None:
        """Close all connections."""
        for target in self._targets:
            target.close()

    # -- inside ----------------------------------------------------------------------------------------

    def _post(self, entries: Sequence[Entry]) -> None:
        """Post to all at the same time, so that one that does not answer holds up none of the others."""
        with ThreadPoolExecutor(len(self._targets), thread_name_prefix=f"kpe-{self.name}") as threads:
            failures = [*threads.map(lambda target: _failure(target, entries), self._targets)]
        errors = [error for error in failures if error is not None]
        if len(errors) == len(failures):
            raise min(errors, key=lambda error: (error.refused, error.gone))  # one that may take it yet
        self._note(failures)

    def _note(self, failures: Sequence[DeliveryError | None]) -> None:
        """Log who misses something that others have, once."""
        failing = {place: error for place, error in enumerate(failures) if error is not None}
        for place in failing.keys() - self._failing:
            _log.warning("alertmanager_misses_alerts", sink=self.name, error=str(failing[place]))
        if self._failing and not failing:
            _log.info("alertmanagers_have_all_alerts", sink=self.name)
        self._failing = set(failing)

    def _written(self, entries: Sequence[Entry], /) -> Payload | None:
        told = [news for news in map(read, entries) if subject_of(news) is not None]
        alerts = [self._alert(news) for news in told]
        return Payload(body=json.dumps(alerts).encode(), content_type="application/json") if alerts else None

    def _alert(self, news: News) -> dict[str, Any]:
        times = times_of(news)
        if not news.closed:
            times["endsAt"] = encode_time(self._clock.now() + timedelta(seconds=INTERVALS * self._interval))
        return {
            "labels": {**labels_of(news), "incident_id": str(subject_of(news))},
            "annotations": annotations_of(news, self._runbook_url),
            **times,
        }


def _failure(target: WebhookSink, entries: Sequence[Entry]) -> DeliveryError | None:
    try:
        target.deliver(entries)
    except DeliveryError as error:
        return error
    return None
