"""Where requests may go, by which way, and who the other end has to be: for every sink that posts."""

import ipaddress
import ssl
from typing import Final

import httpx
from attrs import field, frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events_listeners.webhook.addresses import (
    address_behind,
    address_in,
    is_name_of_the_machine,
    is_of_the_machine,
    is_public,
    meant,
)

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
