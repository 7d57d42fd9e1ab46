"""The control topics: how they should be, and what to do where they are not. Pure.

Readers cope with more partitions of leases, as all merges go by keys; with fewer, too. Commands and
changes have one: it elects the tracker, and it keeps their order.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError, ControlTopicError

PREFIX: Final = "kpe."
CURE: Final = "`kpe tracker init` creates the control topics"
CHANGES: Final = ("changes",)
"""What tells of changes, but for what each instance says of them."""
EVERYTHING: Final = (*CHANGES, "leases")
"""That, too: all that a tracker goes by."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,200}")

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_MANY: Final = 12
# A segment is compacted only after the next one has begun. With Kafka's defaults (1 GiB, 7 days) the leases
# of 10,000 instances would take 12 GiB before the first one is, and who starts would read a week of changes.
_SMALL: Final = 64 * 1024**2
# And with an hour, 1.2 million leases: `kpe change plan` and a tracker that begins would read for a minute.
_OFTEN_MS: Final = 5 * 60_000


@frozen(kw_only=True)
class ControlTopic:
    """A topic, as it is or should be.

    Attributes:
        name: Its name.
        partitions: How many it has, or is created with; where there should be one, more would be wrong.
        config: Its configuration, as far as it matters.
    """

    name: str
    partitions: int
    config: Mapping[str, str]


@frozen
class Difference:
    """A topic that is otherwise than it should be.

    Attributes:
        topic: How it should be.
        found: Those of its settings that are otherwise, as they are now; None: there is no such topic.
    """

    topic: ControlTopic
    found: Mapping[str, str | None] | None

    def __str__(self) -> str:
        name, config = self.topic.name, self.topic.config
        if self.found is None:
            settings = " ".join(f"{key}={value}" for key, value in config.items())
            return f"{name}: create with {self.topic.partitions} partition(s) {settings}"
        return f"{name}: set {' '.join(f'{key}={config[key]} (is {is_})' for key, is_ in self.found.items())}"


def tracker_name(prefix: str) -> str:
    """Return the tracker's consumer group; it is its transactional id, too."""
    return f"{prefix.rstrip('.')}-tracker"


def control_topics(prefix: str = PREFIX) -> tuple[ControlTopic, ...]:
    """Return the topics of change control under a prefix.

    Raises:
        ConfigurationError: Kafka allows no topic of such a name.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            f"{prefix!r} can't begin the names of topics; write letters, digits, '.', '_' and '-'"
        )

    def topic(
        name: str, partitions: int, policy: str, kept_days: int = 0, segment_ms: int = 0
    ) -> ControlTopic:
        config = {"cleanup.policy": policy, "message.timestamp.type": "LogAppendTime"}
        if kept_days:
            config["retention.ms"] = str(kept_days * _DAY_MS)
        if segment_ms:
            config |= {"segment.bytes": str(_SMALL), "segment.ms": str(segment_ms)}
        return ControlTopic(name=f"{prefix}{name}", partitions=partitions, config=config)

    return (
        topic("commands", 1, "delete", kept_days=30),
        topic("changes", 1, "compact", segment_ms=_HOUR_MS),
        topic("leases", _MANY, "compact,delete", kept_days=2, segment_ms=_OFTEN_MS),
    )


def differences(wanted: Iterable[ControlTopic], found: Mapping[str, ControlTopic]) -> tuple[Difference, ...]:
    """Return what is otherwise than it should be; nothing if all is well.

    Raises:
        ControlTopicError: one has more partitions than it may have. Nothing helps: Kafka can't shrink it.
    """
    return tuple(difference for topic in wanted for difference in _differences(topic, found.get(topic.name)))


def _differences(topic: ControlTopic, present: ControlTopic | None) -> Iterator[Difference]:
    if present is None:
        yield Difference(topic, None)
        return
    if topic.partitions == 1 < present.partitions:
        has = f"{topic.name}: has {present.partitions} partitions and must have 1"
        raise ControlTopicError(f"{has}; delete it, or choose another --prefix")
    here = {name: present.config.get(name) for name in topic.config}
    if other := {name: is_ for name, is_ in here.items() if _words(is_) != _words(topic.config[name])}:
        yield Difference(topic, other)


def _words(value: str | None) -> set[str] | None:
    """Return the parts of a list; their order means nothing: ``compact,delete``."""
    return None if value is None else {word.strip() for word in value.split(",")}
