"""Where a webhook may connect to: by default to public addresses only, whatever a name resolves to.

A URL that somebody else chose could name the cloud's metadata service or a database behind the firewall, and
a name that resolved to a public address when it was checked can resolve to another one when it is connected
to (DNS rebinding). So the name is resolved once for each request, the addresses are checked, and the
connection is made to a checked address, with the name in the ``Host`` header, in SNI and in the check of the
certificate.
"""

import ipaddress
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import httpcore
import httpx

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.forking import reset_in_children

Resolve = Callable[[str, int], Sequence[str]]
"""Takes a host and a port, returns addresses, best first; raises `httpx.ConnectError` if it has none."""

_PORTS: Final = {"http": 80, "https": 443}
_MOST_TRIED: Final = 4
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_PROTOCOL_ASSIGNMENTS: Final = ipaddress.IPv4Network("192.0.0.0/24")
_NOT_GLOBAL: Final = (_PROTOCOL_ASSIGNMENTS, ipaddress.IPv6Network("3fff::/20"))
"""What Python's tables call global: the latter is for documentation (RFC 9637)."""
_AZURE: Final = ipaddress.IPv4Address("168.63.129.16")
"""What tells an Azure machine about itself: an address of a public range that leads nowhere else."""
_NOT_PUBLIC: Final = "which is no public address: allow_private=True allows it, if that is what you mean"


_OF_THE_MACHINE: Final = "which is link-local or the cloud's own address: nothing is ever posted there"


class AddressRefusedError(httpx.ConnectError):
    """A host has no address that may be connected to."""


def check_url(url: str, *, allow_private: bool) -> httpx.URL:
    """Return the parsed URL of a target.

    Args:
        url: An http or https URL.
        allow_private: Whether an address in it may be any.

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
    if _is_address(parsed.host):
        if is_of_the_machine(parsed.host):
            raise ConfigurationError(f"url names {parsed.host}, {_OF_THE_MACHINE}")
        if not allow_private and not is_public(parsed.host):
            raise ConfigurationError(f"url names {parsed.host}, {_NOT_PUBLIC}")
    return parsed


def masked(url: httpx.URL) -> str:
    """Return what may be told of a URL: scheme, host and port. Path and query can hold a token."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def is_public(address: str) -> bool:
    """Tell whether an address is one of the public internet.

    Private, loopback, link-local, shared, multicast, unspecified, reserved and documentation addresses are
    not; an IPv6 address that stands for an IPv4 address (mapped, 6to4, NAT64) is what that one is.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if (embedded := _embedded(ip)) is not None:
            ip = embedded
        elif ip.is_site_local:
            return False
    elsewhere = ip.is_multicast or ip.is_reserved or ip.is_unspecified
    return (
        ip.is_global and not elsewhere and not any(ip in network for network in _NOT_GLOBAL) and ip != _AZURE
    )


def is_of_the_machine(address: str) -> bool:
    """Tell whether an address is link-local, or the cloud's own.

    There a machine is told its credentials; nobody keeps a pager there, so nothing allows it.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        ip = _embedded(ip) or ip
    return ip.is_link_local or ip == _AZURE


def _embedded(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host in the system's order of preference.

    Raises:
        httpx.ConnectError: there are none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx.ConnectError(f"the host can't be resolved: {error}") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedTransport(httpx.BaseTransport):
    """Connects directly, and to checked addresses only. Follows no redirect and no proxy of the environment.

    The time-out of a request (``extensions["timeout"]["read"]``, seconds) is one for all of it, from the
    connection to the last byte of the answer: a target that sends a byte now and then is not waited for.

    Certificates are checked against httpx's authorities and the machine's, or those in the file that the
    environment variable ``SSL_CERT_FILE`` names. Thread-safe; a forked child makes connections of its own.
    """

    def __init__(
        self,
        *,
        allow_private: bool = False,
        resolve: Resolve = resolve,
        inner: httpx.BaseTransport | None = None,
    ) -> None:
        """Make a transport.

        Args:
            allow_private: Whether any address will do, but for link-local ones.
            resolve: How to find addresses.
            inner: What connects; it sees URLs with addresses in place of names.
        """
        self._allow_private = allow_private
        self._resolve = resolve
        self._authorities: ssl.SSLContext | None = None
        self._deadline = _Deadline()
        if inner is None:
            self._authorities = _authorities()
            inner = _direct(self._authorities, self._deadline)
        self._inner = inner
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Leave all connections to the parent, which goes on using them."""
        if self._authorities is not None:
            self._deadline = _Deadline()
            self._inner = _direct(self._authorities, self._deadline)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the first address that can be connected to.

        Raises:
            AddressRefusedError: there is no address that may be.
            httpx.TransportError: it can't be sent or is not answered.
        """
        self._deadline.begin(request.extensions.get("timeout", {}).get("read"))
        *others, last = self._addresses(request.url)
        for address in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # before anything was sent
                return self._send(request, address)
        return self._send(request, last)

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()

    def _addresses(self, url: httpx.URL) -> Sequence[str]:
        found = self._resolve(url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme])
        found = [address for address in found if not is_of_the_machine(address)]
        allowed = [address for address in found if self._allow_private or is_public(address)]
        if not found:
            raise AddressRefusedError(f"the host resolves to an address {_OF_THE_MACHINE}")
        if not allowed:
            raise AddressRefusedError(f"the host resolves to {', '.join(found)}, {_NOT_PUBLIC}")
        return allowed[:_MOST_TRIED]

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


class _Deadline(threading.local):
    """Until when the request of this thread may take; a time-out of httpx's is for one read or write."""

    at = math.inf

    def begin(self, seconds: float | None) -> None:
        self.at = math.inf if seconds is None else time.monotonic() + seconds

    def left(self, timeout: float | None, late: type[Exception]) -> float | None:
        """Return how many seconds one step may take.

        Raises:
            Exception: of the type ``late``: there are none left.
        """
        if self.at == math.inf:
            return timeout
        if (left := self.at - time.monotonic()) <= 0:
            raise late("the time for the whole request is over")
        return left if timeout is None else min(left, timeout)


class _Stream(httpcore.NetworkStream):
    """A connection of which no step goes beyond the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Connecting(httpcore.SyncBackend):
    def __init__(self, deadline: _Deadline) -> None:
        self._deadline = deadline

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, *args, **options), self._deadline)


def _direct(authorities: ssl.SSLContext, deadline: _Deadline) -> httpx.HTTPTransport:
    transport = httpx.HTTPTransport(verify=authorities, trust_env=False)
    # httpx has no parameter for what connects; its transport is a translation around this pool.
    transport._pool = httpcore.ConnectionPool(  # noqa: SLF001
        ssl_context=authorities, network_backend=_Connecting(deadline)
    )
    return transport


def _authorities() -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()  # companies have authorities of their own
    return context
