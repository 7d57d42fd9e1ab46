"""Where a webhook may connect to: by default to public addresses only, whatever a name resolves to.

A URL that somebody else chose could name the cloud's metadata service or a database behind the firewall, and
a name that resolved to a public address when it was checked can resolve to another one when it is connected
to (DNS rebinding). So the name is resolved once for each request, the addresses are checked, and the
connection is made to a checked address, with the name in the ``Host`` header, in SNI and in the check of the
certificate.
"""

import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import httpx

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.forking import reset_in_children

Resolve = Callable[[str, int], Sequence[str]]
"""Takes a host and a port, returns addresses, best first; raises `httpx.ConnectError` if it has none."""

_PORTS: Final = {"http": 80, "https": 443}
_MOST_TRIED: Final = 4
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_PROTOCOL_ASSIGNMENTS: Final = ipaddress.IPv4Network("192.0.0.0/24")
_NOT_PUBLIC: Final = "which is no public address: allow_private=True allows it, if that is what you mean"


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
    if not allow_private and _is_address(parsed.host) and not is_public(parsed.host):
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
    elsewhere = ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip in _PROTOCOL_ASSIGNMENTS
    return ip.is_global and not elsewhere


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
            allow_private: Whether any address will do.
            resolve: How to find addresses.
            inner: What connects; it sees URLs with addresses in place of names.
        """
        self._allow_private = allow_private
        self._resolve = resolve
        self._authorities: ssl.SSLContext | None = None
        if inner is None:
            self._authorities = _authorities()
            inner = _direct(self._authorities)
        self._inner = inner
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Leave all connections to the parent, which goes on using them."""
        if self._authorities is not None:
            self._inner = _direct(self._authorities)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the first address that can be connected to.

        Raises:
            AddressRefusedError: there is no address that may be.
            httpx.TransportError: it can't be sent or is not answered.
        """
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
        allowed = [address for address in found if self._allow_private or is_public(address)]
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


def _direct(authorities: ssl.SSLContext) -> httpx.HTTPTransport:
    return httpx.HTTPTransport(verify=authorities, trust_env=False)


def _authorities() -> ssl.SSLContext:
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()  # companies have authorities of their own
    return context
