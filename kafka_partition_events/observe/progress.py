"""How far the sinks of the leading observer have come, as text for the other ones. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from attrs import frozen

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.codec import encode_time

LONGEST: Final = 4_000
"""Kafka takes 4,096 bytes of offset metadata (offset.metadata.max.bytes)."""

Progress = Mapping[str, datetime]
"""Up to which moment each sink has everything."""

_log = get_logger(__name__)


@frozen(kw_only=True)
class Report:
    """The leader's progress, and its clock when it said so."""

    at: datetime
    progress: Progress


def encode_report(report: Report) -> str:
    """Return a report as text that fits into an offset's metadata.

    With a hundred sinks there is no room for all: the rest repeat what the former leader has delivered.
    """
    sinks: dict[str, str] = {}
    document = {"at": encode_time(report.at), "sinks": sinks}
    for name, moment in sorted(report.progress.items()):
        sinks[name] = encode_time(moment)
        if len(json.dumps(document)) > LONGEST:
            del sinks[name]
            break
    return json.dumps(document)


def decode_report(text: str | None) -> Report | None:
    """Return what `encode_report` made a text of; None if it is something else (logged) or nothing."""
    if not text:
        return None
    try:
        document = json.loads(text)
        progress = {name: datetime.fromisoformat(moment) for name, moment in document["sinks"].items()}
        return Report(at=datetime.fromisoformat(document["at"]), progress=progress)
    except (ValueError, TypeError, AttributeError, KeyError):
        _log.warning("election_progress_unreadable")
        return None
