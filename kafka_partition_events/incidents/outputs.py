"""What this lane tells, and how it looks as an entry: the CloudEvents of the decision on the ops pipeline."""

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from attrs import frozen
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.cloudevents import TYPE_PREFIX, to_json
from kafka_partition_events.events.names import Severity
from kafka_partition_events.incidents.causes import Kind, Member, packed
from kafka_partition_events.incidents.model import Incident, Trouble
from kafka_partition_events.incidents.silences import Silence
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.outbox import Entry, Stream

LISTED_BYTES: Final = 20_000
"""How long a list of partitions may get: two of them have room in the 64 KiB that CloudEvents promises."""

LISTED_INCIDENTS: Final = 100
"""How many incidents the end of a silence names."""

INCIDENT: Final = "incident/"
"""How a subject begins that is an incident: this and its id."""

_IDS: Final = uuid.UUID("0d3b9a52-7f0e-5c61-8b1d-2f6f3b6f5a90")
_UNKNOWN_CLUSTER: Final = "unknown"


@frozen(kw_only=True)
class Notice:
    """Something to be told.

    Attributes:
        name: The event's name without prefix and version.
        at: When it came to be so.
        severity: OpenTelemetry's severity number.
        subject: The CloudEvent's subject; None for the whole cluster.
        topic: The topic whose other events it is to be kept in order with.
        correlation: What it belongs to: an incident's id, for instance.
        causation: The id of the event that caused it, if one did.
        data: What is particular to it.
    """

    name: str
    at: datetime
    severity: int
    subject: str | None
    topic: str | None = None
    correlation: str
    causation: str | None = None
    data: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The CloudEvent's id: what belongs together tells one thing at a time."""
        return identified(self.correlation, self.name, encode_time(self.at))


def identified(*parts: Any) -> str:
    """Return the id of what the parts identify."""
    return str(uuid.uuid5(_IDS, json.dumps(parts)))


def incident_notice(
    name: str, trouble: Trouble, incident: Incident, at: datetime, *, reminds: bool = False
) -> Notice:
    """Return ``incident.opened``, ``.updated``, ``.acknowledged`` or ``.closed``.

    One that somebody closed has no end yet.
    """
    closed = name == "incident.closed"
    said = {
        "closed_by": incident.closed_by,
        "reason": incident.closed_for,
        "acknowledged_by": incident.acked_by,
        "acknowledged_for": incident.acked_for,
        "reminder": reminds or None,
    }
    ended = incident.ended if closed and not incident.closed_by else None
    suspicions = {member.name for member in incident.concerned if member.kind is Kind.SUSPICION}
    return Notice(
        name=name,
        at=at,
        severity=Severity.INFO if closed else incident.worst,
        subject=f"{INCIDENT}{incident.id}",
        correlation=incident.id,
        causation=incident.latest,
        data={
            "incident_id": incident.id,
            "cause": trouble.cause.as_json(),
            "inferred": incident.inferred,
            "kinds": sorted({member.kind.value for member in incident.concerned}),
            "opened_at": None if incident.opened_at is None else encode_time(incident.opened_at),
            "closed_at": encode_time(at) if closed else None,
            "began": None if incident.began is None else incident.began.as_json(),
            "ended": None if ended is None else ended.as_json(),
            **_listing("partitions", "partition_count", incident.concerned),
            **_listing("offline", "offline_count", trouble.members),
            "brokers": [] if trouble.cause.broker is None else [trouble.cause.broker],
            "gone": any(member.kind is Kind.BROKER for member in trouble.members),
            "suspected_by": sorted(suspicions),
            "events": incident.events,
            "worst": incident.worst,
            "silenced": incident.silenced,
            **{name: value for name, value in said.items() if value is not None},
        },
    )


def flapping_notice(name: str, trouble: Trouble, at: datetime) -> Notice:
    """Return ``flapping.started`` or ``.stopped``."""
    flapping, cause = trouble.flapping, trouble.cause
    since = None if flapping.since is None else encode_time(flapping.since)
    id_ = identified(cause.as_json(), since)
    return Notice(
        name=name,
        at=at,
        severity=Severity.WARN if name == "flapping.started" else Severity.INFO,
        subject=cause.subject,
        topic=cause.topic,
        correlation=id_,
        data={
            **(cause.as_json() or {}),
            "flapping_id": id_,
            "cause": cause.as_json(),
            "since": since,
            "transitions": flapping.count,
            "offline_s": round(flapping.offline_until(at), 3),
            "down": trouble.down,
            **_listing("partitions", "partition_count", flapping.concerned),
        },
    )


def silence_notice(
    silence: Silence, at: datetime, muted: Mapping[str, int], still_open: Iterable[str]
) -> Notice:
    """Return ``silence.ended``, with how much was muted by name, and the incidents that are told now."""
    return Notice(
        name="silence.ended",
        at=at,
        severity=Severity.INFO,
        subject=f"silence/{silence.id}",
        correlation=silence.id,
        data={
            "silence_id": silence.id,
            "author": silence.author,
            "reason": silence.reason,
            "since": encode_time(silence.since),
            "ended_at": encode_time(at),
            "muted": dict(sorted(muted.items())),
            "still_open": list(still_open)[:LISTED_INCIDENTS],
        },
    )


def to_entry(
    notice: Notice, cluster_id: str | None, recorded_at: datetime, type_prefix: str = TYPE_PREFIX
) -> Entry:
    """Return a notice as an entry of this lane, the CloudEvent's envelope as in the journal.

    It has no ``sequence``: that numbers what one source tells, and the journal's events are of the same one.

    Args:
        notice: The notice.
        cluster_id: Kafka's cluster id, None where nobody can tell.
        recorded_at: When it is being recorded, an aware time.
        type_prefix: What comes before the name in ``type``, a reverse DNS name.
    """
    cluster = cluster_id or _UNKNOWN_CLUSTER
    key = cluster if notice.topic is None else f"{cluster}|{notice.topic}"
    attributes = {
        "specversion": "1.0",
        "id": notice.id,
        "type": f"{type_prefix}.{notice.name}.v1",
        "source": f"kafka://{cluster}",
        "subject": notice.subject,
        "time": notice.at.astimezone(UTC),
        "recordedtime": encode_time(recorded_at),
        "datacontenttype": "application/json",
        "dataschema": f"urn:kpe:schema:{notice.name}:1",
        "partitionkey": key,
        "severitynumber": int(notice.severity),
        "correlationid": notice.correlation,
        "causationid": notice.causation,
    }
    known = {name: value for name, value in attributes.items() if value is not None}
    return Entry(
        id=notice.id,
        stream=Stream.INCIDENTS,
        name=notice.name,
        key=key,
        subject=notice.subject,
        severity=int(notice.severity),
        at=notice.at,
        recorded_at=recorded_at,
        body=to_json(CloudEvent(known, {"cluster_id": cluster_id, **notice.data})),
    )


def _listing(name: str, count_name: str, members: Iterable[Member]) -> dict[str, Any]:
    """Return topics with their partitions, as many as there is room for, and how many there are in all."""
    partitions = [member for member in members if member.kind is Kind.PARTITION]
    listed: dict[str, str] = {}
    room = LISTED_BYTES
    for topic, ids in packed(partitions).get(Kind.PARTITION, {}).items():
        size = len(f'"{topic}": "{ids}", ')
        if size <= room:
            listed[topic] = ids
            room -= size
    return {name: listed, count_name: len(partitions)}
