"""Posts bytes to one URL, by httpx: with a proxy, authorities, a client certificate and an end in time."""

import logging
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import httpx
from attrs import field, frozen

from kafka_partition_events import __version__
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import DeliveryError
from kafka_partition_events.process import OwnProcess

MOST_READ_BYTES: Final = 64 * 1024
"""How much of an answer is read, so that the connection can be used again; its text is not used."""

logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each URL, tokens and all


@frozen(kw_only=True)
class Way:
    """How requests reach a target; the fields of ``[[sinks]]`` of these names.

    Attributes:
        timeout: Seconds for each step of a request; its answer is read for no longer.
        headers: To send along, such as ``Authorization``.
        proxy: The URL of a proxy; those of the environment are never asked.
        ca_file: A PEM file: these authorities, and no others, may vouch for the target.
        client_cert: A PEM file with the certificate that the target wants to see.
        client_key: A PEM file with its key, if that is not in ``client_cert``, too.
        transport: What connects, in place of httpx's own; for tests.
    """

    timeout: float = 10.0
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    proxy: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    transport: httpx.BaseTransport | None = None

    def __attrs_post_init__(self) -> None:
        if self.timeout <= 0:
            raise ConfigurationError(f"timeout must be more than 0 seconds, not {self.timeout}")
        if self.client_key is not None and self.client_cert is None:
            raise ConfigurationError("client_key needs client_cert, the certificate that it belongs to")

    def client(self) -> httpx.Client:
        """Return a client without connections yet.

        Raises:
            ConfigurationError: a file, a header or the proxy's URL is of no use.
        """
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.client_cert is not None:
                context.load_cert_chain(self.client_cert, self.client_key, password=lambda: "")
            return httpx.Client(
                headers={"user-agent": f"kafka-partition-events/{__version__}", **self.headers},
                timeout=self.timeout,
                proxy=self.proxy,
                verify=context,
                transport=self.transport,
                trust_env=False,
            )
        except (OSError, ValueError, httpx.InvalidURL) as error:  # an SSLError is an OSError
            named = ", ".join(filter(None, (self.ca_file, self.client_cert, self.client_key)))
            problem = f"{named}: {error}" if named else "headers or proxy are of no use"
            raise ConfigurationError(problem) from None


class Target:
    """One URL that is posted to. One thread at a time."""

    def __init__(self, url: str, way: Way) -> None:
        """Make it; nothing is connected to yet.

        Raises:
            ConfigurationError: the URL or the way is of no use; the message has no secret.
        """
        try:
            parts = urlsplit(url)
            httpx.URL(url, port=parts.port)  # or each post would fail by it, and cost an entry
        except (ValueError, httpx.InvalidURL):
            raise ConfigurationError("url has a host or a port that can't be used") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError("url must be an http:// or https:// URL")
        if parts.username or parts.password:
            raise ConfigurationError("url must not hold a login; put it into headers")
        self._url, self._way = url, way
        self.shown = f"{parts.scheme}://{parts.netloc}/***"
        """What may be shown of it: paths hold tokens."""
        self._process = OwnProcess(type(self).__name__)
        self._client: httpx.Client | None = way.client()

    def post(self, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Post, and return the answer, whatever it says; its body is not to be read.

        Raises:
            DeliveryError: there is none; ``timeout``, ``tls``, ``proxy`` or ``connect``.
        """
        return self._send("POST", self._url, content=body, headers=headers)

    def date(self, path: str) -> str | None:
        """Return the ``Date`` of an answer to a GET of another path on the same host."""
        parts = urlsplit(self._url)
        date: str | None = self._send("GET", f"{parts.scheme}://{parts.netloc}{path}").headers.get("date")
        return date

    def close(self) -> None:
        """Close all connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _send(
        self, method: str, url: str, content: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        self._process.check()
        ends_at = time.monotonic() + self._way.timeout
        try:
            if self._client is None:  # made again after a failure, with files as they are now
                self._client = self._way.client()
            with self._client.stream(method, url, content=content, headers=headers) as response:
                left = MOST_READ_BYTES
                with suppress(httpx.HTTPError):  # the status is known, whatever happens now
                    for chunk in response.iter_bytes():
                        left -= len(chunk)
                        if left <= 0 or time.monotonic() > ends_at:
                            break
                return response
        except (httpx.TransportError, ConfigurationError, UnicodeError) as error:  # the last: no host's name
            self.close()
            reason, cause = _cause_of(error)
            raise DeliveryError(f"{self.shown}: {cause}", reason=reason) from None  # it knows the URL


def _cause_of(error: Exception) -> tuple[str, str]:
    """Return a reason for metrics, and a cause. What the target itself said is in neither."""
    if isinstance(error, ConfigurationError):
        return "tls", str(error)
    if isinstance(error, httpx.TimeoutException):
        return "timeout", type(error).__name__
    if isinstance(error, httpx.ProxyError):
        return "proxy", "the proxy does not connect to it"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                "tls",
                f"its certificate proves nothing: {getattr(cause, 'verify_message', cause)}; see ca_file",
            )
        if isinstance(cause, ssl.SSLError):
            return "tls", f"TLS: {(cause.reason or 'failed').lower().replace('_', ' ')}"
        cause = cause.__cause__ or cause.__context__
    return "connect", str(error) if isinstance(error, httpx.ConnectError) else type(error).__name__
