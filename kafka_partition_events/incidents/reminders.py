"""What is open, as entries that say it again: for targets that forget what they are not told again."""

from datetime import datetime

from kafka_partition_events.incidents.outputs import flapping_notice, incident_notice, to_entry
from kafka_partition_events.incidents.reader import READER
from kafka_partition_events.incidents.rules import Rules
from kafka_partition_events.incidents.state import decode
from kafka_partition_events.outbox import Entry, Journal


def reminders_in(outbox: Journal, now: datetime) -> list[Entry]:
    """Return what sinks were told of and not of the end of, as an observer wrote it last.

    Of an incident it is an ``incident.updated``, of what flaps a ``flapping.started``, as of now. What is
    held down, muted from its beginning on, or closed by somebody is not among it. The entries are in no
    stream.

    Args:
        outbox: The observer's.
        now: When it is being told, an aware time.

    Raises:
        OutboxError: the outbox can't be read, or was written by another version.
    """
    state = outbox.values(READER).get(READER)
    if state is None:
        return []
    reducer, notices = decode(state, Rules()), []
    for trouble in reducer.troubles.values():
        incident = trouble.incident
        if incident is not None and incident.open and incident.told_at is not None:
            notices.append(incident_notice("incident.updated", trouble, incident, now))
        if trouble.flapping.told:
            notices.append(flapping_notice("flapping.started", trouble, now))
    return [to_entry(notice, reducer.cluster, now) for notice in notices]
