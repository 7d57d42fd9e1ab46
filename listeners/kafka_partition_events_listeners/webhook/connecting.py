"""Connections of which no step goes beyond a request's deadline, straight or through a proxy."""

import math
import ssl
import threading
import time
from contextlib import suppress
from typing import Any, Final

import httpcore
import httpx

from kafka_partition_events_listeners.webhook.egress import (
    OF_THE_MACHINE,
    Resolve,
    address_in,
    is_of_the_machine,
)

MOST_TRIED: Final = 4
"""How many addresses of one name are tried."""


class AddressRefusedError(httpx.ConnectError):
    """A host has no address that may be connected to."""


class Deadline(threading.local):
    """Until when the request of this thread may take; a time-out of httpx's is for one read or write."""

    at = math.inf

    def begin(self, seconds: float | None) -> None:
        """Begin a request that may take so long; None for any time."""
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

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
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
    """Connects to addresses, which are the target's, and to names, which are a proxy's."""

    def __init__(self, deadline: Deadline, resolve: Resolve) -> None:
        self._deadline, self._resolve = deadline, resolve

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore.NetworkStream:
        found = self._resolve(host, port) if address_in(host) is None else [host]
        *others, last = [address for address in found if not is_of_the_machine(address)][:MOST_TRIED] or [""]
        if not last:
            raise AddressRefusedError(f"the proxy's host resolves to an address {OF_THE_MACHINE}")
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return self._connected(address, port, timeout, *args, **options)
        return self._connected(last, port, timeout, *args, **options)

    def _connected(
        self, address: str, port: int, timeout: float | None, *args: Any, **options: Any
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(address, port, left, *args, **options), self._deadline)


def connecting(
    context: ssl.SSLContext, deadline: Deadline, resolve: Resolve, proxy: httpx.Proxy | None = None
) -> httpx.HTTPTransport:
    """Return a transport without connections yet.

    Args:
        context: What TLS is done with.
        deadline: Until when a request may take.
        resolve: How to find the addresses of a proxy.
        proxy: What to go through.
    """
    transport = httpx.HTTPTransport(verify=context, trust_env=False)
    backend = _Connecting(deadline, resolve)
    # httpx has no parameter for what connects; its transport is a translation around this pool.
    if proxy is None:
        pool = httpcore.ConnectionPool(ssl_context=context, network_backend=backend)
    else:
        pool = httpcore.HTTPProxy(
            proxy_url=httpcore.URL(
                scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=b"/"
            ),
            proxy_auth=proxy.raw_auth,
            ssl_context=context,
            network_backend=backend,
        )
    transport._pool = pool  # noqa: SLF001
    return transport
