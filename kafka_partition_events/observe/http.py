"""A small HTTP server for machines: metrics and health. GET only, a bounded number of requests at a time.

A client that sends its request byte by byte is not waited for: a socket's time-out counts from the last byte,
so sixteen of them would keep all others out for as long as they like. Each connection has an end, and when
there is no room the oldest one that has not asked anything yet makes some. A TLS handshake is part of asking.

Where there is a login, strangers get to know whether the service is well, but not why it is not: a kubelet
can't log in.
"""

import contextlib
import errno
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.observe.login import Login, Refusal
from kafka_partition_events.observe.tls import Certificates

AT_ONCE: Final = 16
"""How many requests are served at a time; one more gets a 503 at once."""
ASKING_S: Final = 5.0
"""How long a client may take to send its request."""
ANSWERING_S: Final = 30.0
"""How long a connection may last."""
_CURES: Final = {
    errno.EADDRINUSE: "another program may listen there",
    errno.EADDRNOTAVAIL: "this machine has no such address; 0.0.0.0 listens at all that it has",
    errno.EACCES: "choose a port above 1023",
}
_CURE: Final = "write HOST:PORT, the host being this machine"
_FOR_STRANGERS: Final = frozenset({"/livez", "/readyz"})
"""Of these a stranger gets the status, and one word."""
_TEXT: Final = "text/plain; charset=utf-8"

_log = get_logger(__name__)


@frozen(kw_only=True)
class Request:
    """What a route may want to know."""

    query: Mapping[str, Sequence[str]]
    accept: str


@frozen(kw_only=True)
class Response:
    """What a route answers."""

    status: int = HTTPStatus.OK
    content_type: str = _TEXT
    body: bytes


Route = Callable[[Request], Response]


