"""What receivers of Alertmanager's webhooks are sent: what comes and goes fires and resolves."""

from typing import Any

import pytest

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.outbox import Entry
from kafka_partition_events.testing.scripted import cluster_of
from tests.unit.webhook_formats.entries import CLOSED, OPEN, changes, incident, notice, stamped, written


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
    ("kinds", "name"),
    [
        (["broker", "partition"], "KafkaBrokerLost"),
        (["partition", "suspicion"], "KafkaPartitionsOffline"),
        (["suspicion"], "KafkaBrokerSuspected"),
        ([], "KafkaBrokerLost"),
    ],
)
def test_a_broker_is_lost_only_if_it_left(kinds: list[str], name: str) -> None:
    (alert,) = written(incident("opened", {**OPEN, "kinds": kinds}), "alertmanager")["alerts"]
    assert (alert["labels"]["alertname"], alert["labels"]["broker"]) == (name, "2")


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


def test_what_merely_happens_says_whether_somebody_had_asked_for_it() -> None:
    asked = {"planned": True, "change_id": "chg-1"}
    told = [
        written(entry, "alertmanager")["alerts"][0]
        for labels in (asked, {"planned": False})
        for entry in changes([1, 2], [1, 2, 3], labels)
    ]
    assert [alert["labels"]["planned"] for alert in told] == ["true", "false"]
    assert [alert["annotations"].get("change_id") for alert in told] == ["chg-1", None]
    (lost,) = changes([1, 2], [1, None], asked)
    assert "planned" not in written(lost, "alertmanager")["alerts"][0]["labels"], "its end may be unplanned"


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
