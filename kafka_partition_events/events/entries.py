"""Events as entries of an outbox. Pure."""

from datetime import datetime

from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.cloudevents import to_json
from kafka_partition_events.events.names import is_churn, name_of
from kafka_partition_events.metadata.events import Event
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
