"""A sink that posts entries to a URL."""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, cast

import httpx
from attrs import evolve

from kafka_partition_events import __version__
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.outbox import DeliveryError, Entry, Stream
from kafka_partition_events_listeners.redaction import fields_of, redacted
from kafka_partition_events_listeners.webhook.egress import Egress, address_behind, shown
from kafka_partition_events_listeners.webhook.formats import writer_of
from kafka_partition_events_listeners.webhook.payload import Payload, Selection
from kafka_partition_events_listeners.webhook.signature import key_of, signed_headers
from kafka_partition_events_listeners.webhook.target import (
    CheckedTransport,
    cause_of,
    check_url,
    masked,
)

REFUSED_AFTER: Final = 3
"""How often a target must decline an entry before it is not tried again."""

MOST_READ_BYTES: Final = 64 * 1024
"""How much of an answer is read, so that the connection can be used again; nobody looks at it."""

_GONE: Final = 410
_OF_THE_ENTRY: Final = frozenset({400, 413, 415, 422})
"""What a target says of what it was sent. Whatever else is between 400 and 500 is of the sink: its URL, its
credentials, a proxy; all that waits would be declined alike."""
_CURES: Final = {
    401: "; look at the credentials in its headers or URL",
    403: "; look at the rights of its credentials",
    404: "; look at its URL",
    407: "; a proxy wants credentials: look at the login in proxy",
}
_BATCH_IDS: Final = uuid.UUID("b8f0c1c2-6f0e-5b9d-8f0b-3b7f4f0f6a55")
_OURS: Final = re.compile(r"webhook-.*|proxy-.*|host|content-length|transfer-encoding|connection")
_CREDENTIALS: Final = re.compile(r"authorization|cookie|.*(key|token|secret|password).*")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

_log = get_logger(__name__)


