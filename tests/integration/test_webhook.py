"""Webhooks to a real HTTP server: TLS, names, targets that are slow, gone, or lead somewhere else."""

import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.outbox import DeliveryError, Entry, RetryPolicy
from kafka_partition_events.testing import RecordingListener, ScriptedSource
from kafka_partition_events.testing.ports import free_ports
from kafka_partition_events.testing.scripted import observe
from kafka_partition_events_listeners.sink_listener import SinkListener
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.http_receiver import Receiver, is_signed
from tests.outbox_kit import entry as made
from tests.poller_kit import eventually

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
CERTIFICATE = Path(__file__).parents[1] / "vectors" / "hooks.example.com.pem"
AT_ONCE = RetryPolicy(first_delay=0.01, max_delay=0.05)
NOW = datetime.now(UTC)
UP, DOWN = observe({"orders": [1, 2]}, brokers=[1, 2]), observe({"orders": [1, None]}, brokers=[1])
OUTAGE = ["partition.offline", "broker.left", "broker.joined", "partition.online"]


def entry(n: int) -> Entry:
    return evolve(made(f"id-{n}", name="broker.left", at=NOW), seq=n)


def deliver(url: str, **options: Any) -> None:
    """Try once to deliver an entry."""
    sink = WebhookSink(url, **{"timeout": 5.0, **options})
    try:
        sink.deliver([entry(1)])
    finally:
        sink.close()


def failure(url: str, **options: Any) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        deliver(url, **options)
    return caught.value


def test_connections_are_used_again() -> None:
    with Receiver(200, 503, 200) as receiver:
        sink = WebhookSink(receiver.url)
        sink.deliver([entry(1)])
        with pytest.raises(DeliveryError):
            sink.deliver([entry(2)])
        sink.deliver([entry(2)])
        sink.close()
    assert [request.headers["webhook-id"] for request in receiver.requests] == ["id-1", "id-2", "id-2"]
    assert receiver.connections == 1


def test_a_target_that_does_not_answer_in_time() -> None:
    over = threading.Event()
    with Receiver(lambda _: over.wait(10)) as receiver:
        started = time.monotonic()
        assert failure(receiver.url, timeout=0.2).reason == "timeout"
        assert time.monotonic() - started < 5
        over.set()


def close(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    (nobody,) = free_ports(1)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{nobody}")
    monkeypatch.setenv("no_proxy", "")
    with Receiver() as receiver:
        deliver(receiver.url)
        assert len(receiver.requests) == 1


# -- TLS -----------------------------------------------------------------------------------------------


@pytest.fixture
def secure() -> Iterator[tuple[Receiver, list[str | None]]]:
    """A server with a certificate for hooks.example.com, and the names that clients ask it for."""
    asked: list[str | None] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    with Receiver(context=context) as receiver:
        yield receiver, asked


@pytest.mark.parametrize("trusted", [True, False])
def test_a_certificate_for_another_name_or_of_nobody_known_proves_nothing(
    secure: tuple[Receiver, list[str | None]], trusted: bool
) -> None:
    receiver, asked = secure
    url = f"https://localhost:{receiver.port}/T0K3N"
    error = failure(url, **({"ca_file": str(CERTIFICATE)} if trusted else {}))
    assert error.reason == "tls"
    assert ("'localhost'" in str(error)) is trusted
    assert asked == ["localhost"]
    assert receiver.requests == []


# -- listeners -----------------------------------------------------------------------------------------


def listener_to(url: str, **options: Any) -> SinkListener:
    return SinkListener(WebhookSink(url, **options), retry=AT_ONCE)


def watch(poller: MetadataPoller, count: int) -> None:
    for _ in range(count):
        poller.poll_once()


def names(receiver: Receiver) -> list[str]:
    return [json.loads(r.body)["type"].split("-events.")[1].removesuffix(".v1") for r in receiver.requests]


def test_an_outage_reaches_the_target_signed_in_order_and_each_event_under_one_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with Receiver(503, close, 200) as receiver:
        listener = listener_to(receiver.url, secrets=[SECRET])
        poller = MetadataPoller(ScriptedSource(UP, DOWN, UP))
        poller.register(listener)
        watch(poller, 3)
        poller.close(timeout=20)
    assert names(receiver) == [OUTAGE[0]] * 2 + OUTAGE
    ids = [request.headers["webhook-id"] for request in receiver.requests]
    assert ids == [json.loads(request.body)["id"] for request in receiver.requests]
    assert len(set(ids)) == 4
    for request in receiver.requests:
        assert is_signed(request.body, request.headers, SECRET)
    assert (listener.stats.delivered, listener.stats.lost) == (7, 0)  # three were not asked for
    assert listener.stats.failures == {"http_503": 1, "connect": 1}
    assert "T0K3N" not in caplog.text


def test_a_target_that_hangs_holds_up_neither_the_poller_nor_other_listeners() -> None:
    over = threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        over.wait(60)
        handler.close_connection = True

    with Receiver(hang, 200) as receiver:
        other = RecordingListener()
        poller = MetadataPoller(ScriptedSource(*[UP, DOWN] * 100))
        poller.register(listener_to(receiver.url, timeout=60.0))
        poller.register(other)
        started = time.monotonic()
        watch(poller, 200)
        assert time.monotonic() - started < 10
        assert len(other.wait_for(3 + 2 * 199)) == 3 + 2 * 199
        eventually(lambda: bool(receiver.requests))
        over.set()
        poller.close(timeout=60)  # until all is delivered: it would be tried again when nobody listens
