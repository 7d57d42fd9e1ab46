"""HTTP for machines: metrics by prometheus_client's application, and probes.

Each connection has a thread, which does the TLS handshake, too, and an end: a client that is slow to ask or
to read holds up itself only. Beyond `AT_ONCE` connections the oldest one is cut, so there is always room for
a probe. For passwords, put a proxy in front; TLS can ask for client certificates, which a kubelet has none
of: probes take none.
"""

import contextlib
import errno
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.observe.settings import Http

AT_ONCE: Final = 100
TIMEOUT_S: Final = 30.0
"""How long a client may take for a handshake, to ask, or to read the next part of an answer."""
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CERTIFIED: Final = "kpe.certified"
_CURES: Final = {
    errno.EADDRINUSE: "another program may listen there",
    errno.EADDRNOTAVAIL: "this machine has no such address; 0.0.0.0 listens at all that it has",
    errno.EACCES: "choose a port above 1023",
}

Probe = Callable[[], tuple[str | None, str]]
"""Returns what is wrong (None: nothing), and what to say if nothing is."""

_log = get_logger(__name__)


def application(registry: CollectorRegistry, probes: Mapping[str, Probe], *, certified: bool) -> Any:
    """Return a WSGI application: /metrics, and 200 or 503 with a line of text for each probe.

    Args:
        registry: What /metrics shows.
        probes: By path.
        certified: Whether /metrics is for clients with a certificate only.
    """
    metrics = make_wsgi_app(registry)

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics" and not (certified and not environ[_CERTIFIED]):
            return metrics(environ, start_response)  # type: ignore[no-any-return]
        status, text = "404 Not Found", "there are /metrics, " + ", ".join(probes)
        if path == "/metrics":
            status, text = "403 Forbidden", "no client certificate"
        elif path in probes:
            trouble, well = probes[path]()
            status, text = ("200 OK", well) if trouble is None else ("503 Service Unavailable", trouble)
        body = f"{text}\n".encode()
        start_response(
            status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        )
        return [body]

    return serve


class HttpServer:
    """Serves the application on threads of its own."""

    def __init__(
        self, address: tuple[str, int], registry: CollectorRegistry, probes: Mapping[str, Probe], tls: Http
    ) -> None:
        """Listen; nothing is answered before `start`.

        Args:
            address: Host and port; port 0 takes a free one, see `address`.
            registry: What /metrics shows.
            probes: By path; each is called on several threads at once.
            tls: Certificates; without ``tls_cert`` it speaks plain HTTP.

        Raises:
            ConfigurationError: the address can't be listened on, or a file can't be used.
        """
        if tls.tls_cert is None and (useless := [n for n in ("tls_key", "client_ca") if getattr(tls, n)]):
            raise ConfigurationError(f"http.{useless[0]} is of no use without http.tls_cert")
        try:
            self._server = _Server(address, tls)
        except OSError as error:
            cure = _CURES.get(error.errno or 0, "write HOST:PORT, the host being this machine")
            where = f"{address[0]}:{address[1]}"
            raise ConfigurationError(f"http.listen: {where}: {error.strerror or error}; {cure}") from error
        self._server.set_app(application(registry, probes, certified=tls.client_ca is not None))
        self.scheme = "http" if tls.tls_cert is None else "https"
        self._thread = threading.Thread(target=self._server.serve_forever, name="kpe-http", daemon=True)
        if tls.tls_cert is None and not _is_loopback(self.address[0]):
            _log.warning("http_is_open", listen=self.address[0], cure="see [http] in docs/security.md")

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port, *_ = self._server.server_address
        return str(host), int(port)

    @property
    def url(self) -> str:
        """The same as a URL."""
        host, port = self.address
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Requests under way are left to end by themselves."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _context(tls: Http) -> ssl.SSLContext:
    """Return TLS by files, as they are now.

    Raises:
        ConfigurationError: one is of no use.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.tls_min_version]
    setting, files = "tls_cert", [each for each in (tls.tls_cert, tls.tls_key) if each is not None]
    try:
        context.load_cert_chain(files[0], tls.tls_key, password=lambda: "")
        if tls.client_ca is not None:
            setting, files = "client_ca", [tls.client_ca]
            context.load_verify_locations(tls.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except OSError as error:  # an SSLError is one
        raise ConfigurationError(f"http.{setting}: {' and '.join(files)}: {_words(error)}") from error
    return context


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no PEM of the right kind").lower().replace("_", " ")
    return error.strerror or str(error)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = AT_ONCE

    def __init__(self, address: tuple[str, int], tls: Http) -> None:
        self._tls, self._lock = tls, threading.Lock()
        self._context = None if tls.tls_cert is None else _context(tls)
        self._open: dict[Any, None] = {}  # connections, the oldest first
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking for this machine's name: a resolver that hangs would keep it from starting."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        client, address = super().get_request()
        client.settimeout(TIMEOUT_S)
        if self._context is None:
            return client, address
        try:  # files that were renewed count from now on
            self._context = _context(self._tls)
        except ConfigurationError as error:  # a certificate is there before its key
            _log.error("tls_not_reloaded", error=str(error), instead="the former certificate")
        return self._context.wrap_socket(client, server_side=True, do_handshake_on_connect=False), address

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > AT_ONCE else None
            self._open.pop(oldest, None)
        if oldest is not None:
            with contextlib.suppress(OSError):  # the client was quicker
                # Not that of SSLSocket, which forgets the session first: its thread would go on in plain
                # text.
                socket.socket.shutdown(oldest, socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection; called on a thread of its own."""
        if isinstance(request, ssl.SSLSocket):
            request.do_handshake()
        super().finish_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up or are too slow."""


class _Handler(WSGIRequestHandler):
    server_version = "kpe"
    sys_version = ""

    def get_environ(self) -> dict[str, Any]:
        environ = super().get_environ()
        tls = isinstance(self.connection, ssl.SSLSocket)
        environ[_CERTIFIED] = tls and bool(self.connection.getpeercert())
        return environ

    def address_string(self) -> str:
        """Return the client's address, and ask no resolver for its name."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log no requests: there is one every few seconds."""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
