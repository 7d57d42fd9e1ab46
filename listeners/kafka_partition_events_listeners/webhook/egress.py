"""Where requests may go, by which way, and who the other end has to be: for every sink that posts."""

import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

import httpx
from attrs import field, frozen

from kafka_partition_events.errors import ConfigurationError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
OF_THE_MACHINE: Final = "which is link-local or the cloud's own address: nothing is ever posted there"
NOT_PUBLIC: Final = (
    "which is no public address: allow_networks with its network, or allow_private=True, allows it, "
    "if that is what you mean"
)


@frozen(kw_only=True)
class Egress:
    """Where requests may go, by which way, and who the other end has to be.

    Public addresses may always be connected to; link-local ones and those by which a cloud tells a machine
    its credentials never. The files are read again when they have changed.

    Attributes:
        allow_private: Whether every other address may be connected to, too, this machine's among them.
        allow_networks: Or which networks may, such as ``10.1.0.0/16``.
        proxy: The URL of a proxy, such as ``http://user:password@proxy.example:3128``: asked by CONNECT for
            https, by the whole URL for http. It resolves the names of targets and may have any address.
        ca_file: A PEM file with the authorities that may vouch for a target, and no others may.
        client_cert: A PEM file with the certificate that is shown to a target, and those between it and its
            authority.
        client_key: A PEM file with its key, if that is not in ``client_cert``, too. Not encrypted.

    Raises:
        ConfigurationError: one is of no use, or of none beside another one. Files are not looked at yet.
    """

    allow_private: bool = False
    allow_networks: tuple[str, ...] = ()
    proxy: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    _networks: tuple[Network, ...] = field(init=False, repr=False, eq=False)
    _proxy: httpx.Proxy | None = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if self.allow_private and self.allow_networks:
            raise ConfigurationError("allow_private allows every network: leave it out, or allow_networks")
        if self.client_key is not None and self.client_cert is None:
            raise ConfigurationError("client_key needs client_cert, the certificate that it belongs to")
        object.__setattr__(self, "_networks", _networks(self.allow_networks))
        object.__setattr__(self, "_proxy", None if self.proxy is None else _proxy(self.proxy))

    @property
    def way(self) -> httpx.Proxy | None:
        """The proxy, its login apart from its URL; None if requests go straight to their targets."""
        return self._proxy

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files."""
        return tuple(filter(None, (self.ca_file, self.client_cert, self.client_key)))

    def allows(self, address: str) -> bool:
        """Tell whether an address may be connected to."""
        if is_of_the_machine(address):
            return False
        if self.allow_private or is_public(address):
            return True
        ip = meant(address)
        return any(ip in network for network in self._networks)

    def check_host(self, host: str) -> None:
        """Return if nothing is known against the host of a URL before it is resolved.

        With a proxy nothing more is checked, as the proxy resolves: so names that mean the same everywhere
        are looked through.

        Raises:
            ConfigurationError: it must not be connected to.
        """
        by_name = self._proxy is not None
        address = address_behind(host) if by_name else address_in(host)
        if (address is not None and is_of_the_machine(address)) or (by_name and is_name_of_the_machine(host)):
            raise ConfigurationError(f"url names {host}, {OF_THE_MACHINE}")
        if address is not None and not self.allows(address):
            raise ConfigurationError(f"url names {host}, {NOT_PUBLIC}")

    def context(self) -> ssl.SSLContext:
        """Return what TLS is done with, made of the files as they are now.

        Raises:
            ConfigurationError: a file can't be read or used; the message names it.
        """
        context = _authorities(self.ca_file)
        if self.client_cert is not None:
            named = " and ".join(filter(None, (self.client_cert, self.client_key)))
            try:
                context.load_cert_chain(self.client_cert, self.client_key, password=_no_passphrase)
            except ssl.SSLError as error:
                why = "key and certificate are not of one another" if "MISMATCH" in str(error) else "not PEM"
                raise ConfigurationError(f"client_cert: {named}: {why}, or one of them is missing") from error
            except OSError as error:
                raise ConfigurationError(f"client_cert: {named}: {error.strerror or error}") from error
        return context


def shown(proxy: httpx.Proxy) -> str:
    """Return what may be told of a proxy: scheme, host and port."""
    return f"{proxy.url.scheme}://{proxy.url.netloc.decode('ascii')}"


def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    if isinstance(texts, str):
        raise ConfigurationError('allow_networks must be a list, such as ["10.1.0.0/16"]')
    networks = []
    for text in texts:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise ConfigurationError(f"allow_networks: {error}") from None
        if network.is_link_local:
            raise ConfigurationError(f"allow_networks: {text} is link-local: nothing is ever posted there")
        networks.append(network)
    return tuple(networks)


def _proxy(url: str) -> httpx.Proxy:
    wrong = ConfigurationError("proxy must be http://host:port or http://user:password@host:port")
    try:
        proxy = httpx.Proxy(url)
    except (httpx.InvalidURL, ValueError, TypeError):
        raise wrong from None
    if proxy.url.scheme != "http" or not proxy.url.host or proxy.url.path != "/" or proxy.url.query:
        raise wrong
    if proxy.url.port is not None and proxy.url.port not in range(1, 65536):
        raise wrong
    if (address := address_behind(proxy.url.host)) is not None and is_of_the_machine(address):
        raise ConfigurationError(f"proxy names {proxy.url.host}, {OF_THE_MACHINE}")
    return proxy


def _authorities(ca_file: str | None) -> ssl.SSLContext:
    if ca_file is None:
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()  # companies have authorities of their own
        return context
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise ConfigurationError(f"ca_file: {ca_file}: no certificates in PEM") from error
    except OSError as error:
        raise ConfigurationError(f"ca_file: {ca_file}: {error.strerror or error}") from error


def _no_passphrase() -> str:
    raise ConfigurationError(
        "client_key is encrypted, and nobody is there to be asked: give it without a passphrase, "
        "readable for its user alone"
    )


# -- addresses ---------------------------------------------------------------------------------------------

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
