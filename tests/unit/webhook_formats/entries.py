"""What webhooks tell of: an incident, open and closed, and entries of events. And what is written of it."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_partition_events.events.entries import to_entry
from kafka_partition_events.listeners import to_cloudevent
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry, Stream
from kafka_partition_events.testing.scripted import cluster_of
from kafka_partition_events_listeners.webhook.formats import writer_of

BEFORE = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
SEEN = BEFORE + timedelta(seconds=10)

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


def entry_of(event: ev.Event, **labels: Any) -> Entry:
    return to_entry(event, to_cloudevent(event, recorded_at=SEEN, labels=labels))


def changes(
    old: list[int | None], new: list[int | None], labels: Mapping[str, Any] | None = None, **stamp: Any
) -> list[Entry]:
    before, after = (
        cluster_of({"orders": leaders}, brokers=[1, 2, 3], cluster_id="c-1") for leaders in (old, new)
    )
    stamp = {"wall_time": SEEN, "previous_at": BEFORE, **stamp}
    return [entry_of(event, **(labels or {})) for event in diff(before, after, **stamp)]


def stamped(cls: type[ev.Event], **fields: Any) -> Entry:
    return entry_of(cls(cluster_id="c-1", wall_time=SEEN, previous_at=BEFORE, **fields))


def written(entry: Entry, format: str, **options: Any) -> dict[str, Any]:  # noqa: A002
    payload = writer_of(format, **options)([entry])
    assert payload.content_type == "application/json"
    parsed: dict[str, Any] = json.loads(payload.body)
    return parsed
