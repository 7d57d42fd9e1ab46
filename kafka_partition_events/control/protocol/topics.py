"""The control topics: how they should be, and what to do where they are not. Pure.

Readers cope with more partitions of leases, as all merges go by keys; with fewer, too. Commands and
changes have one: it elects the tracker, and it keeps their order.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError, ControlTopicError

PREFIX: Final = "kpe."
CURE: Final = "`kpe tracker init` creates the control topics"
CHANGES: Final = ("changes",)
"""The topic of the changes, without what each instance says of them."""
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

    def __str__(self) -> str:
        settings = " ".join(f"{key}={value}" for key, value in self.config.items())
        return f"{self.name}: create with {self.partitions} partition(s) {settings}"


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


def missing(wanted: Collection[ControlTopic], found: Mapping[str, ControlTopic]) -> tuple[ControlTopic, ...]:
    """Return those that are not there.

    Raises:
        ControlTopicError: one is otherwise than it must be.
    """
    for topic in wanted:
        if (present := found.get(topic.name)) is not None:
            _check(topic, present)
    return tuple(topic for topic in wanted if topic.name not in found)


def _check(topic: ControlTopic, present: ControlTopic) -> None:
    if topic.partitions == 1 < present.partitions:
        has = f"{topic.name}: has {present.partitions} partitions and must have 1"
        raise ControlTopicError(f"{has}; delete it, or choose another --prefix")
    for name, value in topic.config.items():
        if _words(is_ := present.config.get(name)) != _words(value):
            cure = f"kafka-configs.sh --alter --topic {topic.name} --add-config {name}=[{value}]"
            raise ControlTopicError(f"{topic.name}: {name} is {is_} and must be {value}; {cure}")


def _words(value: str | None) -> set[str] | None:
    """Return the parts of a list; their order means nothing: ``compact,delete``."""
    return None if value is None else {word.strip() for word in value.split(",")}
