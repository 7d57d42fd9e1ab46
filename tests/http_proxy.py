"""A real egress proxy on loopback: CONNECT tunnels, whole URLs, a login, or whatever it is told to answer."""

import base64
import socket
import threading
from typing import Self

_LINE = b"\r\n"


class Proxy:
    """Takes every name for this machine, as only its own resolver does, and keeps what it is asked."""

    def __init__(
        self, *, login: str | None = None, answer: bytes | None = None, silent: bool = False
    ) -> None:
        self._authorization = None if login is None else f"Basic {base64.b64encode(login.encode()).decode()}"
        self._answer, self._silent = answer, silent
        self._over = False
        self._open: list[socket.socket] = []
        self.asked: list[str] = []
        self.heads: list[dict[str, str]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over = True
        socket.create_connection(("127.0.0.1", self.port)).close()  # wakes what accepts
        self._thread.join(10)
        self._listening.close()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            if self._over:
                client.close()
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            self._answered(client)
        except OSError:
            pass  # somebody has hung up: that is what tests are about
        finally:
            if not self._silent:
                client.close()

    def _answered(self, client: socket.socket) -> None:
        head = b""
        while _LINE * 2 not in head:
            if not (more := client.recv(4096)):
                return
            head += more
        head, _, rest = head.partition(_LINE * 2)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        self.asked.append(first)
        self.heads.append(headers)
        if self._silent:
            return
        if self._answer is not None:
            client.sendall(self._answer)
            return
        if self._authorization not in {None, headers.get("proxy-authorization")}:
            client.sendall(b"HTTP/1.1 407 Give me T0K3N\r\ncontent-length: 0\r\n\r\n")
            return
        method, target, version = first.split(" ")
        if method == "CONNECT":
            upstream = self._connected(int(target.rpartition(":")[2]))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            authority, _, path = target.removeprefix("http://").partition("/")
            upstream = self._connected(int(authority.rpartition(":")[2]))
            kept = [line for line in lines if not line.lower().startswith("proxy-")]
            rest = _LINE.join(s.encode() for s in (f"{method} /{path} {version}", *kept)) + _LINE * 2 + rest
        upstream.sendall(rest)
        back = threading.Thread(target=_pump, args=(upstream, client), daemon=True)
        back.start()
        _pump(client, upstream)
        back.join(10)

    def _connected(self, port: int) -> socket.socket:
        upstream = socket.create_connection(("127.0.0.1", port))
        self._open.append(upstream)
        return upstream


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