class HttpServer:
    """Serves some routes on threads of its own. A slow client holds up its own request only."""

    def __init__(
        self,
        address: tuple[str, int],
        routes: Mapping[str, Route],
        *,
        hosts: Iterable[str] = (),
        certificates: Certificates | None = None,
        login: Login | None = None,
    ) -> None:
        """Listen; nothing is answered before `start`.

        Args:
            address: Host and port; port 0 takes a free one, see `address`.
            routes: What to answer, by path. A route runs on several threads at once.
            hosts: By which names it may be asked, besides this machine's own ones and any address.
            certificates: For TLS; without them it speaks plain HTTP.
            login: Who may read; by default everybody.

        Raises:
            ConfigurationError: the address can't be listened on.
        """
        try:
            names = frozenset(map(str.lower, (*hosts, *_own_names())))
            self._server = _Server(address, routes, names, certificates, login or Login())
        except OSError as error:
            where = f"{address[0]}:{address[1]}"
            raise ConfigurationError(
                f"http.listen: {where}: {error.strerror or error}; {_CURES.get(error.errno or 0, _CURE)}"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="kpe-http", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port, *_ = self._server.server_address
        return str(host), int(port)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Requests under way are left to end by themselves."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = AT_ONCE

    def __init__(
        self,
        address: tuple[str, int],
        routes: Mapping[str, Route],
        hosts: frozenset[str],
        certificates: Certificates | None,
        login: Login,
    ) -> None:
        self.routes, self.hosts, self.login = routes, hosts, login
        self._certificates = certificates
        self._lock = threading.Lock()
        # When each connection began, the oldest first: those that have not asked yet, and the others.
        self._asking: dict[Any, float] = {}
        self._answered: dict[Any, float] = {}
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Take a connection. Its handshake is its own thread's business, see `finish_request`."""
        client, address = super().get_request()
        if self._certificates is None:
            return client, address
        wrapped = self._certificates.context().wrap_socket(
            client, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, address

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection; called on a thread of its own."""
        if isinstance(request, ssl.SSLSocket):
            request.settimeout(ASKING_S)
            request.do_handshake()
        super().finish_request(request, client_address)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._asking) + len(self._answered) >= AT_ONCE
            if full and self._asking:
                self._cut(next(iter(self._asking)))
                full = False
            if not full:
                self._asking[request] = time.monotonic()
        if full:
            if self._certificates is None:  # else it would take a handshake to say so
                request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\n\r\nbusy\n")
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._asking.pop(request, None)
                self._answered.pop(request, None)

    def asked(self, request: Any) -> None:
        """Note that a request has come as a whole."""
        with self._lock:
            if (began := self._asking.pop(request, None)) is not None:
                self._answered[request] = began

    def service_actions(self) -> None:
        """Cut what takes too long; called twice a second."""
        now = time.monotonic()
        with self._lock:
            late = [request for request, began in self._asking.items() if now - began > ASKING_S]
            late += [request for request, began in self._answered.items() if now - began > ANSWERING_S]
            for request in late:
                self._cut(request)

    def _cut(self, request: Any) -> None:
        """End a connection; its thread notices, and closes the socket."""
        self._asking.pop(request, None)
        self._answered.pop(request, None)
        with contextlib.suppress(OSError):  # the client was quicker
            # Not that of SSLSocket, which forgets the session first: its thread would go on in plain text.
            socket.socket.shutdown(request, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up or are too slow."""


class _Handler(BaseHTTPRequestHandler):
    timeout = ANSWERING_S
    server: _Server

    def parse_request(self) -> bool:
        """Return whether it is a request, as a whole."""
        whole = super().parse_request()
        self.server.asked(self.request)
        return whole

    def do_GET(self) -> None:
        if not self._is_for_us(self.headers.get("host")):
            # A page in a browser may be led here by a name of its own (DNS rebinding), and read the answer.
            body = b"there is nobody of this name here; add it to http.hosts, or ask by address\n"
            self._answer(Response(status=HTTPStatus.MISDIRECTED_REQUEST, body=body))
            return
        try:
            url = urlsplit(self.path)
        except ValueError:  # http://[
            self._answer(Response(status=HTTPStatus.BAD_REQUEST, body=b"that is no URL\n"))
            return
        route = self.server.routes.get(url.path)
        refusal = self.server.login.refusal(self.connection, self.headers.get("authorization"))
        if refusal is not None and not (route is not None and url.path in _FOR_STRANGERS):
            self.server.login.note(self.connection, refusal)
            self._answer(Response(status=refusal.status, body=f"{refusal.why}\n".encode()), refusal)
            return
        if route is None:
            paths = " ".join(self.server.routes)
            response = Response(status=HTTPStatus.NOT_FOUND, body=f"there are {paths}\n".encode())
        else:
            request = Request(query=parse_qs(url.query), accept=self.headers.get("accept", ""))
            try:
                response = route(request)
            except Exception as error:  # noqa: BLE001 - a scrape that fails is no reason to end the service
                _log.error("http_route_failed", path=url.path, error=repr(error))
                response = Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, body=b"failed; see the log\n")
        self._answer(response if refusal is None else _for_strangers(response))

    do_HEAD = do_GET  # noqa: N815 - so http.server looks for it

    def _is_for_us(self, host: str | None) -> bool:
        if host is None:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True
        return name in self.server.hosts

    def _answer(self, response: Response, refusal: Refusal | None = None) -> None:
        self.send_response(response.status)
        if refusal is not None and refusal.ask:
            self.send_header("WWW-Authenticate", 'Basic realm="kpe", charset="UTF-8"')
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def version_string(self) -> str:
        """Tell no versions to strangers."""
        return "kpe"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Log no requests: there is one every few seconds."""


def _for_strangers(response: Response) -> Response:
    body = b"ok\n" if response.status == HTTPStatus.OK else b"not ok; log in to read why\n"
    return Response(status=response.status, body=body)


def _own_names() -> Iterator[str]:
    yield "localhost"
    yield socket.gethostname()
