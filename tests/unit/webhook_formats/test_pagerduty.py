"""What PagerDuty is sent: alerts that are triggered, go on and are resolved under one key."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import DeliveryError, Entry, Stream
from kafka_partition_events_listeners.webhook.pagerduty import pagerduty, pagerduty_sink
from tests.http_receiver import Receiver
from tests.unit.webhook_formats.entries import CLOSED, OPEN, incident, notice

KEY = "0123456789abcdef0123456789abcdef"
FLAPPING = {"flapping_id": "flap-1", "cluster_id": "c-1", "broker": 2, "cause": {"broker": 2}}


def event(entry: Entry, **options: Any) -> dict[str, Any]:
    payload = pagerduty([entry], routing_key=KEY, **options)
    assert payload is not None
    assert payload.content_type == "application/json"
    found: dict[str, Any] = json.loads(payload.body)
    return found


def test_an_open_incident_triggers() -> None:
    assert event(incident("opened", OPEN), runbook_url="https://wiki.example.com/kafka") == {
        "routing_key": KEY,
        "event_action": "trigger",
        "dedup_key": "inc-1",
        "payload": {
            "summary": "Incident: broker 2, 5 partitions of 2 topics (c-1)",
            "source": "c-1",
            "severity": "critical",
            "timestamp": "2026-11-20T10:00:40Z",
            "component": "broker 2",
            "group": "c-1",
            "class": "incident.opened",
            "custom_details": {
                "cluster": "c-1",
                "times": "It began between 2026-11-20 10:00:00 and 2026-11-20 10:00:10 UTC.",
                "partitions": "orders 0-2,5; payments 1",
                "details": "events: 6",
            },
        },
        "client": "kafka-partition-events",
        "links": [{"href": "https://wiki.example.com/kafka", "text": "Runbook"}],
    }


def test_an_update_is_of_the_same_alert_and_the_end_resolves_it() -> None:
    updated = event(incident("updated", {**OPEN, "worst": 13}))
    assert (updated["event_action"], updated["dedup_key"]) == ("trigger", "inc-1")
    assert (updated["payload"]["severity"], updated["links"]) == ("warning", [])
    assert event(incident("closed", CLOSED, severity=9)) == {
        "routing_key": KEY,
        "event_action": "resolve",
        "dedup_key": "inc-1",
    }


def test_who_looks_after_it_stops_the_escalation() -> None:
    assert event(incident("acknowledged", {**OPEN, "acknowledged_by": "ada"})) == {
        "routing_key": KEY,
        "event_action": "acknowledge",
        "dedup_key": "inc-1",
    }


@pytest.mark.parametrize(("step", "action"), [("started", "trigger"), ("stopped", "resolve")])
def test_so_does_what_flaps(step: str, action: str) -> None:
    told = event(notice(f"flapping.{step}", "broker/2", FLAPPING, severity=13))
    assert (told["event_action"], told["dedup_key"]) == (action, "flap-1")


def test_what_neither_begins_nor_ends_pages_nobody() -> None:
    assert (
        pagerduty(
            [notice("topic.deleted", "topic/orders", {"topic": "orders"}, severity=13)], routing_key=KEY
        )
        is None
    )
    with Receiver(500) as receiver:
        sink = pagerduty_sink(KEY, url=receiver.url, allow_private=True)
        sink.deliver([notice("silence.ended", "silence/1", {}, severity=9)])
        assert receiver.requests == []
        sink.close()


def test_a_long_story_is_cut_short() -> None:
    many = {f"{'topic' * 40}-{n}": "0-99" for n in range(500)}
    told = event(incident("opened", {**OPEN, "cause": {"topic": "t" * 2_000}, "partitions": many}))
    assert len(told["payload"]["summary"]) == 1_024
    assert len(json.dumps(told)) < 512 * 1024


def answered(*answers: int, headers: Mapping[str, str] | None = None) -> list[DeliveryError]:
    replies = [httpx.Response(status, headers=headers) for status in answers]
    transport = httpx.MockTransport(lambda _: replies.pop(0))
    sink, errors = pagerduty_sink(KEY, transport=transport), []
    for _ in answers:
        try:
            sink.deliver([incident("opened", OPEN)])
        except DeliveryError as error:
            errors.append(error)
    return errors


def test_what_its_answers_mean() -> None:
    assert answered(202) == []
    (late,) = answered(429, headers={"retry-after": "7"})
    assert (late.reason, late.retry_after, late.refused) == ("http_429", 7.0, False)
    assert [error.refused for error in answered(500, 503)] == [False, False]
    assert [error.refused for error in answered(400, 400, 400)] == [False, False, True]


def test_it_posts_as_pagerduty_wants_it_and_tells_nobody_the_key() -> None:
    with Receiver(202, 500) as receiver:
        sink = pagerduty_sink(KEY, url=receiver.url, allow_private=True)
        sink.deliver([incident("opened", OPEN)])
        with pytest.raises(DeliveryError) as failed:
            sink.deliver([incident("closed", CLOSED)])
        sink.close()
        first, second = receiver.requests
    assert first.headers["content-type"] == "application/json"
    assert [json.loads(each.body)["dedup_key"] for each in (first, second)] == ["inc-1", "inc-1"]
    assert KEY not in f"{failed.value} {sink!r}"
    assert sink.stream is Stream.INCIDENTS


@pytest.mark.parametrize("key", ["", "short", KEY + "0", KEY[:-1] + "\n"])
def test_what_is_no_routing_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigurationError, match="routing_key") as refused:
        pagerduty_sink(key)
    assert not key.strip() or key not in str(refused.value)
