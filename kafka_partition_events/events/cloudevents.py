"""The library's events as CloudEvents 1.0, and as Kafka records in structured JSON mode. Pure.

Structured mode, because a binary-mode event without data is a tombstone to a compacted topic.

What makes an ``id``
--------------------
The id is a UUID 5 over the *state transition*, so that two observers, and an observer before and after a
restart, give one transition one id:

======================================  ===========================================================
name                                    identified by
======================================  ===========================================================
topic.created .deleted .identified      topic id
topic.recreated                         old and new topic id
partitions.added                        topic id, count before, count after
partition.offline .online               topic id, partition, leader epoch
leadership.moved                        topic id, partition, leader epoch
cluster.summary                         cluster, begin and end of the period
everything else                         nothing that all observers know
======================================  ===========================================================

Where nothing does, or the source cannot prove topic ids and epochs, the moment of the observation stands in,
because two transitions under one id would be one transition lost; then observers disagree, and consumers see
doubles. ``data.identity`` says which it is: ``"transition"`` or ``"observation"``.

A leader epoch identifies what began it. A leader that is not listed for a while leaves and comes back at one
epoch, so that is by observation. A topic that is hidden for a while (its DESCRIBE is revoked) is deleted and
created again under one topic id: what its outbox has under its id already is by observation, too.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.kafka import KafkaMessage, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.event_json import encode_time
from kafka_partition_events.events.facts import Facts, facts_of
from kafka_partition_events.events.names import name_of, schema_of, severity_of
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.outbox import Entry

TYPE_PREFIX: Final = "io.github.kafka-partition-events"
"""The prefix of event types: the project's name on the Python package index, reversed."""

RECORD_HEADERS: Final = {"content-type": JSONFormat.CONTENT_TYPE.encode()}
"""The headers of every record: CloudEvents' structured content mode."""

_IDS: Final = uuid.UUID("6f1b2f0e-0c55-5d0b-9a42-3d1f0b8d7c11")
_UNKNOWN_CLUSTER: Final = "unknown"
_NO_LABELS: Final[Mapping[str, Any]] = MappingProxyType({})


class _Format(JSONFormat):
    """The SDK's format, byte for byte, with one encoder, where the SDK makes one for each event."""

    def write(self, event: BaseCloudEvent) -> bytes:
        attributes, data = event.get_attributes(), event.get_data()
        if not isinstance(data, dict) or attributes.get("datacontenttype") != _JSON:
            return super().write(event)  # not one of our events
        return _ENCODER.encode({**attributes, "data": data}).encode()


@lru_cache(maxsize=16)  # the events of one poll share their time
def _plain(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} can't be written as JSON")
    return value.isoformat().replace("+00:00", "Z")


_JSON: Final = "application/json"
_ENCODER: Final = json.JSONEncoder(check_circular=False, default=_plain)
_FORMAT: Final = _Format()


def to_cloudevent(
    event: Event,
    *,
    observer: str | None = None,
    recorded_at: datetime | None = None,
    blind: bool = False,
    labels: Mapping[str, Any] = _NO_LABELS,
) -> CloudEvent:
    """Return the event as a CloudEvent.

    ``time`` is the upper bound of when it happened. It happened within ``data.snapshot``: after ``prev_at``,
    when the last poll before that still found it otherwise, and no later than ``at``. A null ``prev_at``
    means "at any time before".

    Args:
        event: A stamped event.
        observer: The name of who saw it.
        recorded_at: When it is being recorded, an aware time.
        blind: Whether polls failed between ``prev_at`` and ``at`` (``data.snapshot.gap``).
        labels: What else ``data`` is to say, such as ``planned``. The id does not depend on it.
    """
    name, facts = name_of(event), facts_of(event)
    cluster_id = event.cluster_id or _UNKNOWN_CLUSTER
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": id_of(event, name, facts, observer),
        "type": f"{TYPE_PREFIX}.{name}.v1",
        "source": f"kafka://{cluster_id}",
        "time": event.wall_time.astimezone(UTC),
        "datacontenttype": _JSON,
        "partitionkey": key_of(event, facts),
        "sequence": f"{event.sequence:020d}",  # CloudEvents compares it as text
        "severitynumber": int(severity_of(event)),
    }
    if (schema := schema_of(name)) is not None:
        attributes["dataschema"] = schema
    if facts.subject is not None:
        attributes["subject"] = facts.subject
    if recorded_at is not None:
        attributes["recordedtime"] = _rfc3339(recorded_at)
    return CloudEvent(attributes, {**_data(event, facts, observer, blind), **labels})


def to_record(event: CloudEvent) -> KafkaMessage:
    """Return the CloudEvent as a Kafka record: JSON value, ``partitionkey`` as the key."""
    return to_structured(event, _FORMAT)


def to_json(event: CloudEvent) -> bytes:
    """Return the CloudEvent in structured JSON: the value of its record."""
    return _FORMAT.write(event)


def to_entry(event: Event, cloudevent: CloudEvent) -> Entry:
    """Return an event, with the CloudEvent that was made of it, as an entry of the journal."""
    attributes = cloudevent.get_attributes()
    return Entry(
        id=attributes["id"],
        name=name_of(event),
        key=attributes["partitionkey"],
        subject=attributes.get("subject"),
        at=event.wall_time,
        recorded_at=datetime.fromisoformat(attributes["recordedtime"]),
        body=to_json(cloudevent),
    )


def _data(event: Event, facts: Facts, observer: str | None, blind: bool) -> dict[str, Any]:
    data: dict[str, Any] = {"cluster_id": event.cluster_id}
    if facts.topic is not None:
        data["topic"] = facts.topic
    return {
        **data,
        **facts.data,
        "snapshot": {
            "seq": event.generation,
            "prev_at": None if event.previous_at is None else _rfc3339(event.previous_at),
            "at": _rfc3339(event.wall_time),
            "gap": blind,
        },
        "initial": event.initial,
        "identity": "observation" if facts.transition is None else "transition",
        "observer": observer,
    }


def key_of(event: Event, facts: Facts) -> str:
    """Return the ``partitionkey`` of an event: what bears the same one is kept in order."""
    cluster_id = event.cluster_id or _UNKNOWN_CLUSTER
    return cluster_id if facts.topic is None else f"{cluster_id}|{facts.topic}"


def id_of(event: Event, name: str, facts: Facts, observer: str | None) -> str:
    """Return the id of an event; see above.

    Args:
        event: A stamped event.
        name: Its name.
        facts: What it says; the data does not matter.
        observer: The name of who saw it.
    """
    identity: list[str | int | None] = [event.cluster_id, name]
    if facts.transition is not None:
        identity += facts.transition
    else:
        identity += [facts.subject, _rfc3339(event.wall_time), event.sequence, observer]
    return uuid_of(json.dumps(identity))


def uuid_of(name: str) -> str:
    """Return what `uuid.uuid5` does, as text, in a third of the time: there is one for each event."""
    digest = hashlib.sha1(_IDS.bytes + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


_rfc3339 = lru_cache(maxsize=16)(encode_time)  # the events of one poll share their times
