"""Who need not hear of what, and for how long. Pure.

A silence mutes the targets of this lane; it never touches the journal. A maintenance window is a silence that
comes round every week.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Final
from zoneinfo import ZoneInfo

from attrs import Factory, asdict, field, frozen
from attrs.validators import instance_of, optional

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.incidents.said import check_moment, moment_in, object_in
from kafka_partition_events.incidents.topic_pattern import TopicPattern
from kafka_partition_events.metadata.clock import is_zone
from kafka_partition_events.metadata.codec import encode_time

PREFIX: Final = "silence/"
"""How the outbox calls silences: this and the id."""

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKLY: Final = re.compile(
    rf"({'|'.join(_DAYS)}) ([01]\d|2[0-3]):([0-5]\d) ([1-9]\d{{0,3}})min( [\w+/-]{{1,60}})?", re.ASCII
)
_WEEK: Final = timedelta(days=7)
_TEXT: Final = optional(instance_of(str))
_MATCHERS: Final = ("cluster", "topic", "broker", "name")
_LONGEST_NAME: Final = 200


@frozen(kw_only=True)
class Silence:
    """What is muted, when, why and by whom. Matchers that are given must all match.

    Attributes:
        id: Its name in the outbox: letters, digits, ``.``, ``_`` and ``-``.
        author: Who wants it.
        reason: Why.
        since: From when on.
        until: Up to when; may be left open in a weekly one only.
        cluster: The cluster's id.
        topic: A regular expression that matches the whole name of every topic concerned: what concerns
            another topic too is told. See `TopicPattern` for what it may have.
        broker: The broker concerned.
        name: What the event's name looks like, such as ``incident.*``; ``*`` mutes everything.
        weekly: Restricts it to a part of every week: ``sun 02:30 90min`` is 90 minutes from half past two
            on Sundays, UTC; ``sun 02:30 90min Europe/Berlin`` goes by the clocks there.

    Raises:
        ConfigurationError: a value is out of range.
        TypeError: a value is of another type, or missing.
    """

    id: str = field(validator=instance_of(str))
    author: str = field(validator=instance_of(str))
    reason: str = field(validator=instance_of(str))
    since: datetime
    until: datetime | None = None
    cluster: str | None = field(default=None, validator=_TEXT)
    topic: str | None = field(default=None, validator=_TEXT)
    broker: int | None = field(default=None, validator=optional(instance_of(int)))
    name: str | None = field(default=None, validator=_TEXT)
    weekly: str | None = field(default=None, validator=_TEXT)
    _topics: TopicPattern | None = field(
        init=False, eq=False, repr=False, default=Factory(lambda self: _compiled(self.topic), takes_self=True)
    )

    def __attrs_post_init__(self) -> None:
        """Check the values."""
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.id):
            raise ConfigurationError(
                f"id must be up to 64 letters, digits, '.', '_' or '-', not {self.id!r:.80}"
            )
        for name in ("author", "reason"):
            if not getattr(self, name).strip():
                raise ConfigurationError(f"{name} is required: others will want to know")
        self._check_times()
        if all(getattr(self, matcher) is None for matcher in _MATCHERS):
            raise ConfigurationError(f"one of {', '.join(_MATCHERS)} is required; name='*' mutes everything")
        if len(self.name or "") > _LONGEST_NAME:
            raise ConfigurationError(f"name must have no more than {_LONGEST_NAME} characters")

    def _check_times(self) -> None:
        if self.weekly is not None and not (_WEEKLY.fullmatch(self.weekly) and is_zone(_zone(self.weekly))):
            raise ConfigurationError(
                f"weekly must look like 'sun 02:30 90min' (UTC) or 'sun 02:30 90min Europe/Berlin', "
                f"not {self.weekly!r:.80}"
            )
        for name in ("since", "until"):
            moment: datetime | None = getattr(self, name)
            if moment is not None:
                check_moment(name, moment)
        if self.until is None:
            if self.weekly is None:
                raise ConfigurationError("until is required: only a weekly silence may go on for ever")
        elif self.until <= self.since:
            raise ConfigurationError(f"until ({self.until}) must be later than since ({self.since})")

    @property
    def key(self) -> str:
        """How the outbox calls it."""
        return f"{PREFIX}{self.id}"

    def end_after(self, moment: datetime) -> datetime | None:
        """Return until when it mutes, if it does at a moment; else None."""
        if moment < self.since or (self.until is not None and moment >= self.until):
            return None
        if self.weekly is None:
            return self.until
        end = _end_of_occurrence(self.weekly, moment)
        return end if end is None or self.until is None else min(end, self.until)

    def mutes(self, name: str, cluster: str | None, broker: int | None, topics: frozenset[str]) -> bool:
        """Tell whether it is about what has this name and concerns this broker and these topics."""
        return (
            (self.cluster is None or self.cluster == cluster)
            and (self.broker is None or self.broker == broker)
            and (self.name is None or fnmatchcase(name, self.name))
            and (self._topics is None or (bool(topics) and all(map(self._topics.matches, topics))))
        )


def _end_of_occurrence(weekly: str, moment: datetime) -> datetime | None:
    day, at, minutes, *_ = weekly.split()
    hour, minute = map(int, at.split(":"))
    there = moment.astimezone(ZoneInfo(_zone(weekly)))
    today = there.replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    start = today - timedelta(days=(today.weekday() - _DAYS.index(day)) % 7)
    if start > there:
        start -= _WEEK
    # Days and weeks go by the clocks on the wall, minutes do not: clocks may be put forward meanwhile.
    end = start.astimezone(UTC) + timedelta(minutes=int(minutes.removesuffix("min")))
    return end if moment < end else None


def _compiled(topic: str | None) -> TopicPattern | None:
    if not isinstance(topic, str):  # its validator has yet to see it
        return None
    try:
        return TopicPattern(topic)
    except ValueError as error:
        raise ConfigurationError(f"topic {topic!r} is no regular expression: it {error}"[:500]) from error


def _zone(weekly: str) -> str:
    return weekly.partition("min")[2].strip() or "UTC"


def encode_silence(silence: Silence) -> bytes:
    """Return a silence as the outbox keeps it: JSON, with the fields of `Silence`."""
    fields = asdict(
        silence, filter=lambda each, value: each.init and value is not None, value_serializer=_plain
    )
    return json.dumps(fields).encode()


def decode_silence(value: bytes | str) -> Silence:
    """Return the silence that JSON tells.

    Raises:
        ConfigurationError: it tells none; the message says what is wrong.
    """
    fields = object_in("a silence", value)
    moments = {name: moment_in(name, fields[name]) for name in ("since", "until") if name in fields}
    try:
        return Silence(**{**fields, **moments})
    except TypeError as error:  # a field is missing, unknown or of another type
        raise ConfigurationError(f"a silence can't be made of {sorted(fields)}: {error}"[:500]) from error


def _plain(_silence: Any, _field: Any, value: Any) -> Any:
    return encode_time(value) if isinstance(value, datetime) else value
