"""What is read on Slack, worked out by hand: what it is, since when, what it concerns."""

import json
from typing import Any

import pytest

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import TopicPartition
from tests.unit.webhook_formats.entries import CLOSED, OPEN, changes, incident, notice, stamped, written

LIMIT = 3_000
"""Slack's, for one section."""


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def context(text: str) -> dict[str, Any]:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


def test_an_open_incident_on_slack() -> None:
    assert written(incident("opened", OPEN), "slack") == {
        "text": "Incident: broker 2, 5 partitions of 2 topics (c-1)",
        "blocks": [
            section(
                ":red_circle: *Incident: broker 2, 5 partitions of 2 topics*\n"
                "It began between 2026-11-20 10:00:00 and 2026-11-20 10:00:10 UTC."
            ),
            section("• `orders 0-2,5`\n• `payments 1`"),
            section("events: 6"),
            context("cluster c-1 · incident.opened · inc-1"),
        ],
    }


def test_a_closed_incident_on_slack_tells_how_long_it_lasted() -> None:
    message = written(incident("closed", {**CLOSED, "silenced": True}, severity=9), "slack")
    assert message["blocks"][0] == section(
        ":large_green_circle: *Incident is over: broker 2, 5 partitions of 2 topics*\n"
        "It began between 2026-11-20 10:00:00 and 2026-11-20 10:00:10 UTC.\n"
        "It ended between 2026-11-20 10:01:00 and 2026-11-20 10:01:10 UTC.\n"
        "It lasted between 50 s and 71 s."
    )
    assert message["blocks"][2] == section("events: 12\nsilenced")


def test_nothing_is_claimed_of_a_beginning_that_nobody_saw() -> None:
    unseen = {**CLOSED, "began": {"after": None, "by": "2026-11-20T10:00:10.000000Z"}}
    text = written(incident("closed", unseen), "slack")["blocks"][0]["text"]["text"]
    assert "It began before 2026-11-20 10:00:10 UTC." in text
    assert "It lasted at least 50 s." in text


@pytest.mark.parametrize(
    ("ended", "lasted"),
    [
        ({"after": "2026-11-20T10:30:00Z", "by": "2026-11-20T10:30:10Z"}, "between 29 min and 31 min"),
        ({"after": "2026-11-20T14:00:10Z", "by": "2026-11-20T14:06:00Z"}, "between 4 h and 4.1 h"),
        ({"after": "2026-11-20T10:00:00Z", "by": "2026-11-20T10:00:10Z"}, "between 0 s and 10 s"),
        ({"after": None, "by": "2026-11-20T10:01:00Z"}, "between 0 s and 60 s"),
    ],
)
def test_durations_are_rounded_outwards(ended: dict[str, str | None], lasted: str) -> None:
    text = written(incident("closed", {**CLOSED, "ended": ended}), "slack")["blocks"][0]["text"]["text"]
    assert text.endswith(f"It lasted {lasted}.")


def test_an_incident_that_says_little_is_told_all_the_same() -> None:
    message = written(incident("opened", {"cluster_id": None}), "slack")
    assert message["text"] == "Incident: the cluster as a whole (unknown)"
    assert [block["type"] for block in message["blocks"]] == ["section", "context"]


def test_growth_on_slack() -> None:
    (grown,) = changes([1, 2], [1, 2, 3, 1])
    blocks = written(grown, "slack")["blocks"]
    assert blocks[:3] == [
        section(
            ":large_blue_circle: *Partitions added: orders 2-3*\n"
            "It happened between 2026-11-20 10:00:00 and 2026-11-20 10:00:10 UTC."
        ),
        section("• `orders 2-3`"),
        section("count: 4 (was 2)"),
    ]


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"planned": True, "change_id": "chg-1"}, "planned\nchange id: chg-1"),
        ({"planned": False}, "unplanned"),
    ],
)
def test_whether_somebody_had_asked_for_it_on_slack(labels: dict[str, Any], told: str) -> None:
    (grown,) = changes([1, 2], [1, 2, 3], labels)
    assert section(f"count: 3 (was 2)\n{told}") in written(grown, "slack")["blocks"]


