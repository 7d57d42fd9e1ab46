"""What is open, held down, or closed by somebody and not over: for whoever asks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafka_partition_events.incidents.outputs import incident_notice
from kafka_partition_events.incidents.reader import READER
from kafka_partition_events.incidents.rules import Rules
from kafka_partition_events.incidents.state import decode
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.outbox import Journal


def standing_in(outbox: Journal, now: datetime) -> list[Mapping[str, Any]]:
    """Return incidents as an observer wrote them last, the oldest first.

    Each is the data of ``incident.updated``, with ``open``, ``told_at`` and ``muted_by``.

    Raises:
        OutboxError: the outbox can't be read, or was written by another version.
    """
    state = outbox.values(READER).get(READER)
    if state is None:
        return []
    both = ((t, t.incident) for t in decode(state, Rules()).troubles.values())
    found = sorted(((t, i) for t, i in both if i is not None), key=lambda both: both[1].opened_at or now)
    return [
        {
            **incident_notice("incident.updated", trouble, incident, now).data,
            "open": incident.open,
            "told_at": None if incident.told_at is None else encode_time(incident.told_at),
            "muted_by": incident.muted_by,
        }
        for trouble, incident in found
    ]
