"""Where a webhook may connect to: by default to public addresses only, whatever a name resolves to.

A URL that somebody else chose could name the cloud's metadata service or a database behind the firewall, and
a name that resolved to a public address when it was checked can resolve to another one when it is connected
to (DNS rebinding). So the name is resolved once for each request, the addresses are checked, and the
connection is made to a checked address, with the name in the ``Host`` header, in SNI and in the check of the
certificate.

With a proxy, the proxy resolves, and what it lets through is for it to decide: a process that is kept from
the internet often can't resolve its names. Then only what a URL says itself is checked.
"""

import re
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import httpx

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.forking import reset_in_children
from kafka_partition_events_listeners.webhook.connecting import (
    MOST_TRIED,
    AddressRefusedError,
    Deadline,
    connecting,
)
from kafka_partition_events_listeners.webhook.egress import (
    NOT_PUBLIC,
    OF_THE_MACHINE,
    Egress,
    Resolve,
    is_of_the_machine,
    resolve,
)

_PORTS: Final = {"http": 80, "https": 443}
_DIRECTLY: Final = Egress()

_log = get_logger(__name__)


class ProxyRefusedError(httpx.ProxyError):
    """A proxy does not connect to the target.

    Attributes:
        status: What it answered, such as 407.
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"the proxy answered {status}")
        self.status = status


def check_url(url: str, egress: Egress = _DIRECTLY) -> httpx.URL:
    """Return the parsed URL of a target.

    Args:
        url: An http or https URL.
        egress: Where requests may go.

    Raises:
        ConfigurationError: it can't be delivered to; the message does not repeat it, as it may be a secret.
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise ConfigurationError("url is not a URL: check its host, its port and its characters") from None
    if parsed.scheme not in _PORTS:
        raise ConfigurationError("url must begin with https:// or http://")
    if not parsed.host:
        raise ConfigurationError("url must name a host")
    if parsed.port is not None and parsed.port not in range(1, 65536):
        raise ConfigurationError("url must name a port from 1 to 65535, or none")
    if parsed.userinfo:
        raise ConfigurationError("url must not hold a user or a password: use headers={'Authorization': ...}")
    if parsed.scheme == "http" and egress.files:
        raise ConfigurationError("url begins with http://, but ca_file and client_cert are for https://")
    egress.check_host(parsed.host)
    return parsed