@pytest.mark.parametrize("inferred", [False, True])
def test_a_cause_that_nobody_has_seen_on_slack(inferred: bool) -> None:
    blocks = written(incident("opened", {**OPEN, "inferred": inferred, "kinds": ["partition"]}), "slack")[
        "blocks"
    ]
    said = [line for block in blocks if "text" in block for line in block["text"]["text"].splitlines()]
    assert ("the cause is inferred" in said) is inferred
    assert not [line for line in said if "kinds" in line]


def test_a_lost_leader_on_slack() -> None:
    (lost,) = changes([1, 2], [1, None])
    blocks = written(lost, "slack")["blocks"]
    assert blocks[0]["text"]["text"].startswith(
        ":red_circle: *Partition offline: orders 1*\nIt began between"
    )
    assert blocks[2] == section("leader: none (was 2)")


def test_who_holds_whom_up_on_slack() -> None:
    entry = stamped(
        ev.BrokerSuspected, broker=2, role=ev.Role.REPLICA, reason=ev.Suspicion.SILENT, outstanding=12,
        waiting=(TopicPartition("orders", 3), TopicPartition("orders", 7)), silence_ms=43.5, usual_ms=6.25,
        partitioner="sticky",
    )  # fmt: skip
    told = (
        "role: replica\nreason: silent\noutstanding: 12\nsilence ms: 43.5\nusual ms: 6.25\n"
        "partitioner: sticky\nwaiting: orders 3,7"
    )
    assert section(told) in written(entry, "slack")["blocks"]


def test_slack_takes_nothing_for_a_mention_or_a_link() -> None:
    message = written(stamped(ev.MetadataUnavailable, error="<!channel> A & B > <https://x|y>"), "slack")
    assert section("error: &lt;!channel&gt; A &amp; B &gt; &lt;https://x|y&gt;") in message["blocks"]
    assert "<" not in json.dumps(message)


def test_long_lists_of_partitions_are_cut_short() -> None:
    scattered = ",".join(str(2 * n) for n in range(100))
    message = written(incident("opened", {**OPEN, "partitions": {"orders": scattered}}), "slack")
    assert message["blocks"][1] == section("• `orders 0,2,4,6,8,10,12,14,16,18,20,22 and 88 more`")
    assert "100 partitions of 1 topic (c-1)" in message["text"]


def test_a_list_that_was_cut_short_at_its_source_does_not_pass_for_all() -> None:
    message = written(incident("opened", {**OPEN, "partition_count": 2005, "offline_count": 3}), "slack")
    assert message["text"] == "Incident: broker 2, 2,005 partitions (c-1)"
    assert message["blocks"][1:3] == [
        section("• `orders 0-2,5`\n• `payments 1`\n• `and 2,000 partitions of other topics`"),
        section("events: 6\noffline count: 3"),
    ]


def test_the_end_of_a_silence_says_what_was_muted() -> None:
    silence: dict[str, Any] = {"cluster_id": "c-1", "silence_id": "s-1", "author": "ada", "reason": "upgrade"}
    silence |= {"muted": {"incident.opened": 2, "topic.deleted": 1}, "still_open": ["inc-1", "inc-2"]}
    blocks = written(notice("silence.ended", "silence/s-1", silence, 9), "slack")["blocks"]
    assert blocks[0] == section(":large_blue_circle: *Silence ended: silence s-1*")
    assert blocks[1] == section(
        "silence id: s-1\nauthor: ada\nreason: upgrade\n"
        "muted: incident.opened 2, topic.deleted 1\nstill open: inc-1, inc-2"
    )


@pytest.mark.parametrize("name", ["t{:03}", "a-topic-with-a-long-name-" + "x" * 200 + "{:03}"])
def test_long_lists_of_topics_are_cut_short(name: str) -> None:
    topics = {name.format(n): "0-999" for n in range(300)}
    message = written(incident("opened", {**OPEN, "partitions": topics}), "slack")
    lines = message["blocks"][1]["text"]["text"].splitlines()
    assert len("\n".join(lines)) <= LIMIT
    assert lines[-1] == f"and {300 - len(lines) + 1} more"
    assert "300,000 partitions of 300 topics" in message["text"]


def test_long_errors_are_cut_short() -> None:
    message = written(stamped(ev.MetadataUnavailable, error="&" * 100_000), "slack")
    texts = [block["text"]["text"] for block in message["blocks"][:-1]]
    assert any("…" in text for text in texts)
    assert max(map(len, texts)) <= LIMIT
