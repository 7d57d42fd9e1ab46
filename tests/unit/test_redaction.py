"""Redaction: what a sink outside the house is not told, in whatever format."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from attrs import evolve

from kafka_partition_events.assets import validator
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.entries import to_entry
from kafka_partition_events.listeners import to_cloudevent
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.outbox import DeliveryError, Entry
from kafka_partition_events_listeners.kafka_sink import KafkaSink
from kafka_partition_events_listeners.mail.sink import SmtpSink
from kafka_partition_events_listeners.redaction import REDACTIONS, fields_of, redacted
from kafka_partition_events_listeners.webhook.signature import verify
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.every_event import EVERY_EVENT, SEEN

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105


def entry_of(event: Event) -> Entry:
    return to_entry(event, to_cloudevent(event, recorded_at=SEEN, observer="noc-1.corp.example"))


ENTRIES = [entry_of(event) for event in EVERY_EVENT]
BROKER = next(entry for entry in ENTRIES if entry.name == "broker.changed")
BLIND = next(entry for entry in ENTRIES if entry.name == "metadata.unavailable")


def data_of(entry: Entry, *redact: str) -> Any:
    return json.loads(redacted(entry, fields_of(redact)).body)["data"]


def test_hosts_of_brokers_are_left_out_and_errors_with_them_as_they_name_hosts() -> None:
    assert data_of(BROKER, "hosts")["after"] == {"host": None, "port": None, "rack": None}
    assert data_of(BROKER, "hosts")["observer"] == "noc-1.corp.example"
    assert data_of(BLIND, "hosts")["error"] is None


def test_texts_of_errors_are_left_out() -> None:
    assert data_of(BLIND, "errors")["error"] is None
    assert data_of(BROKER, "errors")["before"]["host"] == "b4"


def test_names_of_observers_are_left_out() -> None:
    assert data_of(BLIND, "observers")["observer"] is None
    assert data_of(BLIND, "observers")["error"] == "timed out"


def test_everything_else_stays() -> None:
    for entry in ENTRIES:
        less = redacted(entry, fields_of(REDACTIONS))
        whole, left = json.loads(entry.body), json.loads(less.body)
        assert (less.id, less.seq, less.key, less.name) == (entry.id, entry.seq, entry.key, entry.name)
        assert {**left, "data": None} == {**whole, "data": None}
        assert left["data"].keys() == whole["data"].keys()
        assert redacted(entry, fields_of([])) is entry


def test_what_is_left_out_is_allowed_by_the_schemas() -> None:
    for entry in ENTRIES:
        event = json.loads(redacted(entry, fields_of(REDACTIONS)).body)
        validator("envelope").validate(event)
        validator(entry.name).validate(event["data"])


class Produced:
    """Takes the place of a producer: acknowledges at once."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def produce(
        self, topic: str, *, value: bytes, on_delivery: Callable[[None, None], None], **_: Any
    ) -> None:
        self.values.append(value)
        on_delivery(None, None)

    def poll(self, timeout: float) -> int:
        return 0


def test_records_are_without_what_is_left_out_and_what_is_odd_is_refused() -> None:
    producer: Any = Produced()
    sink = KafkaSink(producer, redact=REDACTIONS)
    odd = evolve(BLIND, body=b"[1]")
    with pytest.raises(DeliveryError) as failed:
        sink.deliver([BROKER, odd, BLIND])
    assert (failed.value.reason, failed.value.delivered, failed.value.refused) == ("format", 1, True)
    sink.deliver([BLIND])
    assert [json.loads(value)["data"]["observer"] for value in producer.values] == [None, None]
    KafkaSink(producer).deliver([odd])
    assert producer.values[-1] == odd.body


def test_mails_are_without_what_is_left_out() -> None:
    to: Any = {"sender": "k@example.com", "to": ["noc@example.com"]}
    whole, less = (SmtpSink("h", **to, redact=redact)._written(BLIND) for redact in ((), REDACTIONS))
    assert b"timed out" in whole
    assert b"timed out" not in less
    assert b"noc-1" not in less


@pytest.mark.parametrize("redact", [["host"], "hosts", ["hosts", "topics"]])
def test_what_can_not_be_left_out_is_refused(redact: Any) -> None:
    with pytest.raises(ConfigurationError, match="redact must be a list of hosts, errors, observers"):
        WebhookSink("https://hooks.example.com/", redact=redact)


FORMATS = [
    ({"format": "cloudevents"}, "cloudevents"),
    ({"format": "cloudevents", "batch": 10}, "batches"),
    ({"format": "alertmanager"}, "alertmanager"),
    ({"format": "slack"}, "slack"),
    ({"format": "template", "template": "{{ event | tojson }}"}, "template"),
]


@pytest.mark.parametrize("options", [options for options, _ in FORMATS], ids=[name for _, name in FORMATS])
def test_no_format_tells_what_is_left_out_and_signatures_are_of_what_is_sent(options: dict[str, Any]) -> None:
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(204)

    sink = WebhookSink(
        "https://hooks.example.com/",
        redact=REDACTIONS,
        secrets=[SECRET],
        transport=httpx.MockTransport(answer),
        **options,
    )
    for place in range(0, len(ENTRIES), sink.batch):
        sink.deliver(ENTRIES[place : place + sink.batch])
    assert requests
    for request in requests:
        stamp = float(request.headers["webhook-timestamp"])
        verify(request.content, request.headers, [SECRET], now=stamp)
        for told in (b"noc-1", b"timed out", b'"b4"', b"b4:", b"9092", b"9093"):
            assert told not in request.content
