"""What an entry says, in words for people. Pure.

Shared by the formats that are read by people; fields that an event does not have are passed over.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.events.moments import Bounds, moment_of
from kafka_partition_events.metadata.json_text import json_in
from kafka_partition_events.outbox import Entry

ENDS: Final[Mapping[str, str]] = {
    "incident.closed": "incident.opened",
    "flapping.stopped": "flapping.started",
    "partition.online": "partition.offline",
    "broker.joined": "broker.left",
    "broker.cleared": "broker.suspected",
    "cap.lifted": "cap.reached",
    "metadata.recovered": "metadata.unavailable",
}
"""Names that tell the end of something, each with the name that told its beginning."""

_INCIDENT: Final = {
    "incident.opened": "Incident",
    "incident.updated": "Incident goes on",
    "incident.acknowledged": "Somebody looks after the incident",
    "incident.closed": "Incident is over",
}
_LASTS: Final = _INCIDENT.keys() | ENDS.values() | {"metadata.stale"}
_EFFECTS: Final = {
    "leadership.moved": ("leader", "moved"),
    "partition.offline": ("partition", "offline"),
    "partition.online": ("partition", "online again"),
    "isr.shrunk": ("partition", "with fewer in-sync replicas"),
    "isr.expanded": ("partition", "with more in-sync replicas"),
    "replicas.changed": ("partition", "reassigned"),
}
_MOST_RUNS: Final = 12
_LONGEST_DETAIL: Final = 300
_TOLD_ELSEWHERE: Final = frozenset({
    "cluster_id", "topic", "topic_id", "partitions", "partition_count", "broker", "brokers",
    "before", "after", "changes", "effects", "snapshot", "initial", "identity", "observer",
    "incident_id", "flapping_id", "cause", "opened_at", "closed_at", "began", "ended", "offline", "worst",
    "inferred", "kinds",
})  # fmt: skip


@frozen(kw_only=True)
class News:
    """What one entry says.

    Attributes:
        name: The event's name without prefix and version.
        severity: OpenTelemetry's severity number.
        event: The CloudEvent as JSON has it.
    """

    name: str
    severity: int
    event: Mapping[str, Any]

    @property
    def data(self) -> Mapping[str, Any]:
        """The CloudEvent's data."""
        return self.event.get("data") or {}

    @property
    def closed(self) -> bool:
        """Whether it tells an end."""
        return self.name in ENDS

    @property
    def cluster(self) -> str:
        """The cluster's id."""
        return self.data.get("cluster_id") or "unknown"

    @property
    def cause(self) -> Mapping[str, Any]:
        """An incident's cause; what any other event is about."""
        if self.name in _INCIDENT:
            return self.data.get("cause") or {}
        return {part: self.data[part] for part in ("topic", "broker") if self.data.get(part) is not None}

    @property
    def partitions(self) -> Mapping[str, str]:
        """The partitions concerned: topic to ranges of ids."""
        concerned = self.data.get("partitions") or {}
        if isinstance(concerned, str):
            return {self.data.get("topic", ""): concerned}
        if not isinstance(concerned, Mapping):  # a summary tells how many there are
            return {}
        return dict(sorted(concerned.items()))

    @property
    def unlisted(self) -> int:
        """How many partitions are concerned beyond those listed: a long list is cut short at its source."""
        listed = sum(map(_count, self.partitions.values()))
        count: int = self.data.get("partition_count", listed)
        return max(0, count - listed)

    @property
    def began(self) -> Bounds | None:
        """When what it tells of began; None if it tells of an end only."""
        if self.name in _INCIDENT:
            return _bounds(self.data.get("began"))
        return None if self.closed else self._seen

    @property
    def ended(self) -> Bounds | None:
        """When what it tells of ended; None if it has not."""
        if self.name in _INCIDENT:
            return _bounds(self.data.get("ended"))
        return self._seen if self.closed else None

    @property
    def _seen(self) -> Bounds | None:
        snapshot = self.data.get("snapshot") or {}
        return _bounds({"after": snapshot.get("prev_at"), "by": snapshot.get("at")})


def read(entry: Entry) -> News:
    """Return what an entry says."""
    return News(name=entry.name, severity=entry.severity, event=json_in(entry.body))


def headline(news: News) -> str:
    """Return one line without the cluster, such as ``Incident: broker 2, 12 partitions of 2 topics``."""
    return f"TEST, nothing is wrong: {_said(news)}" if news.data.get("test") else _said(news)


def _said(news: News) -> str:
    if (incident := _INCIDENT.get(news.name)) is None:
        words = news.name.replace(".", " ").capitalize()
        about = _subject(news.event.get("subject"))
        return f"{words}: {about}" if about else words
    about = ", ".join(filter(None, (_listed(news.cause), _extent(news))))
    return f"{incident}: {about or 'the cluster as a whole'}"


