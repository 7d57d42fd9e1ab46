"""The other end of a webhook, on this machine."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Keeps what is posted to it. Thread-safe.

    Attributes:
        url: Where to post.
        bodies: What was posted.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/kafka"
        self.bodies: list[bytes] = []
        self._came = threading.Condition()

    def keep(self, body: bytes) -> None:
        """Keep one."""
        with self._came:
            self.bodies.append(body)
            self._came.notify_all()

    def await_posts(self, many: int, seconds: float) -> None:
        """Wait until so many have come, but not for longer than so many seconds."""
        with self._came:
            self._came.wait_for(lambda: len(self.bodies) >= many, seconds)


@contextlib.contextmanager
def open_receiver() -> Iterator[Receiver]:
    """Receive on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.keep(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(server.server_port)
        thread = threading.Thread(target=server.serve_forever, name="kpe-demo-webhook", daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join(5.0)
