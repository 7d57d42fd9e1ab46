"""One try to post entries: what is sent, what each answer means, and what is never told to anybody else."""

import base64
import json
import logging
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events import __version__
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import DeliveryError, Entry
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events_listeners.webhook.client import MOST_READ_BYTES
from kafka_partition_events_listeners.webhook.signature import key_of, signed_headers
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.http_receiver import is_signed
from tests.outbox_kit import entry as made

OF_HTTPX = {"accept", "accept-encoding", "connection"}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
URL = "https://hooks.example.com/services/T0K3N?key=T0K3N"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def entry(n: int, name: str = "partition.offline", **data: Any) -> Entry:
    body = {"id": f"id-{n}", "time": "2026-11-21T12:00:00Z", "data": {"n": n, **data}}
    return evolve(made(f"id-{n}", name=name, at=NOW, body=json.dumps(body).encode()), seq=n)


class Target:
    """Answers with one status after the other, or raises it; the last one again and again."""

    def __init__(self, *answers: int | httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer) if isinstance(answer, int) else answer

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def sink_to(target: Callable[[httpx.Request], httpx.Response], **options: Any) -> WebhookSink:
    transport = httpx.MockTransport(target)
    return WebhookSink(URL, transport=transport, clock=ManualClock(wall=NOW), **options)


def failure(*answers: int | httpx.Response | Exception) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        sink_to(Target(*answers)).deliver([entry(1)])
    return caught.value


# -- what is sent --------------------------------------------------------------------------------------


def test_an_entry_is_posted_under_its_own_id() -> None:
    target = Target(202)
    sink_to(target, headers={"Authorization": "Bearer b"}).deliver([entry(1)])
    (request,) = target.requests
    assert (request.method, str(request.url)) == ("POST", URL)
    assert request.content == entry(1).body
    assert {name: request.headers[name] for name in request.headers if name not in OF_HTTPX} == {
        "host": "hooks.example.com",
        "user-agent": f"kafka-partition-events/{__version__}",
        "content-type": "application/cloudevents+json",
        "content-length": str(len(entry(1).body)),
        "authorization": "Bearer b",
        "webhook-id": "id-1",
        "webhook-timestamp": str(int(NOW.timestamp())),
    }


def test_it_is_signed_at_the_time_of_each_try() -> None:
    target, clock = Target(503, 200), ManualClock(wall=NOW)
    sink = WebhookSink(URL, secrets=[SECRET], transport=httpx.MockTransport(target), clock=clock)
    with pytest.raises(DeliveryError):
        sink.deliver([entry(1)])
    clock.advance(3600)
    sink.deliver([entry(1)])
    first, second = target.requests
    assert is_signed(first.content, first.headers, SECRET)
    assert is_signed(second.content, second.headers, SECRET)
    assert [int(each.headers["webhook-timestamp"]) - NOW.timestamp() for each in (first, second)] == [0, 3600]
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "id-1"


def test_the_content_type_can_be_replaced() -> None:
    target = Target(200)
    sink_to(target, template="{{ data.n }}", headers={"Content-Type": "text/plain"}).deliver([entry(1)])
    assert target.requests[0].headers.get_list("content-type") == ["text/plain"]
    assert target.requests[0].content == b"1"


# -- what an answer means ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 408, 425, 429, 451, 500, 502, 503, 599])
def test_what_may_pass_is_tried_again_however_often(status: int) -> None:
    sink = sink_to(Target(status))
    for _ in range(10):
        with pytest.raises(DeliveryError) as caught:
            sink.deliver([entry(1)])
        assert (caught.value.reason, caught.value.refused) == (f"http_{status}", False)


@pytest.mark.parametrize(
    ("status", "cure"), [(401, "credentials"), (403, "rights"), (404, "check its URL"), (407, "a proxy")]
)
def test_what_is_of_the_sink_names_its_cure(status: int, cure: str) -> None:
    assert cure in str(failure(status))


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_an_entry_that_is_declined_three_times_is_refused(status: int) -> None:
    sink, refused = sink_to(Target(status)), []
    for n in (1, 1, 1, 2, 2, 2):
        with pytest.raises(DeliveryError) as caught:
            sink.deliver([entry(n)])
        assert caught.value.reason == f"http_{status}"
        refused.append(caught.value.refused)
    assert refused == [False, False, True, False, False, True]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_that_says_so(status: int) -> None:
    target = Target(httpx.Response(status, headers={"location": "http://127.0.0.1/"}))
    with pytest.raises(DeliveryError, match="redirects are not followed") as caught:
        sink_to(target).deliver([entry(1)])
    assert (caught.value.reason, caught.value.refused) == ("redirect", False)
    assert len(target.requests) == 1


