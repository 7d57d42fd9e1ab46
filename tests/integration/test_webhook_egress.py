"""Webhooks through real proxies and real TLS: logins, authorities, client certificates, and one deadline."""

import logging
import os
import shutil
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafka_partition_events.outbox import DeliveryError, Entry
from kafka_partition_events.testing.ports import free_ports
from kafka_partition_events_listeners.webhook.egress import Egress
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from kafka_partition_events_listeners.webhook.target import CheckedTransport
from tests.certificates import Authority, Issued
from tests.http_proxy import Proxy
from tests.http_receiver import Receiver

NOW = datetime.now(UTC)
HOST = "hooks.example.com"


def entry(n: int) -> Entry:
    return Entry(
        id=f"id-{n}", name="broker.left", key="c-1", severity=17, at=NOW, recorded_at=NOW, body=b"{}", seq=n
    )


def sink_to(
    url: str, *, timeout: float = 5.0, headers: dict[str, str] | None = None, **egress: Any
) -> WebhookSink:
    """Return a sink to which every name is this machine's, unless there is a proxy."""
    settings = Egress(allow_private="proxy" not in egress, **egress)
    transport = CheckedTransport(settings, resolve=loopback)
    return WebhookSink(url, timeout=timeout, headers=headers, egress=settings, transport=transport)


def deliver(url: str, **options: Any) -> None:
    sink = sink_to(url, **options)
    try:
        sink.deliver([entry(1)])
    finally:
        sink.close()


def failure(url: str, **options: Any) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        deliver(url, **options)
    assert not caught.value.refused  # it holds the queue, and makes no dead letter of an entry
    assert not caught.value.gone
    return caught.value


def loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def https(issued: Issued, *answers: Any, clients: Path | None = None) -> Iterator[Receiver]:
    """A server with a certificate; with ``clients`` it wants one of its clients, from that authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
    context.load_cert_chain(issued.cert, issued.key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # where a refusal comes before the client's request
    with Receiver(*answers, context=context) as receiver:
        yield receiver


def at(receiver: Receiver, host: str = HOST) -> str:
    return f"https://{host}:{receiver.port}/T0K3N"


# -- authorities ---------------------------------------------------------------------------------------


def test_an_authority_of_ones_own_is_trusted(authority: Authority) -> None:
    with https(authority.issue(HOST)) as receiver:
        deliver(at(receiver), ca_file=str(authority.ca))
        assert len(receiver.requests) == 1


def test_and_no_other_one_is(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    with https(authority.issue(HOST)) as receiver:
        error = failure(at(receiver), ca_file=str(other.ca))
        assert receiver.requests == []
    assert error.reason == "tls"
    assert "name its authority by ca_file" in str(error)
    assert str(error).startswith(f"webhook: https://{HOST}:{receiver.port}: its certificate proves nothing: ")


def test_not_even_those_that_the_machine_trusts(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Authority(tmp_path, "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    with https(authority.issue(HOST)) as receiver:
        deliver(at(receiver))
        assert failure(at(receiver), ca_file=str(other.ca)).reason == "tls"


def test_a_certificate_of_the_target_that_has_expired(authority: Authority) -> None:
    with https(authority.issue(HOST, days=-1)) as receiver:
        error = failure(at(receiver), ca_file=str(authority.ca))
    assert error.reason == "tls"
    assert "certificate has expired" in str(error)
    assert "ca_file" not in str(error)


# -- client certificates -------------------------------------------------------------------------------


def test_a_target_that_wants_a_certificate_gets_it(authority: Authority, tmp_path: Path) -> None:
    me = authority.issue("kpe")
    both = tmp_path / "both.pem"
    both.write_bytes(me.cert.read_bytes() + me.key.read_bytes())
    with https(authority.issue(HOST), clients=authority.ca) as receiver:
        ca = str(authority.ca)
        deliver(at(receiver), ca_file=ca, client_cert=str(me.cert), client_key=str(me.key))
        deliver(at(receiver), ca_file=ca, client_cert=str(both))
        assert len(receiver.requests) == 2


@pytest.mark.parametrize("given", ["none", "expired", "of another authority"])
def test_a_target_that_does_not_take_the_certificate(
    given: str, authority: Authority, tmp_path: Path
) -> None:
    issuer = Authority(tmp_path, "other") if given == "of another authority" else authority
    me = issuer.issue("kpe", days=-1 if given == "expired" else 1)
    mine = {} if given == "none" else {"client_cert": str(me.cert), "client_key": str(me.key)}
    with https(authority.issue(HOST), clients=authority.ca) as receiver:
        error = failure(at(receiver), ca_file=str(authority.ca), **mine)
        assert receiver.requests == []
    assert error.reason == "tls"
    assert "look at client_cert and client_key" in str(error)


# -- files that change ---------------------------------------------------------------------------------


def replaced(path: Path, source: Path) -> None:
    """Put another file in a file's place, as those who renew certificates do."""
    new = path.with_suffix(".new")
    shutil.copy(source, new)
    os.replace(new, path)  # noqa: PTH105


