"""The service's HTTP with TLS and a login, over the loopback: who may read, and who holds up whom."""

import base64
import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe import http as http_module
from kafka_partition_events.observe.http import AT_ONCE, HttpServer, Response
from kafka_partition_events.observe.login import guard, warn_if_open
from kafka_partition_events.observe.passwords import hash_password
from kafka_partition_events.observe.settings import Http
from tests.certificate_kit import Authority

LIMIT_S = 20.0
USERS = {"prometheus": hash_password("scrape me")}
Serve = Callable[..., HttpServer]


@pytest.fixture(scope="session")
def authority(openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), openssl)


@pytest.fixture(scope="session")
def stranger(openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"), openssl, "other")


@pytest.fixture(scope="session")
def pair(authority: Authority) -> tuple[str, str]:
    return authority.issue("server")


@pytest.fixture
def serve() -> Iterator[Serve]:
    with contextlib.ExitStack() as servers:

        def serve(**settings: Any) -> HttpServer:
            certificates, login = guard(Http(**settings))

            def ill(_request: object) -> Response:
                return Response(status=503, body=b"no answer from broker-1.internal\n")

            routes = {"/metrics": _says(b"kpe_up 1\n"), "/livez": _says(b"ok, standing by\n"), "/readyz": ill}
            server = HttpServer(("127.0.0.1", 0), routes, certificates=certificates, login=login)
            servers.callback(server.close)
            server.start()
            return server

        yield serve


def _says(body: bytes) -> Callable[[object], Response]:
    return lambda _request: Response(body=body)


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def ask(
    server: HttpServer, path: str, context: ssl.SSLContext | None = None, headers: Any = None
) -> tuple[int, str]:
    host, port = server.address
    connection = (
        http.client.HTTPConnection(host, port, timeout=LIMIT_S)
        if context is None
        else http.client.HTTPSConnection(host, port, timeout=LIMIT_S, context=context)
    )
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


LOGIN = basic("prometheus", "scrape me")


class TestPasswords:
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            basic("prometheus", "wrong"),
            basic("nobody", "scrape me"),
            basic("", ""),
            {"Authorization": "Basic ***"},
            {"Authorization": "Basic cHJvbWV0aGV1cw=="},
            {"Authorization": "Bearer scrape me"},
        ],
    )
    def test_without_the_right_one_there_are_no_metrics(self, serve: Serve, headers: Any) -> None:
        server = serve(users=USERS)
        assert ask(server, "/metrics", headers=headers)[0] == 401
        assert ask(server, "/no-such-thing", headers=headers) == ask(server, "/metrics", headers=headers)

    def test_with_it_there_are(self, serve: Serve) -> None:
        server = serve(users=USERS)
        assert ask(server, "/metrics", headers=LOGIN) == (200, "kpe_up 1\n")
        assert ask(server, "/readyz", headers=LOGIN) == (503, "no answer from broker-1.internal\n")

    def test_the_client_is_told_how_to_log_in(self, serve: Serve) -> None:
        connection = http.client.HTTPConnection(*serve(users=USERS).address, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            assert answer.headers["WWW-Authenticate"] == 'Basic realm="kpe", charset="UTF-8"'

    def test_probes_tell_strangers_whether_and_not_why(self, serve: Serve) -> None:
        server = serve(users=USERS)
        assert ask(server, "/livez") == (200, "ok\n")
        assert ask(server, "/readyz") == (503, "not ok; log in to read why\n")

    def test_guesses_leave_one_line_and_no_name(self, serve: Serve) -> None:
        server = serve(users=USERS)
        with capture_logs() as logs:
            for _ in range(3):
                assert ask(server, "/metrics", headers=basic("hunter2", "x"))[0] == 401
        told = [{**line} for line in logs if line["event"] == "http_refused"]
        assert told == [
            {
                "event": "http_refused",
                "log_level": "warning",
                "client": "127.0.0.1",
                "why": "wrong user or password",
                "since_last_line": 1,
            }
        ]


class TestTls:
    def test_metrics_are_read_by_who_trusts_the_certificate(
        self, serve: Serve, authority: Authority, stranger: Authority, pair: tuple[str, str]
    ) -> None:
        server = serve(tls_cert=pair[0], tls_key=pair[1])
        assert ask(server, "/metrics", authority.client()) == (200, "kpe_up 1\n")
        with pytest.raises(ssl.SSLError):
            ask(server, "/metrics", stranger.client())

    def test_plain_http_gets_nothing(self, serve: Serve, pair: tuple[str, str]) -> None:
        server = serve(tls_cert=pair[0], tls_key=pair[1])
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(server, "/metrics")

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_an_old_tls_is_refused(
        self, serve: Serve, authority: Authority, pair: tuple[str, str], version: ssl.TLSVersion
    ) -> None:
        client = authority.client()
        client.maximum_version = version
        least = serve(tls_cert=pair[0], tls_key=pair[1], tls_min_version="1.3")
        assert ask(serve(tls_cert=pair[0], tls_key=pair[1]), "/livez", client)[0] == 200
        if version is ssl.TLSVersion.TLSv1_3:
            assert ask(least, "/livez", client)[0] == 200
        else:
            with pytest.raises(ssl.SSLError):
                ask(least, "/livez", client)

    def test_the_key_may_stand_with_the_certificate(
        self, serve: Serve, authority: Authority, pair: tuple[str, str], tmp_path: Path
    ) -> None:
        both = tmp_path / "both.pem"
        both.write_text("".join(Path(each).read_text() for each in pair))
        assert ask(serve(tls_cert=str(both)), "/livez", authority.client())[0] == 200

    def test_a_renewed_certificate_is_taken_over(
        self, serve: Serve, authority: Authority, tmp_path: Path
    ) -> None:
        def put(pair: tuple[str, str]) -> None:
            for source, target in zip(pair, (cert, key), strict=True):
                Path(f"{target}.new").write_bytes(Path(source).read_bytes())
                Path(f"{target}.new").replace(target)

        cert, key = str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")
        put(authority.issue("old"))
        server = serve(tls_cert=cert, tls_key=key)
        before = _presented(server, authority)
        renewed = authority.issue("renewed")
        Path(cert).write_bytes(Path(renewed[0]).read_bytes())  # and its key not yet
        with capture_logs() as logs:
            assert _presented(server, authority) == before
            assert _presented(server, authority) == before
        assert [line["event"] for line in logs] == ["tls_not_reloaded"], "told once"
        put(renewed)
        assert _presented(server, authority) != before
        Path(cert).unlink()
        assert ask(server, "/livez", authority.client())[0] == 200

    def test_what_can_not_be_used_is_told_by_its_setting(
        self, authority: Authority, stranger: Authority, pair: tuple[str, str], tmp_path: Path
    ) -> None:
        (tmp_path / "text").write_text("no PEM")
        shut = authority.issue("shut", passphrase="secret")  # noqa: S106 - of a test
        wrong = {
            rf"{tmp_path}/none: No such file": {"tls_cert": f"{tmp_path}/none", "tls_key": pair[1]},
            rf"{tmp_path}/gone: No such file": {"tls_cert": pair[0], "tls_key": f"{tmp_path}/gone"},
            r"http\.tls_key: .*key values mismatch": {
                "tls_cert": pair[0],
                "tls_key": stranger.issue("server")[1],
            },
            r"http\.tls_cert: .*/text: ": {"tls_cert": f"{tmp_path}/text"},
            r"http\.client_ca: .*/text: ": {
                "tls_cert": pair[0],
                "tls_key": pair[1],
                "client_ca": f"{tmp_path}/text",
            },
            r"http\.tls_key: .*must not have a passphrase": {"tls_cert": shut[0], "tls_key": shut[1]},
            r"http\.tls_key is of no use without http\.tls_cert": {"tls_key": pair[1]},
            r"http\.client_ca is of no use without http\.tls_cert": {"client_ca": authority.ca},
            r"http\.client_names is of no use without http\.client_ca": {"client_names": ("a",)},
        }
        for told, settings in wrong.items():
            with pytest.raises(ConfigurationError, match=told):
                guard(Http(**settings))  # type: ignore[arg-type]


class TestClientCertificates:
    @pytest.fixture
    def server(self, serve: Serve, authority: Authority, pair: tuple[str, str]) -> HttpServer:
        return serve(tls_cert=pair[0], tls_key=pair[1], client_ca=authority.ca)

    def test_who_has_one_reads(self, server: HttpServer, authority: Authority) -> None:
        client = authority.client(authority.issue("prometheus", of="DNS:prometheus.example"))
        assert ask(server, "/metrics", client) == (200, "kpe_up 1\n")
        assert ask(server, "/readyz", client)[1] == "no answer from broker-1.internal\n"

    def test_who_has_none_gets_probes_only(self, server: HttpServer, authority: Authority) -> None:
        with capture_logs() as logs:
            assert ask(server, "/livez", authority.client()) == (200, "ok\n")
        assert logs == [], "a kubelet asks each few seconds"
        assert ask(server, "/metrics", authority.client()) == (403, "no client certificate\n")

    def test_another_authoritys_is_none(
        self, server: HttpServer, authority: Authority, stranger: Authority
    ) -> None:
        client = authority.client(stranger.issue("prometheus"))
        with pytest.raises(OSError):  # noqa: PT011 - reset or an alert: the handshake fails
            ask(server, "/metrics", client)

    def test_of_an_authority_of_many_some_may_be_named(
        self, serve: Serve, authority: Authority, pair: tuple[str, str]
    ) -> None:
        server = serve(
            tls_cert=pair[0],
            tls_key=pair[1],
            client_ca=authority.ca,
            client_names=("prometheus.example", "noc"),
        )
        by_name = authority.client(authority.issue("one", of="DNS:prometheus.example"))
        by_common_name = authority.client(authority.issue("noc", of="DNS:x.example"))
        other = authority.client(authority.issue("two", of="DNS:prometheus.example.evil.example"))
        assert [ask(server, "/metrics", each)[0] for each in (by_name, by_common_name, other)] == [
            200,
            200,
            403,
        ]

    def test_certificate_and_password_are_both_needed_where_both_are_asked_for(
        self, serve: Serve, authority: Authority, pair: tuple[str, str]
    ) -> None:
        server = serve(tls_cert=pair[0], tls_key=pair[1], client_ca=authority.ca, users=USERS)
        client = authority.client(authority.issue("prometheus"))
        assert ask(server, "/metrics", client)[0] == 401
        assert ask(server, "/metrics", authority.client(), LOGIN)[0] == 403
        assert ask(server, "/metrics", client, LOGIN)[0] == 200


class TestSlowHandshakes:
    @pytest.fixture
    def server(self, serve: Serve, pair: tuple[str, str]) -> HttpServer:
        return serve(tls_cert=pair[0], tls_key=pair[1], users=USERS)

    def test_they_hold_up_nobody_however_many_there_are(
        self, server: HttpServer, authority: Authority
    ) -> None:
        with contextlib.ExitStack() as sockets:
            slow = [
                sockets.enter_context(socket.create_connection(server.address, timeout=LIMIT_S))
                for _ in range(4 * AT_ONCE)
            ]
            hello = _client_hello(authority)
            for place in range(20):
                for each in slow:
                    with contextlib.suppress(OSError):
                        each.sendall(hello[place : place + 1])
                began = time.monotonic()
                assert ask(server, "/metrics", authority.client(), LOGIN)[0] == 200
                assert time.monotonic() - began < 5.0

    def test_they_have_an_end(self, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(http_module, "ASKING_S", 0.5)
        with socket.create_connection(server.address, timeout=LIMIT_S) as slow:
            assert slow.recv(1) == b""

    def test_who_shakes_hands_and_then_says_nothing_has_an_end_too(
        self, server: HttpServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(http_module, "ASKING_S", 0.5)
        with (
            socket.create_connection(server.address, timeout=LIMIT_S) as plain,
            authority.client().wrap_socket(plain, server_hostname="127.0.0.1") as slow,
            contextlib.suppress(OSError),
        ):
            assert slow.recv(1) == b""


@pytest.mark.parametrize(
    ("host", "settings", "missing"),
    [
        ("127.0.0.1", {}, []),
        ("::1", {}, []),
        ("0.0.0.0", {}, ["TLS and login"]),  # noqa: S104 - the very thing
        ("10.0.0.1", {"users": USERS}, ["TLS"]),
        ("::", {}, ["TLS and login"]),
    ],
)
def test_an_open_door_is_told(host: str, settings: Any, missing: list[str]) -> None:
    with capture_logs() as logs:
        warn_if_open(host, *guard(Http(**settings)))
    assert [line["missing"] for line in logs] == missing


def test_a_shut_one_is_not(pair: tuple[str, str], authority: Authority) -> None:
    with capture_logs() as logs:
        warn_if_open("0.0.0.0", *guard(Http(tls_cert=pair[0], tls_key=pair[1], client_ca=authority.ca)))  # noqa: S104
    assert logs == []


def _presented(server: HttpServer, authority: Authority) -> bytes | None:
    with (
        socket.create_connection(server.address, timeout=LIMIT_S) as plain,
        authority.client().wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        return client.getpeercert(binary_form=True)


def _client_hello(authority: Authority) -> bytes:
    out = ssl.MemoryBIO()
    client = authority.client().wrap_bio(ssl.MemoryBIO(), out, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()
