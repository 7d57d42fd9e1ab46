"""How far the leading observer's sinks have come: as text for the other ones, and in their time. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from attrs import define, frozen

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.metadata.json_text import json_in

LONGEST: Final = 4_000
"""Kafka takes 4,096 bytes of offset metadata (offset.metadata.max.bytes)."""

COMMIT: Final = timedelta(seconds=60)
"""How long a commit may be under way: as long as librdkafka waits for an answer (socket.timeout.ms)."""

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
        document = json_in(text)
        progress = {name: _moment(text) for name, text in document["sinks"].items()}
        return Report(at=_moment(document["at"]), progress=progress)
    except (ValueError, TypeError, AttributeError, KeyError):
        _log.warning("election_progress_unreadable")
        return None


def _moment(text: str) -> datetime:
    """Return what `encode_time` made a text of; of a year from which one can count back and forth."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or not 1970 < moment.year < 9000:
        raise ValueError(text)
    return moment


@define
class LeadersClock:
    """By how much the leader's clock is ahead of this one, or behind, as far as its reports show it.

    A report that is read for the first time was committed since somebody asked last, and made at most
    `COMMIT` before. If it looks older, the leader's clock is behind this one. One that was read before is not
    fresh any more, and tells nothing.
    """

    _report_at: datetime | None = None
    _asked_at: float | None = None
    _at_zero: datetime | None = None
    """What the leader's clock said when this one's monotonic time was 0 s; None: nobody knows."""

    def here(self, report: Report | None, *, asked_at: float, now: datetime, monotonic: float) -> Progress:
        """Return a report's moments by this clock, early rather than late: what lies before is passed over.

        Args:
            report: What has just been read; None if there is none yet.
            asked_at: When that was asked for, by monotonic seconds.
            now: What this clock says. It may be set: what the leader's says is kept by monotonic time.
            monotonic: The same moment in seconds that never go back.
        """
        asked_before, self._asked_at = self._asked_at, asked_at
        if report is None:
            return {}
        own = now - timedelta(seconds=monotonic)
        if report.at != self._report_at:
            known = None if self._at_zero is None else self._at_zero - own
            unasked = None if asked_before is None else timedelta(seconds=monotonic - asked_before)
            ahead = _ahead(report.at - now, unasked, known)
            self._report_at, self._at_zero = report.at, None if ahead is None else own + ahead
        if self._at_zero is None:
            return {}
        return {name: moment - (self._at_zero - own) for name, moment in report.progress.items()}


def _ahead(seems: timedelta, unasked: timedelta | None, known: timedelta | None) -> timedelta | None:
    """Return by how much the leader's clock is ahead; None: that can't be told before its next report.

    Args:
        seems: By how much it is if the report was made just now: at the least.
        unasked: For how long nobody had asked, so that the report may be as old; None if nobody ever had.
        known: What was found last.
    """
    # What is usual is 0, unless nobody has asked for long: then, that nothing has changed.
    usual = timedelta() if unasked is not None and unasked <= COMMIT else known
    if unasked is None or usual is None:
        return None if seems > COMMIT else max(timedelta(), seems)
    return min(max(usual, seems), seems + COMMIT + unasked)
