"""E-mail to a real SMTP server: TLS, logins, and what each of its answers means."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events.outbox import DeliveryError, Entry
from kafka_partition_events.testing.ports import free_ports
from kafka_partition_events_listeners.mail.sink import SmtpSink
from tests.smtp_receiver import TAKEN, SmtpReceiver
from tests.unit.webhook_formats.entries import CLOSED, OPEN, incident

HOST = "hooks.example.com"
CERTIFICATE = Path(__file__).parents[1] / "vectors" / f"{HOST}.pem"
OPENED, ENDED = incident("opened", OPEN), incident("closed", CLOSED)
LOGIN = {"username": "kpe", "password": "s3cret"}
LATER, NEVER = "451 try again later", "550 no such user here"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the name in the certificate lead to this machine; and the machine has no long name."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, *args: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if host == HOST else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setattr(socket, "getfqdn", lambda *_: "kpe.example.com")


def context() -> ssl.SSLContext:
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(CERTIFICATE)
    return made


def sink_to(receiver: SmtpReceiver, **options: Any) -> SmtpSink:
    how = {
        "sender": "Kafka <kafka@example.com>",
        "to": ["noc@example.com"],
        "security": "none",
        "timeout": 5.0,
        **options,
    }
    return SmtpSink(HOST, port=receiver.port, **how)


def failure(sink: SmtpSink, *entries: Entry) -> DeliveryError:
    with pytest.raises(DeliveryError) as failed:
        sink.deliver(entries or [OPENED])
    return failed.value


# -- what arrives ------------------------------------------------------------------------------------------


def test_an_incident_arrives_as_a_thread_in_one_session() -> None:
    with SmtpReceiver() as receiver:
        sink = sink_to(receiver, to=["NOC <noc@example.com>", "ada@example.com", "ada@example.com"])
        sink.deliver([OPENED, ENDED])
        sink.close()
        first, second = receiver.mails
    assert receiver.sessions == 1
    assert (first.sender, first.to) == ("kafka@example.com", ("noc@example.com", "ada@example.com"))
    assert first.message["Subject"] == "Incident: broker 2, 5 partitions of 2 topics (c-1)"
    assert second.message["Subject"].startswith("Incident is over: broker 2")
    assert first.message["References"] == second.message["In-Reply-To"]
    assert not first.secured


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # it has TLS from the start
@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_it_logs_in_over_tls(security: str) -> None:
    with SmtpReceiver(context=context(), starttls=security == "starttls", login=True) as receiver:
        sink = sink_to(receiver, security=security, ca_file=str(CERTIFICATE), **LOGIN)
        sink.deliver([OPENED])
        (mail,) = receiver.mails
    assert (mail.secured, mail.logged_in) == (True, True)


# -- what is wrong with the sink: the queue waits ----------------------------------------------------------


def test_a_login_that_is_refused_holds_the_queue_and_is_not_told() -> None:
    with SmtpReceiver(context=context(), login=True) as receiver:
        sink = sink_to(
            receiver, security="starttls", ca_file=str(CERTIFICATE), **{**LOGIN, "password": "wr0ng"}
        )
        errors = [failure(sink) for _ in range(4)]
    assert {(error.reason, error.refused) for error in errors} == {("auth", False)}
    assert "look at username and password" in str(errors[0])
    assert "wr0ng" not in f"{errors[0]} {sink!r}"


def test_a_certificate_that_nobody_vouches_for() -> None:
    with SmtpReceiver(context=context()) as receiver:
        error = failure(sink_to(receiver, security="starttls"))
    assert (error.reason, receiver.mails) == ("tls", [])
    assert "self-signed certificate" in str(error)


def test_there_is_no_falling_back_to_plain_text() -> None:
    with SmtpReceiver() as receiver:
        error = failure(sink_to(receiver, security="starttls"))
        assert (error.reason, receiver.mails) == ("tls", [])
        assert "does not offer STARTTLS" in str(error)
        assert failure(sink_to(receiver, security="tls")).reason == "tls"


def test_a_server_that_takes_no_logins() -> None:
    with SmtpReceiver(context=context()) as receiver:
        sink = sink_to(receiver, security="starttls", ca_file=str(CERTIFICATE), **LOGIN)
        assert failure(sink).reason in {"auth", "smtp_503"}


def test_nobody_there() -> None:
    with SmtpReceiver() as receiver:
        pass
    error = failure(sink_to(receiver))
    assert (error.reason, str(error)) == ("connect", f"smtp: {HOST}:{receiver.port}: Connection refused")


def test_a_server_that_does_not_answer() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        sink = SmtpSink(
            HOST, port=port, sender="k@example.com", to=["a@example.com"], security="none", timeout=0.2
        )
        started = time.monotonic()
        assert failure(sink).reason == "timeout"
        assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    "part", ["the greeting", "the answer to EHLO", "the answer to STARTTLS", "the answer to a message"]
)
def test_a_server_that_trickles_is_not_waited_for(part: str) -> None:
    said = [b"220 x", b"250-x", b"250 STARTTLS", b"220 go on"]
    if part == "the answer to a message":
        said = [b"220 x", b"250 x", b"250 ok", b"250 ok", b"354 go on"]
    at = {"the greeting": 0, "the answer to EHLO": 1, "the answer to STARTTLS": 3}.get(part, 5)
    security = "starttls" if "STARTTLS" in part else "none"
    with trickling(said[:at]) as port:
        sink = SmtpSink(
            HOST, port=port, sender="k@example.com", to=["a@example.com"], security=security, timeout=0.5
        )
        started = time.monotonic()
        assert failure(sink).reason == "timeout"
        assert time.monotonic() - started < 5


@contextlib.contextmanager
def trickling(said: Sequence[bytes]) -> Iterator[int]:
    """Let a server say something, line by line, and then go on for ever, now and then with a byte."""
    done = threading.Event()

    def serve(server: socket.socket) -> None:
        client, _ = server.accept()
        with client, contextlib.suppress(OSError):
            for line in said:
                client.sendall(line + b"\r\n")
                if not line.startswith(b"250-"):
                    client.recv(65_536)
            client.sendall(b"250-")
            while not done.wait(0.1):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield server.getsockname()[1]
        done.set()
        thread.join()


def test_a_sender_that_is_refused_holds_the_queue() -> None:
    with SmtpReceiver(sender="553 not yours") as receiver:
        sink = sink_to(receiver)
        errors = [failure(sink) for _ in range(4)]
    assert {(error.reason, error.refused) for error in errors} == {("smtp_553", False)}
    assert "look at sender" in str(errors[0])


def test_recipients_that_are_all_refused_hold_the_queue() -> None:
    with SmtpReceiver(refusals={"noc@example.com": NEVER}) as receiver:
        sink = sink_to(receiver)
        errors = [failure(sink) for _ in range(4)]
    assert {(error.reason, error.refused) for error in errors} == {("smtp_550", False)}
    assert "no such user here, of noc@example.com; look at the addresses in to" in str(errors[0])


# -- what is wrong with one message, or for a while --------------------------------------------------------


def test_what_is_declined_for_a_while_is_tried_again() -> None:
    with SmtpReceiver(LATER, LATER, LATER, TAKEN) as receiver:
        sink = sink_to(receiver)
        errors = [failure(sink) for _ in range(3)]
        sink.deliver([OPENED])
        assert len(receiver.mails) == 1
    assert {(error.reason, error.refused) for error in errors} == {("smtp_451", False)}


def test_a_message_that_is_declined_is_refused_the_third_time() -> None:
    with SmtpReceiver(TAKEN, "554 that looks like spam") as receiver:
        sink = sink_to(receiver)
        errors = [failure(sink, ENDED, OPENED), failure(sink), failure(sink)]
    assert [(error.reason, error.delivered, error.refused) for error in errors] == [
        ("smtp_554", 1, False),
        ("smtp_554", 0, False),
        ("smtp_554", 0, True),
    ]


def test_so_is_one_that_is_too_large() -> None:
    with SmtpReceiver(limit=500) as receiver:
        sink = sink_to(receiver)
        errors = [failure(sink) for _ in range(3)]
    assert [(error.reason, error.refused) for error in errors] == [
        ("smtp_552", False),
        ("smtp_552", False),
        ("smtp_552", True),
    ]


def test_who_has_it_does_not_get_it_again() -> None:
    with SmtpReceiver(refusals={"ada@example.com": LATER}) as receiver:
        sink = sink_to(receiver, to=["noc@example.com", "ada@example.com"])
        for _ in range(2):
            assert failure(sink).reason == "smtp_451"
        receiver.refusals.clear()
        sink.deliver([OPENED])
        sink.deliver([OPENED])  # as after a restart of what is to be told again
        assert [mail.to for mail in receiver.mails[:2]] == [("noc@example.com",), ("ada@example.com",)]


def test_who_is_refused_for_good_holds_up_nobody() -> None:
    with SmtpReceiver(refusals={"gone@example.com": NEVER}) as receiver, capture_logs() as logs:
        sink_to(receiver, to=["noc@example.com", "gone@example.com"]).deliver([OPENED, ENDED])
        assert [mail.to for mail in receiver.mails] == [("noc@example.com",)] * 2
    assert [(log["event"], log["to"]) for log in logs] == [("recipient_refused", "gone@example.com")] * 2


def test_what_can_not_be_written_is_refused() -> None:
    with SmtpReceiver() as receiver:
        error = failure(sink_to(receiver), ENDED, evolve(OPENED, body=b"no JSON"))
        assert (error.reason, error.delivered, error.refused) == ("format", 1, True)
        assert len(receiver.mails) == 1
