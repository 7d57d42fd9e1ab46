"""What an e-mail says, worked out by hand, and by what readers know doubles and threads."""

import email
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.mail.message import address_in, message_of
from kafka_partition_events_listeners.mail.sink import SmtpSink
from tests.unit.webhook_formats.entries import CLOSED, OPEN, incident, notice

NOW = datetime(2026, 11, 20, 10, 0, 41, tzinfo=UTC)


def mailed(entry: Entry, **options: Any) -> EmailMessage:
    """Return the message as who receives it reads it."""
    how: dict[str, Any] = {"sender": "Kafka <kafka@example.com>", "to": ["noc@example.com"], **options}
    read = email.message_from_bytes(message_of(entry, now=NOW, **how).as_bytes(), policy=default)
    assert isinstance(read, EmailMessage)
    assert not read.defects
    return read


def body(message: EmailMessage) -> str:
    content: str = message.get_content()
    return content.replace("\r\n", "\n")


def test_an_open_incident() -> None:
    message = mailed(
        incident("opened", OPEN),
        to=["noc@example.com", "Ada <ada@example.com>"],
        runbook_url="https://wiki.example.com/kafka",
    )
    assert dict(message.items()) == {
        "From": "Kafka <kafka@example.com>",
        "To": "noc@example.com, Ada <ada@example.com>",
        "Subject": "Incident: broker 2, 5 partitions of 2 topics (c-1)",
        "Date": "Fri, 20 Nov 2026 10:00:41 +0000",
        "Message-ID": "<id-opened@example.com>",
        "In-Reply-To": "<thread.inc-1@example.com>",
        "References": "<thread.inc-1@example.com>",
        "Auto-Submitted": "auto-generated",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "quoted-printable",
        "MIME-Version": "1.0",
    }
    assert body(message) == (
        "Incident: broker 2, 5 partitions of 2 topics\n"
        "It began between 2026-11-20 10:00:00 and 2026-11-20 10:00:10 UTC.\n"
        "\n"
        "  orders 0-2,5\n"
        "  payments 1\n"
        "\n"
        "events: 6\n"
        "\n"
        "What to do: https://wiki.example.com/kafka\n"
        "\n"
        "cluster c-1, incident.opened, inc-1\n"
    )


def test_all_of_an_incident_is_one_thread_and_each_message_has_an_id_of_its_own() -> None:
    steps = [mailed(incident(step, data)) for step, data in (("opened", OPEN), ("closed", CLOSED))]
    assert len({message["References"] for message in steps}) == 1
    assert len({message["Message-ID"] for message in steps}) == 2
    assert steps[0]["Message-ID"] == mailed(incident("opened", OPEN))["Message-ID"]
    assert mailed(incident("opened", {**OPEN, "incident_id": "inc-2"}))["References"] not in {
        message["References"] for message in steps
    }


def test_what_is_no_incident_is_in_no_thread() -> None:
    message = mailed(notice("silence.ended", "silence/s-1", {"reason": "r"}, severity=9))
    assert message["References"] is None
    assert message["Subject"] == "Silence ended: silence s-1 (unknown)"


def test_nothing_of_others_becomes_a_header() -> None:
    entry = evolve(
        incident("opened", {**OPEN, "cause": {"topic": "a\r\nBcc: eve@example.com\x07"}}),
        id="id>\r\nBcc: <eve@example.com",
    )
    message = mailed(entry)
    assert message["Bcc"] is None
    assert (
        message["Subject"].strip()
        == "Incident: topic a Bcc: eve@example.com , 5 partitions of 2 topics (c-1)"
    )
    assert message["Message-ID"] == "<id---Bcc---eve-example.com@example.com>"


def test_long_and_foreign_text_arrives() -> None:
    many = {f"tëma-{n}": "0-99" for n in range(5_000)}
    message = mailed(incident("opened", {**OPEN, "cause": {"topic": "ö" * 500}, "partitions": many}))
    assert len(message["Subject"]) == 200
    assert message["Subject"].startswith("Incident: topic öö")
    assert "tëma-0 0-99\n" in body(message)
    assert " more\n" in body(message)


@pytest.mark.parametrize(
    "mailbox",
    [
        "",
        "noc",
        "noc@",
        "@example.com",
        "noc@example.com\r\nBcc: eve@example.com",
        "nöc@example.com",
        "a b@c",
    ],
)
def test_what_is_no_address_is_refused(mailbox: str) -> None:
    with pytest.raises(ConfigurationError, match="e-mail address"):
        address_in(mailbox)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"to": []}, "to must"),
        ({"to": ["noc"]}, "'noc' is no e-mail address"),
        ({"sender": "noc"}, "'noc' is no e-mail address"),
        ({"security": "ssl"}, "security"),
        ({"username": "kpe"}, "username and password"),
        ({"password": "s3cret"}, "username and password"),
        ({"username": "kpe", "password": "s3cret", "security": "none"}, "a login needs"),
        ({"timeout": 0}, "timeout"),
        ({"ca_file": "/no/such.pem"}, "ca_file: /no/such.pem: No such file"),
        ({"ca_file": __file__}, "are no certificates in PEM"),
    ],
)
def test_wrong_arguments_are_refused_and_named(options: dict[str, Any], why: str) -> None:
    good: dict[str, Any] = {"sender": "kafka@example.com", "to": ["noc@example.com"]}
    with pytest.raises(ConfigurationError, match=why) as refused:
        SmtpSink("mail.example.com", **{**good, **options})
    assert "s3cret" not in str(refused.value)
