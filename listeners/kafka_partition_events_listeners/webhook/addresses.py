"""What kinds of addresses there are, and how names are resolved to them."""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Final

import httpx

Resolve = Callable[[str, int], Sequence[str]]
"""Takes a host and a port, returns addresses, best first; raises `httpx.ConnectError` if it has none."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_PROTOCOL_ASSIGNMENTS: Final = ipaddress.IPv4Network("192.0.0.0/24")
_NOT_GLOBAL: Final = (_PROTOCOL_ASSIGNMENTS, ipaddress.IPv6Network("3fff::/20"))
"""What Python's tables call global: the latter is for documentation (RFC 9637)."""
_AZURE: Final = ipaddress.IPv4Address("168.63.129.16")
"""What tells an Azure machine about itself: an address of a public range that leads nowhere else."""
_LOCALHOST: Final = "localhost"
_OF_CLOUDS: Final = frozenset({
    "metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal",
})  # fmt: skip
"""Names that clouds give to what tells a machine its credentials."""


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
    ip = meant(address)
    return ip.is_link_local or ip == _AZURE


def meant(address: str) -> Address:
    """Return an address; of an IPv6 address that stands for an IPv4 address, that one."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        return _embedded(ip) or ip
    return ip


def address_in(host: str) -> str | None:
    """Return the address that a URL's host is; None for a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return None
    return host


def address_behind(host: str) -> str | None:
    """Return the address that every resolver takes a host for, whoever asks it; None if that is not known.

    That is an address however it is written (``0x7f.1``), and the loopback's for ``localhost``.
    """
    name = host.rstrip(".").lower()
    if name == _LOCALHOST or name.endswith(f".{_LOCALHOST}"):
        return "127.0.0.1"
    try:
        return address_in(host) or socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None


def is_name_of_the_machine(host: str) -> bool:
    """Tell whether a host is a name by which clouds tell a machine its credentials."""
    return host.rstrip(".").lower() in _OF_CLOUDS


def _embedded(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour


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
