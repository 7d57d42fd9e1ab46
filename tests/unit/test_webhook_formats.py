"""What receivers of webhooks are sent, worked out by hand: incidents, what comes and goes, what is new."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.listeners import to_cloudevent
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry, Stream
from kafka_partition_events.testing.scripted import cluster_of
from kafka_partition_events_listeners.entries import to_entry
from kafka_partition_events_listeners.webhook_formats import writer_of

BEFORE = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
SEEN = BEFORE + timedelta(seconds=10)
LIMIT = 3_000
"""Slack's, for one section."""

OPEN = {
    "cluster_id": "c-1",
    "incident_id": "inc-1",
    "cause": {"broker": 2},
    "opened_at": "2026-11-20T10:00:40.000000Z",
    "closed_at": None,
    "began": {"after": "2026-11-20T10:00:00.000000Z", "by": "2026-11-20T10:00:10.000000Z"},
    "ended": None,
    "partitions": {"orders": "0-2,5", "payments": "1"},
    "brokers": [2],
    "events": 6,
    "worst": 17,
    "silenced": False,
}
CLOSED = {
    **OPEN,
    "closed_at": "2026-11-20T10:01:10.500000Z",
    "ended": {"after": "2026-11-20T10:01:00.500000Z", "by": "2026-11-20T10:01:10.500000Z"},
    "events": 12,
}


def notice(name: str, subject: str, data: Mapping[str, Any], severity: int) -> Entry:
    """An entry of the second lane."""
    id_ = "id-" + name.split(".")[1]
    body = {
        "specversion": "1.0",
        "id": id_,
        "type": f"io.github.kafka-partition-events.{name}.v1",
        "source": "kafka://c-1",
        "subject": subject,
        "time": "2026-11-20T10:00:40Z",
        "partitionkey": "c-1",
        "severitynumber": severity,
        "data": data,
    }
    return Entry(
        id=id_,
        stream=Stream.INCIDENTS,
        name=name,
        key="c-1",
        subject=subject,
        severity=severity,
        at=SEEN,
        recorded_at=SEEN,
        body=json.dumps(body).encode(),
    )


def incident(step: str, data: Mapping[str, Any], severity: int = 17) -> Entry:
    return notice(f"incident.{step}", "incident/inc-1", data, severity)


def entry_of(event: ev.Event) -> Entry:
    return to_entry(event, to_cloudevent(event, recorded_at=SEEN))


def changes(old: list[int | None], new: list[int | None], **stamp: Any) -> list[Entry]:
    before, after = (
        cluster_of({"orders": leaders}, brokers=[1, 2, 3], cluster_id="c-1") for leaders in (old, new)
    )
    stamp = {"wall_time": SEEN, "previous_at": BEFORE, **stamp}
    return [entry_of(event) for event in diff(before, after, **stamp)]


def stamped(cls: type[ev.Event], **fields: Any) -> Entry:
    return entry_of(cls(cluster_id="c-1", wall_time=SEEN, previous_at=BEFORE, **fields))


def written(entry: Entry, format: str, **options: Any) -> dict[str, Any]:  # noqa: A002
    payload = writer_of(format, **options)([entry])
    assert payload.content_type == "application/json"
    parsed: dict[str, Any] = json.loads(payload.body)
    return parsed


# -- CloudEvents ---------------------------------------------------------------------------------------


def test_one_cloudevent_is_sent_as_it_is() -> None:
    entry = incident("opened", OPEN)
    payload = writer_of("cloudevents")([entry])
    assert payload.body == entry.body
    assert payload.content_type == "application/cloudevents+json"


def test_several_are_a_batch() -> None:
    opened, closed = incident("opened", OPEN), incident("closed", CLOSED)
    payload = writer_of("cloudevents")([opened, closed])
    assert json.loads(payload.body) == [json.loads(opened.body), json.loads(closed.body)]
    assert payload.content_type == "application/cloudevents-batch+json"


# -- Alertmanager --------------------------------------------------------------------------------------


def test_an_open_incident_fires() -> None:
    labels = {
        "alertname": "KafkaBrokerLost",
        "kafka_cluster": "c-1",
        "broker": "2",
        "severity": "critical",
    }
    annotations = {
        "summary": "Incident: broker 2, 5 partitions of 2 topics (c-1)",
        "description": "It began between 2026-11-20 10:00:00 and 2026-11-20 10:00:10 UTC.",
        "partitions": "orders 0-2,5; payments 1",
        "runbook_url": "https://wiki.example.com/kafka",
    }
    assert written(
        incident("opened", OPEN),
        "alertmanager",
        receiver="on-call",
        runbook_url="https://wiki.example.com/kafka",
    ) == {
        "version": "4",
        "groupKey": "kpe:inc-1",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "on-call",
        "groupLabels": {"alertname": "KafkaBrokerLost", "kafka_cluster": "c-1"},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [
            {
                "status": "firing",
                "labels": labels,
                "annotations": annotations,
                "startsAt": "2026-11-20T10:00:10.000000Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "",
                "fingerprint": "inc-1",
            }
        ],
    }


