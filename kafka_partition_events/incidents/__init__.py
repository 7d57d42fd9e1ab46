"""The second lane: what is worth somebody's attention, derived from the journal.

What goes offline is held down for a while, what flaps is told once, what shares a cause is one incident, and
silences mute it. The journal stays as it is. See docs/decisions/2026-11-21-ops-pipeline.md.

Needs the extra ``events`` (the CloudEvents SDK).
"""

from kafka_partition_events.incidents.reader import IncidentReader, IncidentStats
from kafka_partition_events.incidents.reducer import Standing, Suppressed
from kafka_partition_events.incidents.rules import Rules
from kafka_partition_events.incidents.silences import (
    PREFIX,
    Silence,
    decode_silence,
    encode_silence,
)

__all__ = [
    "PREFIX",
    "IncidentReader",
    "IncidentStats",
    "Rules",
    "Silence",
    "Standing",
    "Suppressed",
    "decode_silence",
    "encode_silence",
]