def masked(url: httpx.URL) -> str:
    """Return what may be told of a URL: scheme, host and port. Path and query can hold a token."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


class CheckedTransport(httpx.BaseTransport):
    """Connects to checked addresses only, or through one proxy. Follows no redirect.

    Proxies of the environment are not asked. The time-out of a request (``extensions["timeout"]["read"]``,
    seconds) is one for all of it, from the connection to the last byte of the answer, the proxy's answers
    and TLS included: an other end that sends a byte now and then is not waited for.

    Certificates are checked against ``egress.ca_file``; without one against httpx's authorities and the
    machine's, or those in the file that the environment variable ``SSL_CERT_FILE`` names. Files that have
    changed are taken over by the next request; while they are of no use, what was read last stays in force,
    and the log has `webhook_files_refused`.

    One request at a time. A forked child makes connections of its own.
    """

    def __init__(
        self,
        egress: Egress = _DIRECTLY,
        *,
        resolve: Resolve = resolve,
        inner: httpx.BaseTransport | None = None,
    ) -> None:
        """Make a transport.

        Args:
            egress: Where requests may go, and how.
            resolve: How to find addresses.
            inner: What connects; it sees URLs with addresses in place of names, unless there is a proxy.

        Raises:
            ConfigurationError: a file can't be read or used.
        """
        self._egress = egress
        self._resolve = resolve
        self._deadline = Deadline()
        self._context: ssl.SSLContext | None = None
        self._stamps: list[object] = []
        self._refused: list[object] = []
        if inner is None:
            self._stamps = _stamps(egress)  # before they are read: what changes meanwhile is read again
            self._context = egress.context()
            inner = self._connecting(self._context)
        self._inner = inner
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Leave all connections to the parent, which goes on using them."""
        if self._context is not None:
            self._deadline = Deadline()
            self._inner = self._connecting(self._context)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the first address that can be connected to, or through the proxy.

        Raises:
            AddressRefusedError: there is no address that may be.
            ProxyRefusedError: the proxy does not let it through.
            httpx.TransportError: it can't be sent or is not answered.
        """
        self._deadline.begin(request.extensions.get("timeout", {}).get("read"))
        self._take_over_files()
        if self._egress.way is not None:
            return self._send_through(request)
        *others, last = self._addresses(request.url)
        for address in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # before anything was sent
                return self._send(request, address)
        return self._send(request, last)

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()

    # -- straight ------------------------------------------------------------------------------------

    def _addresses(self, url: httpx.URL) -> Sequence[str]:
        found = self._resolve(url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme])
        found = [address for address in found if not is_of_the_machine(address)]
        allowed = [address for address in found if self._egress.allows(address)]
        if not found:
            raise AddressRefusedError(f"the host resolves to an address {OF_THE_MACHINE}")
        if not allowed:
            raise AddressRefusedError(f"the host resolves to {', '.join(found)}, {NOT_PUBLIC}")
        return allowed[:MOST_TRIED]

    def _send(self, request: httpx.Request, address: str) -> httpx.Response:
        return self._inner.handle_request(
            httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # Host is among them
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
            )
        )

    # -- through the proxy ---------------------------------------------------------------------------

    def _send_through(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._inner.handle_request(request)
        except httpx.TransportError as error:
            # httpcore keeps a tunnel in which TLS has failed, and has no room for another one after ten.
            self._begin_anew()
            if isinstance(error, httpx.ProxyError) and not isinstance(error, ProxyRefusedError):
                raise ProxyRefusedError(
                    str(error).partition(" ")[0]
                ) from error  # no words of the proxy's own
            raise

    # -- files ---------------------------------------------------------------------------------------

    def _take_over_files(self) -> None:
        if self._context is None or (stamps := _stamps(self._egress)) == self._stamps:
            return
        try:
            self._context = self._egress.context()
        except ConfigurationError as error:  # half of them are written, say: look again with the next request
            if stamps != self._refused:
                _log.warning("webhook_files_refused", error=str(error))
            self._refused = stamps
            return
        self._stamps = stamps
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self._context is not None:
            self._inner.close()
            self._inner = self._connecting(self._context)

    def _connecting(self, context: ssl.SSLContext) -> httpx.HTTPTransport:
        return connecting(context, self._deadline, self._resolve, self._egress.way)


def _stamps(egress: Egress) -> list[object]:
    """Return what changes when a file is written or replaced."""
    stamps: list[object] = []
    for path in egress.files:
        try:
            stat = Path(path).stat()
        except OSError as error:
            stamps.append(error.errno)
        else:
            stamps.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return stamps


# -- what kept a request from its answer -------------------------------------------------------------------

_CURES_OF_PROXY: Final = {
    "403": "; it lets nothing through to this host and port",
    "407": "; look at the login in proxy",
}
_UNKNOWN_AUTHORITY: Final = frozenset({18, 19, 20, 21})
"""What OpenSSL says of a certificate that nobody known vouches for (X509_V_ERR)."""
_OURS: Final = re.compile(r"alert.*(certificate|handshake failure|unknown ca|access denied)")
"""What the other end says of our certificate, or of there being none, in OpenSSL's words."""


def cause_of(error: httpx.TransportError) -> tuple[str, str]:
    """Return a reason for metrics, and a cause with its cure.

    What the target itself said, as in a broken answer, is in neither.
    """
    if isinstance(error, ProxyRefusedError):
        return "proxy", f"{error}{_CURES_OF_PROXY.get(error.status, '')}"
    if isinstance(error, AddressRefusedError):
        return "address_refused", str(error)
    if isinstance(error, httpx.TimeoutException):
        return "timeout", type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "tls", _of_tls(cause)
        cause = cause.__cause__ or cause.__context__
    return "connect", str(error) if isinstance(error, httpx.ConnectError) else type(error).__name__


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        unknown = getattr(error, "verify_code", 0) in _UNKNOWN_AUTHORITY
        cure = "; if it is the target's, name its authority by ca_file" if unknown else ""
        return f"its certificate proves nothing: {getattr(error, 'verify_message', error)}{cure}"
    words = (error.reason or str(error)).lower().replace("_", " ")  # OpenSSL's own, not the target's
    return f"TLS: {words}" + ("; look at client_cert and client_key" if _OURS.search(words) else "")
