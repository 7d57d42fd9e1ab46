"""A sink that posts entries to a URL."""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import httpx

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.names import NAMES, is_churn
from kafka_partition_events.json_text import json_in
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.outbox import DeliveryError, Entry
from kafka_partition_events.outbox.sink import DECLINES
from kafka_partition_events_listeners.webhook.client import Target, Way
from kafka_partition_events_listeners.webhook.signature import key_of, signed_headers
from kafka_partition_events_listeners.webhook.template import WebhookTemplate

REFUSED_AFTER: Final = 3
"""How often a target must decline an entry before it is not tried again."""

_CURES: Final = {
    401: "; check the credentials in its headers or URL",
    403: "; check the rights of its credentials",
    404: "; check its URL",
    407: "; a proxy wants credentials: check the login in proxy",
}
_OURS: Final = re.compile(r"webhook-.*|proxy-.*|host|content-length|transfer-encoding|connection")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_log = get_logger(__name__)


class WebhookSink:
    """Posts entries to a URL: CloudEvents, or what a template makes of them; signed if there are secrets.

    A 2xx answer is a delivery. 400, 413, 415 and 422 decline an entry, and the
    third time it is refused. Whatever else goes wrong is tried again, after ``Retry-After`` if the target
    says so, and nothing is given up for it: 401, 403 or 404, a certificate or a proxy are cured by an
    operator. Redirects are not followed. At least once: a receiver knows duplicates by the header
    ``webhook-id``, which is the CloudEvent's id.

    The URL is the operator's word: whatever it leads to is posted to. URL, headers and secrets go to
    the target only: not into logs, errors or ``repr``.

    Implements `Sink`: one thread at a time.
    """

    batch = 1

    def __init__(
        self,
        url: str,
        *,
        name: str = "webhook",
        events: Iterable[str] | None = None,
        template: str | None = None,
        secrets: Iterable[str] = (),
        headers: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        **way: Any,
    ) -> None:
        """Make a sink; nothing is connected to yet.

        Args:
            url: Where to post. The path may hold a token; user and password may not.
            name: How configuration, metrics and logs call it.
            events: Names of events to post, or patterns of them, such as ``partition.*``; by default all but
                what comes by the thousand (`is_churn`). What merely states what was found at first sight is
                never posted, except for partitions that were found offline.
            template: A Jinja2 template in place of the CloudEvent; see `WebhookTemplate`.
            secrets: To sign with, each ``whsec_`` and base64; all are used, so that one can be replaced.
            headers: To send along, such as ``Authorization``; ``Content-Type`` takes the place of ours.
            clock: Gives the time of a signature; the system's by default.
            way: ``timeout``, ``proxy``, ``ca_file``, ``client_cert``, ``client_key``; see `Way`.

        Raises:
            ConfigurationError: an argument is of no use; the message names it.
        """
        self.name = name
        self._patterns = None if events is None else checked_events(events)
        self._template = None if template is None else WebhookTemplate(template)
        self._keys = [key_of(secret) for secret in secrets]
        sent = _checked(headers or {})
        plain = "application/cloudevents+json" if template is None else "application/json"
        self._content_type = sent.pop("content-type", plain)
        self._target = Target(url, Way(headers=sent, **way))
        self._clock: Clock = clock or Clock()
        self._declined = ("", 0)

    def __repr__(self) -> str:
        return f"WebhookSink({self._target.shown!r}, name={self.name!r})"

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Post an entry; one that is not asked for passes for delivered.

        Raises:
            DeliveryError: it was not taken. Its reason is ``http_`` and the status, ``redirect``,
                ``timeout``, ``connect``, ``tls``, ``proxy`` or ``format``.
        """
        (entry,) = entries
        if not self._wants(entry):
            return
        body = self._written(entry)
        timestamp = int(self._clock.now().timestamp())
        headers = signed_headers(entry.id, timestamp, body, self._keys)
        response = self._target.post(body, {"content-type": self._content_type, **headers})
        if not response.is_success:
            raise self._failure(response, entry)

    def close(self) -> None:
        """Close all connections."""
        self._target.close()

    def _wants(self, entry: Entry) -> bool:
        if self._patterns is None:
            asked = not is_churn(entry.name)
        else:
            asked = any(fnmatchcase(entry.name, pattern) for pattern in self._patterns)
        return asked and (entry.name == "partition.offline" or not _is_initial(entry))

    def _written(self, entry: Entry) -> bytes:
        try:
            return entry.body if self._template is None else self._template.render(entry)
        except Exception as error:  # a template of the operator's: it may fit the next one
            raise DeliveryError(
                f"{self.name}: {entry.name} can't be written: {error}", reason="format", refused=True
            ) from error

    def _failure(self, response: httpx.Response, entry: Entry) -> DeliveryError:
        status = response.status_code
        redirect = 300 <= status < 400
        cure = _CURES.get(status, "")
        if redirect:
            cure = "; redirects are not followed: configure the URL that it leads to"
        reason = "redirect" if redirect else f"http_{status}"
        return DeliveryError(
            f"{self.name}: {self._target.shown} answered {status}{cure}",
            reason=reason,
            retry_after=retry_after_s(response.headers.get("retry-after")),
            refused=reason in DECLINES and self._times_declined(entry) >= REFUSED_AFTER,
        )

    def _times_declined(self, entry: Entry) -> int:
        id_, times = self._declined
        self._declined = (entry.id, times + 1 if id_ == entry.id else 1)
        return self._declined[1]


def checked_events(events: Iterable[str]) -> frozenset[str]:
    """Return patterns of event names; warn of those that match none of ours.

    Raises:
        ConfigurationError: there are none.
    """
    patterns = frozenset([] if isinstance(events, str) else events)
    if not patterns:
        raise ConfigurationError(f'events must be names or patterns such as ["partition.*"], not {events!r}')
    unknown = [p for p in sorted(patterns) if not any(fnmatchcase(name, p) for name in NAMES)]
    if unknown:  # not an error: applications may emit events of their own
        _log.warning("webhook_events_unknown", events=unknown)
    return patterns


def retry_after_s(value: str | None) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for; None if it asks for no number of them.

    A date is not: by RFC 9110, section 10.2.3, it may stand there, but it is of another clock.
    """
    return float(value) if value is not None and re.fullmatch(r"[0-9]{1,9}", value) else None


def _is_initial(entry: Entry) -> bool:
    if b'"initial"' not in entry.body:
        return False
    event = json_in(entry.body)
    data = event.get("data") if isinstance(event, dict) else None
    return isinstance(data, dict) and data.get("initial") is True


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _OURS.fullmatch(name.lower()):
            raise ConfigurationError(f"headers may not set {name!r}")
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(f"headers[{name!r}] must be printable ASCII, on one line")
    return {name.lower(): value for name, value in headers.items()}