def test_a_closed_incident_resolves_the_same_alert() -> None:
    opened = written(incident("opened", OPEN), "alertmanager")["alerts"][0]
    (closed,) = written(incident("closed", CLOSED, severity=9), "alertmanager")["alerts"]
    assert closed["status"] == "resolved"
    assert closed["endsAt"] == "2026-11-20T10:01:10.500000Z"
    for same in ("labels", "startsAt", "fingerprint"):
        assert closed[same] == opened[same]
    assert closed["annotations"]["description"].endswith("It lasted between 50 s and 71 s.")


def test_an_update_is_of_the_same_alert_still_firing() -> None:
    opened = written(incident("opened", OPEN), "alertmanager")
    updated = written(incident("updated", {**OPEN, "events": 9}), "alertmanager")
    assert updated["groupKey"] == opened["groupKey"]
    assert updated["alerts"][0]["labels"] == opened["alerts"][0]["labels"]
    assert updated["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("cause", "name", "label"),
    [
        ({"topic": "orders"}, "KafkaPartitionsOffline", {"topic": "orders"}),
        (None, "KafkaMetadataUnavailable", {}),
    ],
)
def test_an_alert_is_named_after_its_cause(cause: Any, name: str, label: dict[str, str]) -> None:
    (alert,) = written(incident("opened", {**OPEN, "cause": cause, "worst": 13}), "alertmanager")["alerts"]
    expected = {"alertname": name, "kafka_cluster": "c-1", "severity": "warning", **label}
    assert alert["labels"] == expected


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (changes([1, 2], [1, None])[0], changes([1, None], [1, 2])[0]),
        (
            stamped(ev.BrokerRemoved, old=cluster_of(brokers=[4]).nodes[4]),
            stamped(ev.BrokerAdded, new=cluster_of(brokers=[4]).nodes[4]),
        ),
        (
            stamped(ev.CapReached, topic="t", partitions=9, admitted=(0,), limit=1, partitioner="s"),
            stamped(ev.CapLifted, topic="t", partitions=9, partitioner="s"),
        ),
        (stamped(ev.MetadataUnavailable, error="x"), stamped(ev.MetadataRecovered, attempts=3, blind_s=1.0)),
        (
            stamped(ev.MetadataStale, age_s=301.0, limit_s=300.0),
            stamped(ev.MetadataRecovered, attempts=3, blind_s=1.0),
        ),
        (
            stamped(
                ev.BrokerSuspected,
                broker=2,
                reason=ev.Suspicion.SILENT,
                outstanding=1,
                silence_ms=1.0,
                usual_ms=None,
                partitioner="s",
            ),
            stamped(
                ev.BrokerCleared,
                broker=2,
                reason=ev.Clearance.ANSWERED,
                suspected_ms=1.0,
                probes=1,
                usual_ms=None,
                partitioner="s",
            ),
        ),
    ],
    ids=lambda entry: entry.name,
)
def test_what_comes_and_goes_fires_and_resolves_without_an_incident(begins: Entry, ends: Entry) -> None:
    (firing,), (resolved,) = (written(entry, "alertmanager")["alerts"] for entry in (begins, ends))
    assert (firing["status"], resolved["status"]) == ("firing", "resolved")
    assert firing["fingerprint"] == resolved["fingerprint"]
    assert firing["labels"]["alertname"] == resolved["labels"]["alertname"]
    assert firing["endsAt"] == "0001-01-01T00:00:00Z"
    assert resolved["endsAt"] == "2026-11-20T10:00:10.000000Z"


def test_the_end_of_an_outage_is_labelled_as_its_beginning_was() -> None:
    (lost,), (back,) = changes([1, 2], [1, None]), changes([1, None], [1, 2])
    (firing,), (resolved,) = (written(entry, "alertmanager")["alerts"] for entry in (lost, back))
    assert firing["labels"] == resolved["labels"]
    assert firing["labels"] == {
        "alertname": "KafkaPartitionOffline",
        "kafka_cluster": "c-1",
        "topic": "orders",
        "severity": "critical",
    }


def test_two_partitions_of_a_topic_are_two_alerts() -> None:
    alerts = [written(entry, "alertmanager")["alerts"][0] for entry in changes([1, 2], [None, None])]
    assert alerts[0]["labels"] == alerts[1]["labels"]
    assert alerts[0]["fingerprint"] != alerts[1]["fingerprint"]


def test_what_merely_happens_ends_when_it_begins() -> None:
    (grown,) = changes([1, 2], [1, 2, 3, 1])
    (alert,) = written(grown, "alertmanager")["alerts"]
    assert alert["status"] == "firing"
    assert alert["startsAt"] == alert["endsAt"] == "2026-11-20T10:00:10.000000Z"
    assert alert["annotations"]["summary"] == "Partitions added: orders 2-3 (c-1)"
    assert alert["labels"]["severity"] == "info"
    assert "runbook_url" not in alert["annotations"]