def test_a_renewed_client_certificate_is_taken_over_without_a_restart(
    authority: Authority, tmp_path: Path
) -> None:
    old, new = authority.issue("kpe", days=-1), authority.issue("kpe")
    cert, key = tmp_path / "me.pem", tmp_path / "me.key"
    shutil.copy(old.cert, cert)
    shutil.copy(old.key, key)
    with https(authority.issue(HOST), clients=authority.ca) as receiver:
        sink = sink_to(at(receiver), ca_file=str(authority.ca), client_cert=str(cert), client_key=str(key))
        with pytest.raises(DeliveryError, match="expired"):
            sink.deliver([entry(1)])
        replaced(cert, new.cert)  # its key comes a moment later
        with capture_logs() as logs, pytest.raises(DeliveryError, match="expired"):
            sink.deliver([entry(1)])
        with capture_logs() as again, pytest.raises(DeliveryError, match="expired"):
            sink.deliver([entry(1)])
        replaced(key, new.key)
        sink.deliver([entry(1)])
        sink.close()
        assert len(receiver.requests) == 1
    assert [line["event"] for line in logs] == ["webhook_files_refused"]
    assert "not of one another" in logs[0]["error"]
    assert not again


def test_another_authority_ends_connections_that_the_former_one_vouched_for(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    trusted = tmp_path / "trusted.pem"
    shutil.copy(authority.ca, trusted)
    with https(authority.issue(HOST)) as receiver:
        sink = sink_to(at(receiver), ca_file=str(trusted))
        sink.deliver([entry(1)])
        sink.deliver([entry(2)])
        assert receiver.connections == 1
        replaced(trusted, other.ca)
        with pytest.raises(DeliveryError) as caught:
            sink.deliver([entry(3)])
        assert caught.value.reason == "tls"
        trusted.unlink()  # what is gone is no news: the authority that was read last stays in force
        with pytest.raises(DeliveryError, match="proves nothing"):
            sink.deliver([entry(3)])
        shutil.copy(authority.ca, trusted)
        sink.deliver([entry(3)])
        sink.close()
        assert [request.headers["webhook-id"] for request in receiver.requests] == ["id-1", "id-2", "id-3"]


# -- through a proxy -----------------------------------------------------------------------------------


def test_https_goes_through_a_tunnel_of_which_the_proxy_sees_the_name_only(authority: Authority) -> None:
    headers = {"Authorization": "Bearer T0K3N"}
    with Proxy() as proxy, https(authority.issue(HOST)) as receiver:
        sink = sink_to(at(receiver), proxy=proxy.url, ca_file=str(authority.ca), headers=headers)
        sink.deliver([entry(1)])
        sink.deliver([entry(2)])
        sink.close()
        assert [request.headers["authorization"] for request in receiver.requests] == ["Bearer T0K3N"] * 2
        assert all("proxy-authorization" not in request.headers for request in receiver.requests)
    assert proxy.asked == [f"CONNECT {HOST}:{receiver.port} HTTP/1.1"]
    assert "T0K3N" not in str(proxy.heads)


def test_http_is_asked_for_by_the_whole_url() -> None:
    with Proxy() as proxy, Receiver() as receiver:
        deliver(f"http://{HOST}:{receiver.port}/T0K3N?k=v", proxy=proxy.url)
        (request,) = receiver.requests
    assert proxy.asked == [f"POST http://{HOST}:{receiver.port}/T0K3N?k=v HTTP/1.1"]
    assert request.path == "/T0K3N?k=v"
    assert request.headers["host"] == f"{HOST}:{receiver.port}"


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_proxy_may_want_a_login(
    scheme: str, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = https(authority.issue(HOST)) if scheme == "https" else Receiver()
    files = {"ca_file": str(authority.ca)} if scheme == "https" else {}
    with Proxy(login="kpe:T0 K3N@") as proxy, server as receiver:
        url = f"{scheme}://{HOST}:{receiver.port}/"
        error = failure(url, proxy=proxy.url, **files)
        assert error.reason == ("proxy" if scheme == "https" else "http_407")
        assert "look at the login in proxy" in str(error)
        assert f"through {proxy.url}" in str(error)
        deliver(url, proxy=proxy.url.replace("//", "//kpe:T0%20K3N%40@"), **files)
        assert len(receiver.requests) == 1
        assert "proxy-authorization" not in receiver.requests[0].headers
    assert "T0K3N" not in str(error)  # which is what the proxy says
    assert "T0 K3N" not in caplog.text
    assert b64encode(b"kpe:T0 K3N@").decode() not in caplog.text


@pytest.mark.parametrize(("status", "cure"), [("403", "lets nothing through"), ("502", ""), ("301", "")])
def test_a_proxy_that_does_not_let_it_through(status: str, cure: str) -> None:
    with Proxy(answer=f"HTTP/1.1 {status} T0K3N\r\ncontent-length: 0\r\n\r\n".encode()) as proxy:
        error = failure(f"https://{HOST}/", proxy=proxy.url)
    assert error.reason == "proxy"
    assert f"the proxy answered {status}{'; it ' if cure else ''}{cure}" in str(error)
    assert "T0K3N" not in str(error)


def test_a_proxy_that_speaks_something_else() -> None:
    with Proxy(answer=b"220 smtp.example.com ESMTP\r\n") as proxy:
        error = failure(f"https://{HOST}/", proxy=proxy.url)
    assert error.reason == "connect"
    assert "smtp" not in str(error)


def test_a_proxy_that_nobody_listens_at() -> None:
    (port,) = free_ports(1)
    error = failure(f"https://{HOST}/", proxy=f"http://localhost:{port}")
    assert error.reason == "connect"
    assert f"through http://localhost:{port}: " in str(error)


def test_a_certificate_behind_a_proxy_is_judged_by_the_name_and_holds_the_queue(authority: Authority) -> None:
    with Proxy() as proxy, https(authority.issue("other.example.com")) as receiver:
        error = failure(at(receiver), proxy=proxy.url, ca_file=str(authority.ca))
        assert receiver.requests == []
    assert error.reason == "tls"
    assert f"not valid for '{HOST}'" in str(error)


def test_tunnels_that_have_failed_leave_room_for_one_that_does_not(
    authority: Authority, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    shutil.copy(Authority(tmp_path, "other").ca, trusted)
    with Proxy() as proxy, https(authority.issue(HOST)) as receiver:
        sink = sink_to(at(receiver), proxy=proxy.url, ca_file=str(trusted))
        for _ in range(12):
            with pytest.raises(DeliveryError) as caught:
                sink.deliver([entry(1)])
            assert caught.value.reason == "tls"
        replaced(trusted, authority.ca)
        sink.deliver([entry(1)])
        sink.close()
        assert len(receiver.requests) == 1


# -- one deadline --------------------------------------------------------------------------------------


def timed_out(url: str, **options: Any) -> DeliveryError:
    started = time.monotonic()
    error = failure(url, timeout=0.3, **options)
    assert error.reason == "timeout"
    assert time.monotonic() - started < 5
    return error


def test_a_proxy_that_accepts_and_never_answers() -> None:
    with Proxy(silent=True) as proxy:
        error = timed_out(f"https://{HOST}/", proxy=proxy.url)
        assert proxy.asked == [f"CONNECT {HOST}:443 HTTP/1.1"]
        timed_out(f"http://{HOST}/", proxy=proxy.url)
    assert f"through {proxy.url}: " in str(error)


@contextmanager
def trickling(*, before: bytes = b"", drop: bytes = b"HTTP/1.1 200 OK\r\nx: y\r\n" * 99) -> Iterator[int]:
    """A server that answers at once with one part, then byte by byte with another one. Yields its port."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        client, _ = listening.accept()
        with client:
            client.recv(65536)
            client.sendall(before)
            for place in range(len(drop)):
                if over.wait(0.05):
                    return
                try:
                    client.sendall(drop[place : place + 1])
                except OSError:
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        thread.join(10)
        listening.close()


def test_a_proxy_that_trickles_its_answer_to_connect() -> None:
    with trickling() as port:
        timed_out(f"https://{HOST}/", proxy=f"http://127.0.0.1:{port}")


def test_a_handshake_that_trickles_through_a_tunnel() -> None:
    record = b"\x16\x03\x03\x40\x00" + b"\x02" * 999  # the head of a record, and never all of it
    with trickling(before=b"HTTP/1.1 200 OK\r\n\r\n", drop=record) as port:
        timed_out(f"https://{HOST}/", proxy=f"http://127.0.0.1:{port}")


def test_a_handshake_that_trickles_without_one() -> None:
    with trickling(drop=b"\x16\x03\x03\x40\x00" + b"\x02" * 999) as port:
        timed_out(f"https://{HOST}:{port}/")


def test_a_target_behind_a_tunnel_that_does_not_answer(authority: Authority) -> None:
    over = threading.Event()
    with Proxy() as proxy, https(authority.issue(HOST), lambda _: over.wait(10)) as receiver:
        timed_out(at(receiver), proxy=proxy.url, ca_file=str(authority.ca))
        over.set()


def test_a_tunnel_is_used_again_within_a_new_deadline(authority: Authority) -> None:
    with Proxy() as proxy, https(authority.issue(HOST)) as receiver:
        sink = sink_to(at(receiver), proxy=proxy.url, ca_file=str(authority.ca), timeout=0.5)
        for number in range(4):
            sink.deliver([entry(number)])
            time.sleep(0.2)
        sink.close()
        assert receiver.connections == 1
    assert len(proxy.asked) == 1
