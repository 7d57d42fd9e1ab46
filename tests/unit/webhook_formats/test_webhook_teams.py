"""What is read on Microsoft Teams: an Adaptive Card of which no text is Markdown."""

import json
from typing import Any

import pytest

from kafka_partition_events.metadata import events as ev
from tests.unit.webhook_formats.entries import CLOSED, OPEN, changes, incident, stamped, written

LARGEST_BYTES = 28 * 1024
"""Teams', for a message."""


def card(message: dict[str, Any]) -> dict[str, Any]:
    (attachment,) = message["attachments"]
    assert message["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    content: dict[str, Any] = attachment["content"]
    return content


def texts(message: dict[str, Any]) -> list[str]:
    runs = []
    for block in card(message)["body"]:
        assert block["type"] == "RichTextBlock"
        (run,) = block["inlines"]
        assert run["type"] == "TextRun"
        runs.append(run["text"])
    return runs


def test_an_open_incident_on_teams() -> None:
    message = written(incident("opened", OPEN), "teams", runbook_url="https://wiki.example.com/kafka")
    assert texts(message) == [
        "Incident: broker 2, 5 partitions of 2 topics",
        "It began between 2026-11-20 10:00:00 and 2026-11-20 10:00:10 UTC.",
        "orders 0-2,5\npayments 1",
        "events: 6",
        "cluster c-1 · incident.opened · inc-1",
    ]
    content = card(message)
    assert (content["type"], content["version"]) == ("AdaptiveCard", "1.4")
    assert content["actions"] == [
        {"type": "Action.OpenUrl", "title": "Runbook", "url": "https://wiki.example.com/kafka"}
    ]


@pytest.mark.parametrize(
    ("step", "data", "severity", "colour"),
    [
        ("opened", OPEN, 17, "Attention"),
        ("opened", OPEN, 13, "Warning"),
        ("opened", OPEN, 9, "Accent"),
        ("closed", CLOSED, 9, "Good"),
    ],
)
def test_the_colour_says_how_grave_it_is(step: str, data: Any, severity: int, colour: str) -> None:
    headline = card(written(incident(step, data, severity=severity), "teams"))["body"][0]
    assert headline["inlines"][0]["color"] == colour


def test_without_a_runbook_there_is_no_button() -> None:
    assert "actions" not in card(written(incident("opened", OPEN), "teams"))


def test_what_happens_only_is_told_too() -> None:
    (grown,) = changes([1, 2], [1, 2, 3, 1])
    assert texts(written(grown, "teams"))[0] == "Partitions added: orders 2-3"


def test_the_largest_incident_fits() -> None:
    many = {f"{'topic' * 40}-{n}": "0-99" for n in range(500)}
    message = written(incident("opened", {**OPEN, "partitions": many}), "teams")
    assert len(json.dumps(message)) < LARGEST_BYTES
    assert texts(message)[2].endswith(" more")


def test_text_of_others_can_not_become_markup() -> None:
    entry = stamped(ev.MetadataUnavailable, error="[click](https://evil.example) <at>all</at> **now**")
    assert "error: [click](https://evil.example) <at>all</at> **now**" in texts(written(entry, "teams"))
