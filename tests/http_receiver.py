"""A real HTTP server on loopback that answers as it is told to."""

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from attrs import frozen

from kafka_partition_events_listeners.webhook.signature import key_of, signed_headers

Answer = int | Callable[[BaseHTTPRequestHandler], object]
"""A status, or what to do with the connection in its place."""


@frozen
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    """When it came, in seconds since the epoch."""


class Receiver:
    """Keeps requests, and answers them one after the other; the last answer counts for all that follow."""

    def __init__(self, *answers: Answer, context: ssl.SSLContext | None = None) -> None:
        self._answers = list(answers) or [200]
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self.connections = 0
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/services/T0K3N"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def requests(self) -> list[Request]:
        """The requests so far."""
        with self._lock:
            return list(self._requests)

    def answer(self, answer: Answer) -> None:
        """Answer so from now on."""
        with self._lock:
            self._answers = [answer]

    def take(self, request: Request) -> Answer:
        """Keep a request and return what to answer."""
        with self._lock:
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            self._requests.append(request)
            return answer


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that go away, and answers that break off, are what the tests are about."""


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            receiver.connections += 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = receiver.take(Request(self.path, headers, body, time.time()))
            if not isinstance(answer, int):
                answer(self)
                return
            self.send_response(answer)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    return Handler


def is_signed(body: bytes, headers: Mapping[str, str], secret: str) -> bool:
    """Tell whether a request bears the signature of what it says, by a secret."""
    got = {name.lower(): value for name, value in headers.items()}
    signed = signed_headers(got["webhook-id"], int(got["webhook-timestamp"]), body, [key_of(secret)])
    return signed.items() <= got.items()