def caused_by(error: httpx.ConnectError, cause: Exception) -> httpx.ConnectError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (httpx.ConnectTimeout("slow"), "timeout"),
        (httpx.ReadTimeout("slow"), "timeout"),
        (httpx.WriteTimeout("slow"), "timeout"),
        (httpx.ConnectError("refused"), "connect"),
        (httpx.ReadError("reset"), "connect"),
        (httpx.WriteError("broken pipe"), "connect"),
        (httpx.RemoteProtocolError("illegal status line: T0K3N"), "connect"),
        (caused_by(httpx.ConnectError("failed"), ssl.SSLCertVerificationError("self-signed")), "tls"),
        (httpx.ProxyError("407 T0K3N"), "proxy"),
    ],
)
def test_what_goes_wrong_on_the_way_has_a_short_reason(raised: Exception, reason: str) -> None:
    error = failure(raised)
    assert (error.reason, error.refused, error.delivered) == (reason, False, 0)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("Sat, 21 Nov 2026 12:01:30 GMT", None),
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("9" * 400, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_target_may_ask_for_patience(status: int, value: str | None, seconds: float | None) -> None:
    headers = {} if value is None else {"retry-after": value}
    assert failure(httpx.Response(status, headers=headers)).retry_after == seconds


# -- answers that go on and on -------------------------------------------------------------------------


class Endless(httpx.SyncByteStream):
    """An answer without end, or one that breaks off."""

    def __init__(self, breaks_off: bool = False) -> None:
        self.breaks_off, self.read, self.closed = breaks_off, 0, False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.read += 4096
            assert self.read < 10 * MOST_READ_BYTES, "read on and on"
            yield b"x" * 4096
            if self.breaks_off:
                raise httpx.ReadError("reset")

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("breaks_off", [False, True])
def test_no_more_of_an_answer_is_read_than_it_takes_to_be_polite_and_its_end_does_not_matter(
    breaks_off: bool,
) -> None:
    answer = Endless(breaks_off)
    sink_to(Target(httpx.Response(200, stream=answer))).deliver([entry(1)])
    assert answer.read <= MOST_READ_BYTES
    assert answer.closed


# -- what is wrong with an entry, or with the configuration --------------------------------------------


def test_an_entry_that_a_template_cannot_tell_is_refused_at_once() -> None:
    target = Target(200)
    sink = sink_to(target, template="{{ data.partitions }}")
    with pytest.raises(DeliveryError, match=r"partition\.offline can't be written.*partitions") as caught:
        sink.deliver([entry(1)])
    assert (caught.value.reason, caught.value.refused) == ("format", True)
    assert not target.requests


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "ftp://x.example/"}, "url must"),
        ({"url": "https://"}, "url must"),
        ({"url": "hooks.example.com"}, "url must"),
        ({"url": "https://u:T0K3N@x.example/"}, "url must"),
        ({"url": "https://x.example:${PORT}/T0K3N"}, "url has a host or a port"),
        ({"url": "https://x.example:99999/T0K3N"}, "url has a host or a port"),
        ({"url": "https://[::1/T0K3N"}, "url has a host or a port"),
        ({"timeout": 0}, "timeout"),
        ({"events": []}, "events"),
        ({"client_key": "k.pem"}, "client_key"),
        ({"ca_file": "nowhere.pem"}, "nowhere.pem"),
        ({"template": "{{"}, "template, line 1"),
        ({"secrets": ["T0K3N"]}, "secrets"),
        ({"headers": {"webhook-id": "T0K3N"}}, "headers"),
        ({"headers": {"Host": "T0K3N"}}, "headers"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers"),
        ({"headers": {"a b": "T0K3N"}}, "headers"),
        ({"headers": {"x": "T0K3N\r\ny: z"}}, "headers"),
        ({"headers": {"x": "é"}}, "headers"),
    ],
)
def test_wrong_arguments_are_refused_at_construction_and_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        WebhookSink(**{"url": URL, **options})
    assert "T0K3N" not in str(caught.value)


# -- which events --------------------------------------------------------------------------------------


TOLD = (
    entry(1, "topic.created", initial=True),
    entry(2, "leadership.moved"),
    entry(3, "partition.offline", initial=True),
    entry(4, "broker.left"),
)


@pytest.mark.parametrize(
    ("events", "posted"), [(None, ["id-3", "id-4"]), (["leadership.*", "topic.*"], ["id-2"])]
)
def test_what_is_not_asked_for_and_what_was_found_at_first_sight_is_not_posted(
    events: list[str] | None, posted: list[str]
) -> None:
    target = Target(200)
    for each in TOLD:
        sink_to(target, events=events).deliver([each])
    assert [body["id"] for body in target.bodies] == posted


# -- secrets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        200,
        302,
        404,
        410,
        503,
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("illegal status line: T0K3N"),
    ],
)
def test_neither_url_nor_headers_nor_secrets_are_told(
    answer: int | Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sink = sink_to(Target(answer), secrets=[SECRET], headers={"Authorization": "Bearer T0K3N"})
    told = [repr(sink), str(sink)]
    with capture_logs() as logs:
        try:
            sink.deliver([entry(1)])
        except DeliveryError as error:
            told += [str(error), repr(error), error.reason]
    sink.close()
    for text in (*told, caplog.text, str(logs)):
        assert "T0K3N" not in text
        assert SECRET.removeprefix("whsec_") not in text
    assert repr(sink) == "WebhookSink('https://hooks.example.com/***', name='webhook')"


# -- signatures ------------------------------------------------------------------------------------------

ID, SIGNED_AT, BODY = "9c0f5c1e-0000-5000-8000-000000000001", 1_795_000_000, b'{"specversion": "1.0"}'


def test_the_example_that_the_specifications_libraries_are_tested_with() -> None:
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
        [key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_there_is_one_signature_for_each_secret() -> None:
    old, new, both = (
        signed_headers(ID, SIGNED_AT, BODY, keys)["webhook-signature"]
        for keys in ([b"o" * 32], [b"n" * 24], [b"o" * 32, b"n" * 24])
    )
    assert both == f"{old} {new}"


def test_without_a_secret_a_request_has_an_id_all_the_same() -> None:
    assert signed_headers(ID, SIGNED_AT, BODY) == {"webhook-id": ID, "webhook-timestamp": "1795000000"}


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "hunter2",
        base64.b64encode(b"k" * 32).decode(),  # without whsec_
        "whsec_hunter2",
        "whsec_" + base64.b64encode(b"k" * 23).decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
        "whsec_é",
    ],
)
def test_a_weak_or_broken_secret_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(ConfigurationError, match="whsec_ and the base64") as caught:
        key_of(secret)
    assert "hunter2" not in str(caught.value)