def sentences(news: News) -> list[str]:
    """Return when it began and ended and how long it lasted, as far as that is known."""
    verb = "began" if news.name in _LASTS else "happened"
    told = []
    if news.began is not None:
        told.append(f"It {verb} {_between(news.began)}.")
    if news.ended is not None:
        told.append(f"It ended {_between(news.ended)}.")
    if news.began is not None and news.ended is not None:
        told.append(f"It lasted {_duration(news.began, news.ended)}.")
    return told


def affected(news: News) -> list[str]:
    """Return a line for each topic: its name and its partitions, long lists cut short."""
    lines = [f"{topic} {shortened(ids)}".strip() for topic, ids in news.partitions.items()]
    return [*lines, f"and {_plural(news.unlisted, 'partition')} of other topics"] if news.unlisted else lines


def details(news: News) -> list[str]:
    """Return what is particular to this kind of event, such as ``reason: silent``."""
    before, after = news.data.get("before") or {}, news.data.get("after") or {}
    changed = [
        f"{word}: {_known(after[word])}" + (f" (was {_known(before[word])})" if word in before else "")
        for word in ("count", "leader")
        if word in after
    ]
    unplanned = ["unplanned"] if news.data.get("planned") is False else []
    because = (
        []
        if news.name in _INCIDENT
        else [f"because of {_listed(cause)}" for cause in [news.data.get("cause")] if cause]
    )
    inferred = ["the cause is inferred"] if news.data.get("inferred") and news.cause else []
    return [*changed, *because, *inferred, *_effects(news), *unplanned] + [
        name.replace("_", " ") + ("" if value is True else f": {clipped(_listed(value), _LONGEST_DETAIL)}")
        for name, value in news.data.items()
        if name not in _TOLD_ELSEWHERE and value
    ]


def _effects(news: News) -> list[str]:
    """Return what followed from a broker's leaving or coming: ``1,998 leaders moved, ...``."""
    effects = news.data.get("effects") or {}
    told = [
        _plural(effects[name], noun, words) for name, (noun, words) in _EFFECTS.items() if name in effects
    ]
    return [", ".join(told)] if told else []


def fitting(lines: Sequence[str], limit: int) -> list[str]:
    """Return as many of the lines as fit into ``limit`` characters, and how many more there are."""
    fitted: list[str] = []
    for line in lines:
        limit -= len(line) + 1
        if limit < 0:
            return [*fitted, f"and {len(lines) - len(fitted)} more"]
        fitted.append(line)
    return fitted


def shortened(ids: str) -> str:
    """Return ranges of ids, those beyond the first dozen as a number: ``0,2,4 and 97 more``."""
    runs = ids.split(",")
    rest = ",".join(runs[_MOST_RUNS:])
    return f"{','.join(runs[:_MOST_RUNS])} and {_count(rest)} more" if rest else ids


def clipped(text: str, limit: int) -> str:
    """Return the text, at most ``limit`` characters of it."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _known(value: int | None) -> str:
    return "none" if value is None else str(value)


def _subject(subject: str | None) -> str:
    kind, _, rest = (subject or "").partition("/")
    words = rest.replace("/", " ") if kind == "topic" else f"{kind} {rest}"
    return clipped(words.strip(), _LONGEST_DETAIL)


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _extent(news: News) -> str:
    count = sum(map(_count, news.partitions.values())) + news.unlisted
    if count == 0:
        return ""
    topics = "" if news.unlisted else f" of {_plural(len(news.partitions), 'topic')}"
    return _plural(count, "partition") + topics


def _plural(count: int, noun: str, words: str = "") -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'} {words}".rstrip()


def _count(ids: str) -> int:
    runs = (run.partition("-") for run in ids.split(",") if run)
    return sum(int(last or first) - int(first) + 1 for first, _, last in runs)


# -- times ---------------------------------------------------------------------------------------------


def _bounds(value: Mapping[str, str | None] | None) -> Bounds | None:
    value = value or {}
    after, by = moment_of(value.get("after")), moment_of(value.get("by"))
    return None if by is None else Bounds(after, by)


def _between(bounds: Bounds) -> str:
    by = f"{bounds.by:%Y-%m-%d %H:%M:%S} UTC"
    if bounds.after is None:
        return f"before {by}"
    after = f"{bounds.after:%Y-%m-%d %H:%M:%S}"
    return f"at {by}" if by.startswith(after) else f"between {after} and {by}"


def _duration(began: Bounds, ended: Bounds) -> str:
    shortest = timedelta() if ended.after is None else max(timedelta(), ended.after - began.by)
    if began.after is None:
        return f"at least {_span(shortest, math.floor)}"
    longest = ended.by - began.after
    return f"between {_span(shortest, math.floor)} and {_span(longest, math.ceil)}"


def _span(span: timedelta, rounded: Callable[[float], int]) -> str:
    seconds = span.total_seconds()
    if seconds < 120:
        return f"{rounded(seconds)} s"
    if seconds < 7200:
        return f"{rounded(seconds / 60)} min"
    return f"{rounded(seconds / 360) / 10:g} h"