def test_flapping_is_an_alert_from_its_first_to_its_last_turn() -> None:
    turns = {"cluster_id": "c-1", "broker": 2, "cause": {"broker": 2}, "flapping_id": "f-1"}
    turns |= {"since": "2026-11-20T09:50:00.000000Z", "transitions": 4, "offline_s": 61.5, "partitions": {}}
    (started,) = written(notice("flapping.started", "broker/2", turns, 13), "alertmanager")["alerts"]
    (stopped,) = written(notice("flapping.stopped", "broker/2", turns, 9), "alertmanager")["alerts"]
    assert (started["status"], stopped["status"]) == ("firing", "resolved")
    for same in ("labels", "startsAt", "fingerprint"):
        assert started[same] == stopped[same]
    assert started["startsAt"] == "2026-11-20T09:50:00.000000Z"
    assert stopped["endsAt"] == "2026-11-20T10:00:40Z"
    assert started["labels"]["alertname"] == "KafkaFlappingStarted"
    assert started["annotations"] == {"summary": "Flapping started: broker 2 (c-1)"}


# -- Slack ---------------------------------------------------------------------------------------------


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


def test_a_lost_leader_on_slack() -> None:
    (lost,) = changes([1, 2], [1, None])
    blocks = written(lost, "slack")["blocks"]
    assert blocks[0]["text"]["text"].startswith(
        ":red_circle: *Partition offline: orders 1*\nIt began between"
    )
    assert blocks[2] == section("leader: none (was 2)")


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
    assert all(len(block["text"]["text"]) <= LIMIT for block in message["blocks"][:-1])


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def context(text: str) -> dict[str, Any]:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


# -- templates -----------------------------------------------------------------------------------------


def rendered(source: str, entry: Entry) -> str:
    return writer_of("template", template=source)([entry]).body.decode()


def test_a_template_can_word_beginning_and_end_differently() -> None:
    source = (
        '{% if opened %}{"alarm": {{ data.partitions | tojson }}}'
        '{% elif closed %}{"over": {{ data.closed_at | tojson }}}'
        "{% else %}{{ name }} {{ event.id }}{% endif %}"
    )
    opened = rendered(source, incident("opened", OPEN))
    closed = rendered(source, incident("closed", CLOSED))
    assert json.loads(opened) == {"alarm": OPEN["partitions"]}
    assert json.loads(closed) == {"over": CLOSED["closed_at"]}
    assert rendered(source, incident("updated", OPEN)) == "incident.updated id-updated"


def test_a_template_writes_text_as_it_is() -> None:
    entry = stamped(ev.MetadataUnavailable, error="a < b & 'c'\n")
    assert rendered("{{ data.error }}", entry) == "a < b & 'c'\n"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{{ data.topic", "line 1"),
        ("\n{% if name %}", "line 2"),
        ("{{ data | no_such_filter }}", "no_such_filter"),
        ("{{ topic }}", "uses topic, but there is only closed, data, event, name, opened"),
        ('{% include "/etc/passwd" %}', "stand alone"),
        ('{% extends "base" %}', "stand alone"),
        ('{% import "macros" as m %}', "stand alone"),
    ],
)
def test_a_template_that_cannot_work_is_refused_at_once(source: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        writer_of("template", template=source)


def test_jinjas_own_functions_may_be_used() -> None:
    assert rendered("{% for n in range(3) %}{{ n }}{% endfor %}", incident("opened", OPEN)) == "012"


@pytest.mark.parametrize(
    "source",
    [
        "{{ data.no_such_field }}",
        "{{ event.__class__.__mro__ }}",
        "{{ event.update({'id': 1}) }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{% for n in range(100000) %}0123456789{% endfor %}",
        "{% for n in range(10000000) %}{% endfor %}",
    ],
    ids=["missing", "python", "changing", "subclasses", "too large", "too long"],
)
def test_a_template_that_reaches_too_far_renders_nothing(source: str) -> None:
    write = writer_of("template", template=source)
    with pytest.raises(Exception, match=r"no attribute|unsafe|not safe|more than|too big"):
        write([incident("opened", OPEN)])


# -- choosing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "template"),
    [("teams", None), ("", None), ("template", None), ("slack", "{{ name }}"), ("cloudevents", "")],
)
def test_a_format_that_there_is_not_is_refused(format: str, template: str | None) -> None:  # noqa: A002
    with pytest.raises(ConfigurationError, match="format"):
        writer_of(format, template=template)


# -- what is told each period --------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["slack", "alertmanager"])
def test_the_cluster_in_numbers_concerns_no_partition(format: str) -> None:  # noqa: A002
    summary = stamped(
        ev.ClusterSummary, begin=BEFORE, end=SEEN, brokers=(), topics=2, partitions=4_711, offline=1
    )
    text = json.dumps(written(summary, format))
    assert "Cluster summary" in text
    assert "4711" not in text
