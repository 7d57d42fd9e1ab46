"""An incident that did not happen, to try who would be told of one. It says so wherever it comes. Pure."""

from datetime import datetime
from typing import Final

from attrs import evolve

from kafka_partition_events.events.moments import Bounds
from kafka_partition_events.events.names import Severity
from kafka_partition_events.incidents.causes import Cause
from kafka_partition_events.incidents.model import Incident, Trouble
from kafka_partition_events.incidents.outputs import identified, incident_notice, to_entry
from kafka_partition_events.outbox import Entry

TOPIC: Final = "kpe-sink-test"
"""The topic that it is about; there need not be one."""


def opened(at: datetime) -> Entry:
    """Return that it began.

    Args:
        at: When, an aware time; two that began at different times are two incidents.
    """
    return _entry("incident.opened", _incident(at), at)


def closed(opened_at: datetime, at: datetime) -> Entry:
    """Return that the one that began at some moment is over at another."""
    incident = _incident(opened_at)
    incident.ended = Bounds(opened_at, at)
    return _entry("incident.closed", incident, at)


def _incident(at: datetime) -> Incident:
    id_ = identified(TOPIC, at.isoformat())
    return Incident(
        id=id_,
        latest=id_,
        due=at,
        events=1,
        worst=Severity.ERROR,
        began=Bounds(at, at),
        opened_at=at,
    )


def _entry(name: str, incident: Incident, at: datetime) -> Entry:
    notice = incident_notice(name, Trouble(Cause(topic=TOPIC), incident=incident), incident, at)
    return to_entry(evolve(notice, data={**notice.data, "test": True}), None, at)
