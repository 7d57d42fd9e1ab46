"""The service's HTTP server, over the loopback: bounded, and not to be held up by one client."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe import http as http_module
from kafka_partition_events.observe.http import AT_ONCE, HttpServer, Request, Response

LIMIT_S = 20.0


class Held:
    """A route that does not answer before it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.busy = threading.Semaphore(0)

    def __call__(self, _request: Request) -> Response:
        self.busy.release()
        self.go.wait(LIMIT_S)
        return Response(body=b"done")


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.go.set()


@pytest.fixture
def server(held: Held) -> Iterator[HttpServer]:
    def broken(_request: Request) -> Response:
        raise RuntimeError("a bug")

    def echo(request: Request) -> Response:
        return Response(body=f"{dict(request.query)} {request.accept}".encode())

    server = HttpServer(("127.0.0.1", 0), {"/echo": echo, "/broken": broken, "/held": held})
    server.start()
    yield server
    server.close()


def ask(server: HttpServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(*server.address, timeout=LIMIT_S)
    with contextlib.closing(connection):
        connection.request(method, path, headers={"Accept": "text/plain"})
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_a_route_hears_the_query_and_what_is_accepted(server: HttpServer) -> None:
    assert ask(server, "/echo?name[]=a&name[]=b") == (200, "{'name[]': ['a', 'b']} text/plain")


def test_head_has_no_body(server: HttpServer) -> None:
    assert ask(server, "/echo", "HEAD") == (200, "")


def test_what_there_is_not_is_told_with_what_there_is(server: HttpServer) -> None:
    assert ask(server, "/") == (404, "there are /echo /broken /held\n")
    assert ask(server, "/echo", "POST")[0] == 501


def test_a_route_that_raises_is_an_answer_too(server: HttpServer) -> None:
    assert ask(server, "/broken") == (500, "failed; see the log\n")


def test_slow_requests_hold_up_nobody_else_until_there_are_too_many(server: HttpServer, held: Held) -> None:
    answers: list[tuple[int, str]] = []
    slow = [threading.Thread(target=lambda: answers.append(ask(server, "/held"))) for _ in range(AT_ONCE - 1)]
    for thread in slow:
        thread.start()
    for _ in slow:
        assert held.busy.acquire(timeout=LIMIT_S)
    began = time.monotonic()
    assert ask(server, "/echo")[0] == 200
    assert time.monotonic() - began < 1.0
    one_more = threading.Thread(target=lambda: answers.append(ask(server, "/held")))
    one_more.start()
    assert held.busy.acquire(timeout=LIMIT_S)
    assert ask(server, "/echo") == (503, "busy\n")
    held.go.set()
    for thread in (*slow, one_more):
        thread.join(LIMIT_S)
    assert answers == [(200, "done")] * AT_ONCE


def test_a_client_that_says_nothing_holds_up_nobody(server: HttpServer) -> None:
    with socket.create_connection(server.address, timeout=LIMIT_S):
        assert ask(server, "/echo")[0] == 200


def test_clients_that_trickle_hold_up_nobody_however_many_there_are(server: HttpServer) -> None:
    with contextlib.ExitStack() as sockets:
        slow = [
            sockets.enter_context(socket.create_connection(server.address, timeout=LIMIT_S))
            for _ in range(4 * AT_ONCE)
        ]
        for _ in range(20):
            for each in slow:
                with contextlib.suppress(OSError):
                    each.sendall(b"G")
            assert ask(server, "/echo")[0] == 200


def test_a_connection_has_an_end(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "ASKING_S", 0.5)
    with socket.create_connection(server.address, timeout=LIMIT_S) as slow:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < LIMIT_S:
                slow.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - began < LIMIT_S / 2


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9404", 200),
        ("127.0.0.1", 200),
        ("[::1]:9404", 200),
        (socket.gethostname(), 200),
        ("KPE.example", 200),
        (None, 200),
        ("evil.example", 421),
        ("evil.example:9404", 421),
        ("127.0.0.1.evil.example", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_it_answers_to_its_own_names_only(host: str | None, status: int) -> None:
    server = HttpServer(("127.0.0.1", 0), {"/ok": lambda _: Response(body=b"ok")}, hosts=["kpe.example"])
    server.start()
    with contextlib.closing(server), socket.create_connection(server.address, timeout=LIMIT_S) as client:
        header = "" if host is None else f"Host: {host}\r\n"
        client.sendall(f"GET /ok HTTP/1.0\r\n{header}\r\n".encode())
        assert client.recv(100).split()[1] == str(status).encode()


def test_an_address_that_is_taken_is_told(server: HttpServer) -> None:
    host, port = server.address
    told = rf"http\.listen: {host}:{port}: Address already in use; another program may"
    with pytest.raises(ConfigurationError, match=told):
        HttpServer(server.address, {})


def test_an_address_that_this_machine_has_not_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1:80: .*; this machine has no such address"):
        HttpServer(("192.0.2.1", 80), {})


def test_it_can_be_closed_before_it_was_started() -> None:
    HttpServer(("127.0.0.1", 0), {}).close()
