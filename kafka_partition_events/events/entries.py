"""Events as entries of an outbox. Pure."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.cloudevents import id_of, key_of, to_json
from kafka_partition_events.events.facts import bare_facts_of
from kafka_partition_events.events.names import is_churn, name_of, severity_of
from kafka_partition_events.metadata.events import Event, PartitionEvent
from kafka_partition_events.outbox import Entry


def to_entry(event: Event, cloudevent: CloudEvent) -> Entry:
    """Return an event, with the CloudEvent that was made of it, as an entry of the journal."""
    attributes = cloudevent.get_attributes()
    name = name_of(event)
    return Entry(
        id=attributes["id"],
        name=name,
        key=attributes["partitionkey"],
        subject=attributes.get("subject"),
        severity=attributes["severitynumber"],
        churn=is_churn(name),
        at=event.wall_time,
        recorded_at=datetime.fromisoformat(attributes["recordedtime"]),
        body=to_json(cloudevent),
    )


def to_entry_in_brief(
    event: PartitionEvent, make: Callable[[], CloudEvent], *, recorded_at: datetime, observer: str | None
) -> Entry:
    """Return the entry of a partition's change without its CloudEvent, which is made if somebody reads it.

    It is the same entry as the other one, and takes a third of the time.

    Args:
        event: The change. The entry holds on to it until its body is made.
        make: Makes the CloudEvent.
        recorded_at: When it is being recorded, an aware UTC time, as `make` tells it.
        observer: Who saw it, as `make` tells it.
    """
    name, facts = name_of(event), bare_facts_of(event)
    return Entry(
        id=id_of(event, name, facts, observer),
        name=name,
        key=key_of(event, facts),
        subject=facts.subject,
        severity=int(severity_of(event)),
        churn=is_churn(name),
        at=event.wall_time,
        recorded_at=recorded_at,
        body=partial(_body, make),
    )


def _body(make: Callable[[], CloudEvent]) -> bytes:
    return to_json(make())