class WebhookSink:
    """Posts entries to a URL, signed if there are secrets, in one of several formats.

    A 2xx answer is a delivery. 410 ends deliveries for good. 400, 413, 415 and 422 decline an entry, and the
    third time it is refused. Whatever else goes wrong is tried again, after ``Retry-After`` if the target
    says so, and nothing is given up for it: 401, 403 or 404, a certificate or a proxy are cured by an
    operator. Redirects are not followed. At least once: a receiver tells doubles by the header
    ``webhook-id``, which is the CloudEvent's id, or for a batch made of those of its events.

    URL, headers and secrets are never told to anybody but the target: not in logs, errors or ``repr``.

    Implements `Sink`: one thread at a time.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "webhook",
        stream: Stream = Stream.INCIDENTS,
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
        clock: Clock | None = None,
        write: Selection | None = None,
    ) -> None:
        """Make a sink; nothing is connected to yet.

        Args:
            url: Where to post. The path may hold a token, as Slack's does; user and password may not.
            name: How configuration, metrics and logs call it.
            stream: The lane to deliver.
            format: ``cloudevents``, ``alertmanager`` (what its webhook receivers take), ``slack``, ``teams``
                or ``template``.
            template: The Jinja2 template, with ``format="template"``; see `WebhookTemplate`.
            runbook_url: Where it is written what to do, for ``format="alertmanager"`` and ``"teams"``.
            secrets: To sign with, each ``whsec_`` and base64; all are used, so that one can be replaced.
            headers: To send along, such as ``Authorization``; ``Content-Type`` takes the place of ours.
            timeout: Seconds for all of a request, from the connection to the last byte of the answer.
            batch: How many entries to post at once; more than 1 with CloudEvents only.
            allow_private: Whether to connect to addresses that are not public; the same as in ``egress``.
            egress: Where requests may go: networks, a proxy, authorities, a client certificate.
            redact: What is left out before anything is written: ``hosts`` of brokers (and with them texts of
                errors, which name them), ``errors``, names of ``observers``.
            transport: What connects in place of `CheckedTransport`; then it decides on addresses, and what
                ``egress`` says beside the check of the URL is its own business.
            clock: Tells the time of a signature; the system's by default.
            write: Writes entries in place of ``format``, also several at once; what it returns None for is
                not posted, and passes for delivered.

        Raises:
            ConfigurationError: an argument is of no use; the message names it.
        """
        if timeout <= 0:
            raise ConfigurationError(f"timeout must be more than 0 seconds, not {timeout}")
        if batch < 1 or (batch > 1 and write is None and format != "cloudevents"):
            raise ConfigurationError(
                f'batch must be 1, or more with format="cloudevents", not {batch} with {format!r}'
            )
        self.name = name
        self.stream = stream
        self.batch = batch
        egress = egress or Egress()
        egress = evolve(egress, allow_private=True) if allow_private else egress
        self._url = check_url(url, egress)
        self._told = masked(self._url) + ("" if egress.way is None else f" through {shown(egress.way)}")
        self._left_out = fields_of(redact)
        self._write: Selection = write or writer_of(
            format, template=template, receiver=name, runbook_url=runbook_url
        )
        self._keys = [key_of(secret) for secret in secrets]
        self._headers = _checked(headers or {})
        self._timeout = timeout
        if sent := self._told_in_clear(egress):
            _warn_of_clear_text(name, masked(self._url), sent)
        self._transport = transport or CheckedTransport(egress)
        self._clock: Clock = clock or SystemClock()
        self._declined = ("", 0)

    def __repr__(self) -> str:
        return f"WebhookSink({masked(self._url)!r}, name={self.name!r})"

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Post entries in order.

        Raises:
            DeliveryError: not all were taken. Its reason is ``http_`` and the status, ``redirect``,
                ``timeout``, ``connect``, ``tls``, ``proxy``, ``address_refused`` or ``format``.
        """
        payload = self._written(entries)
        if payload is None:
            return
        response = self._post(_id(entries), payload)
        if response.is_success:
            return
        if response.status_code in _OF_THE_ENTRY and len(entries) > 1:
            self._deliver_one_by_one(entries)
            return
        raise self._failure(response, entries[0])

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def _told_in_clear(self, egress: Egress) -> tuple[str, ...]:
        """Return what should not go out unencrypted, but does."""
        address = address_behind(self._url.host)
        here = egress.way is None and address is not None and ip_address(address).is_loopback
        if self._url.scheme == "https" or here:
            return ()
        signed = ("what is signed with secrets",) if self._keys else ()
        return (*filter(_CREDENTIALS.fullmatch, self._headers), *signed)

    def _deliver_one_by_one(self, entries: Sequence[Entry]) -> None:
        """Find out which entry of a batch is at fault; the target declines the batch as a whole."""
        for delivered, entry in enumerate(entries):
            try:
                self.deliver([entry])
            except DeliveryError as error:
                error.delivered = delivered
                raise

    def _written(self, entries: Sequence[Entry]) -> Payload | None:
        try:
            return self._write([redacted(entry, self._left_out) for entry in entries])
        except Exception as error:
            # A template of the operator's, or an event that a format can't tell: the next one may do.
            raise DeliveryError(
                f"{self.name}: {entries[0].name} can't be written: {error}", reason="format", refused=True
            ) from error

    def _post(self, id_: str, payload: Payload) -> httpx.Response:
        timestamp = int(self._clock.now().timestamp())
        headers = {
            "user-agent": f"kafka-partition-events/{__version__}",
            "content-type": payload.content_type,
            **self._headers,
            **signed_headers(id_, timestamp, payload.body, self._keys),
        }
        # No httpx.Client: it would log the URL, tokens and all, and keep cookies.
        try:
            response = self._transport.handle_request(
                httpx.Request(
                    "POST",
                    self._url,
                    headers=headers,
                    content=payload.body,
                    extensions={"timeout": httpx.Timeout(self._timeout).as_dict()},
                )
            )
        except httpx.TransportError as error:
            raise self._unreachable(error) from None  # what it holds on to knows the URL
        self._use_up(response)
        return response

    def _use_up(self, response: httpx.Response) -> None:
        """Read what comes with the answer, within limits; the status has been told, whatever happens now."""
        left = MOST_READ_BYTES
        with suppress(httpx.TransportError):
            for chunk in cast("Iterable[bytes]", response.stream):
                left -= len(chunk)
                if left <= 0:
                    break
        response.close()

    def _failure(self, response: httpx.Response, entry: Entry) -> DeliveryError:
        status = response.status_code
        redirect = 300 <= status < 400
        cure = _CURES.get(status, "")
        if redirect:
            cure = "; redirects are not followed: configure the URL that it leads to"
        return DeliveryError(
            f"{self.name}: {self._told} answered {status}{cure}",
            reason="redirect" if redirect else f"http_{status}",
            retry_after=retry_after_s(response.headers.get("retry-after"), self._clock.now()),
            refused=status in _OF_THE_ENTRY and self._times_declined(entry) >= REFUSED_AFTER,
            gone=status == _GONE,
        )

    def _times_declined(self, entry: Entry) -> int:
        id_, times = self._declined
        self._declined = (entry.id, times + 1 if id_ == entry.id else 1)
        return self._declined[1]

    def _unreachable(self, error: httpx.TransportError) -> DeliveryError:
        reason, cause = cause_of(error)
        return DeliveryError(f"{self.name}: {self._told}: {cause}", reason=reason)


@lru_cache(maxsize=256)  # a service makes its sinks anew with each election; once is enough
def _warn_of_clear_text(sink: str, target: str, sent: tuple[str, ...]) -> None:
    _log.warning("webhook_in_clear", sink=sink, target=target, sent=list(sent), cure="use https://")


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for; None if it asks for nothing intelligible.

    Source: RFC 9110, section 10.2.3.
    """
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the latter in a year of twenty digits
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _id(entries: Sequence[Entry]) -> str:
    """Return the id of a request: another batch must have another id, or it would pass for a double."""
    if len(entries) == 1:
        return entries[0].id
    return str(uuid.uuid5(_BATCH_IDS, "\n".join(entry.id for entry in entries)))


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _OURS.fullmatch(name.lower()):
            raise ConfigurationError(f"headers may not set {name!r}")
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(f"headers[{name!r}] must be printable ASCII, on one line")
    return {name.lower(): value for name, value in headers.items()}
