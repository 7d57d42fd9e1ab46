"""The service's HTTP over the loopback: metrics, probes, TLS; and not to be held up by any client."""

import contextlib
import http.client
import shutil
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe import http as http_module
from kafka_partition_events.observe.http import AT_ONCE, HttpServer
from kafka_partition_events.observe.settings import Http
from tests.certificate_kit import Authority

LIMIT_S = 20.0
HERE = ("127.0.0.1", 0)
Serve = Callable[..., HttpServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with contextlib.ExitStack() as servers:

        def serve(**settings: Any) -> HttpServer:
            registry = CollectorRegistry()
            Gauge("kpe_up", "h", registry=registry).set(1)
            for number in range(2_000):  # so that a page does not fit into the buffers of a socket
                Gauge(f"kpe_large_{number}", "x" * 1_000, registry=registry)
            probes = {"/livez": lambda: (None, "ok"), "/readyz": lambda: ("no answer yet", "ok")}
            server = HttpServer(HERE, registry, probes, Http(**settings))
            servers.callback(server.close)
            server.start()
            return server

        yield serve


@pytest.fixture(scope="session")
def authority(openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), openssl)


def ask(server: HttpServer, path: str, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    made = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
    more: Any = {} if context is None else {"context": context}
    connection = made(*server.address, timeout=LIMIT_S, **more)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_metrics_and_probes(serve: Serve) -> None:
    server = serve()
    status, page = ask(server, "/metrics")
    assert (status, "kpe_up 1.0" in page) == (200, True)
    assert ask(server, "/metrics?name[]=kpe_up")[1].splitlines()[-1] == "kpe_up 1.0"
    assert ask(server, "/livez") == (200, "ok\n")
    assert ask(server, "/readyz") == (503, "no answer yet\n")
    assert ask(server, "/") == (404, "there are /metrics, /livez, /readyz\n")


@pytest.mark.parametrize(
    ("clients", "says"),
    [
        (16, b"GET /metrics HTTP/1.1\r\n\r\n"),
        (16, b""),
        (4 * AT_ONCE, b"G"),
        (AT_ONCE, b"GET /livez HTTP/1.1\r\n"),
    ],
    ids=["ask and do not read", "say nothing", "trickle", "do not end"],
)
def test_clients_of_no_good_do_not_shut_the_probes_out(serve: Serve, clients: int, says: bytes) -> None:
    server = serve()
    with contextlib.ExitStack() as sockets:
        for _ in range(clients):
            client = sockets.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.settimeout(LIMIT_S)
            client.connect(server.address)
            client.sendall(says)
        for _ in range(20):
            assert ask(server, "/livez") == (200, "ok\n")


def test_a_connection_has_an_end(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "TIMEOUT_S", 0.3)
    server = serve()
    with socket.create_connection(server.address, timeout=LIMIT_S) as silent:
        assert silent.recv(1) == b""


def test_an_address_that_is_taken_is_told(serve: Serve) -> None:
    host, port = serve().address
    told = rf"http\.listen: {host}:{port}: Address already in use; another program may"
    with pytest.raises(ConfigurationError, match=told):
        HttpServer((host, port), CollectorRegistry(), {}, Http())


def test_an_address_that_this_machine_has_not_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1:80: .*; this machine has no such address"):
        HttpServer(("192.0.2.1", 80), CollectorRegistry(), {}, Http())


def test_it_can_be_closed_before_it_was_started() -> None:
    HttpServer(HERE, CollectorRegistry(), {}, Http()).close()


# -- TLS ---------------------------------------------------------------------------------------------------


def test_a_handshake_that_is_not_made_holds_up_nobody(serve: Serve, authority: Authority) -> None:
    cert, key = authority.issue("server")
    server = serve(tls_cert=cert, tls_key=key)
    with contextlib.ExitStack() as sockets:
        for _ in range(16):
            sockets.enter_context(socket.create_connection(server.address, timeout=LIMIT_S))
        assert ask(server, "/livez", authority.client()) == (200, "ok\n")


def test_metrics_take_a_client_certificate_and_probes_take_none(serve: Serve, authority: Authority) -> None:
    cert, key = authority.issue("server")
    server = serve(tls_cert=cert, tls_key=key, client_ca=authority.ca)
    assert server.url.startswith("https://127.0.0.1:")
    assert ask(server, "/metrics", authority.client()) == (403, "no client certificate\n")
    assert ask(server, "/livez", authority.client()) == (200, "ok\n")
    assert ask(server, "/metrics", authority.client(authority.issue("prometheus")))[0] == 200


def test_a_renewed_certificate_is_taken_over(serve: Serve, authority: Authority, tmp_path: Path) -> None:
    used = tmp_path / "tls.crt", tmp_path / "tls.key"
    for name in ("first", "second"):
        for source, target in zip(authority.issue(name), used, strict=True):
            shutil.copy(source, target)
        if name == "first":
            server = serve(tls_cert=str(used[0]), tls_key=str(used[1]))
        time.sleep(0.01)
        with (
            socket.create_connection(server.address, timeout=LIMIT_S) as plain,
            authority.client().wrap_socket(plain, server_hostname=HERE[0]) as client,
        ):
            assert name in str(client.getpeercert())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"tls_key": "x"}, r"http\.tls_key is of no use without http\.tls_cert"),
        ({"client_ca": "x"}, r"http\.client_ca is of no use without http\.tls_cert"),
        ({"tls_cert": "/nowhere.crt"}, r"http\.tls_cert: /nowhere\.crt: No such file"),
    ],
)
def test_settings_of_no_use_are_told(serve: Serve, settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        serve(**settings)
