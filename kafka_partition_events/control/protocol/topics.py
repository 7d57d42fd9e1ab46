"""The control topics: how they should be, and what to do where they are not. Pure.

Readers cope with more partitions of leases and acks, as all merges go by keys; with fewer, too. Commands and
changes have one: it elects the tracker, and it keeps their order.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError

PREFIX: Final = "kpe."
CURE: Final = "`kpe tracker init` creates the control topics"
CHANGES: Final = ("changes",)
"""What tells of changes, but for what each instance says of them."""
EVERYTHING: Final = (*CHANGES, "leases", "acks")
"""That, too: all that a tracker goes by."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{0,200}")

_DAY_MS: Final = 86_400_000
_MANY: Final = 12
REPLICAS: Final = 3
"""How many replicas each topic should have, where there are so many brokers."""
# A segment is compacted only after the next one has begun. With Kafka's defaults (1 GiB, 7 days) the leases
# of 10,000 instances would take 12 GiB before the first one is, and who starts would read a week of changes.
_SMALL: Final = 64 * 1024**2
_HOUR_MS: Final = _DAY_MS // 24
# And with an hour, 1.2 million leases: `kpe change plan` and a tracker that begins would read for a minute.
_OFTEN_MS: Final = 5 * 60_000
_APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}


@frozen(kw_only=True)
class ControlTopic:
    """A topic, as it is or should be.

    Attributes:
        name: Its name.
        partitions: How many it has, or is created with; where there should be one, more would be wrong.
        replicas: How many the partition has that has fewest.
        config: Its configuration, as far as it matters.
    """

    name: str
    partitions: int
    replicas: int = REPLICAS
    config: Mapping[str, str]


class Action(StrEnum):
    """What is to be done about a topic."""

    CREATE = "create"
    CONFIGURE = "configure"
    UNFIT = "unfit"
    """Nothing helps, because Kafka can't shrink a topic."""


@frozen(kw_only=True)
class Difference:
    """A topic that is otherwise than it should be.

    Attributes:
        topic: How it should be.
        action: What is to be done.
        found: What is otherwise now; None: it is not there.
    """

    topic: ControlTopic
    action: Action
    found: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        name, partitions, found = self.topic.name, self.topic.partitions, self.found or {}
        if self.action is Action.UNFIT:
            cure = "delete it, or choose another --prefix"
            return f"{name}: has {found['partitions']} partitions and must have {partitions}; {cure}"
        if self.action is Action.CREATE:
            config = " ".join(f"{key}={value}" for key, value in self.topic.config.items())
            return f"{name}: create with {partitions} partition(s) {config}"
        changes = (f"{key}={self.topic.config[key]} (is {value})" for key, value in found["config"].items())
        return f"{name}: set {' '.join(changes)}"


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

    def topic(name: str, partitions: int, **config: str) -> ControlTopic:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        often = "compact,delete" in config["cleanup_policy"]
        segments = {"segment.bytes": str(_SMALL), "segment.ms": str(_OFTEN_MS if often else _HOUR_MS)}
        return ControlTopic(
            name=f"{prefix}{name}",
            partitions=partitions,
            config={**dotted, **_APPEND_TIME, **(segments if "compact" in config["cleanup_policy"] else {})},
        )

    return (
        topic("commands", 1, cleanup_policy="delete", retention_ms=str(30 * _DAY_MS)),
        topic("changes", 1, cleanup_policy="compact"),
        topic("leases", _MANY, cleanup_policy="compact,delete", retention_ms=str(2 * _DAY_MS)),
        topic("acks", _MANY, cleanup_policy="compact,delete", retention_ms=str(30 * _DAY_MS)),
    )


def differences(wanted: Iterable[ControlTopic], found: Mapping[str, ControlTopic]) -> tuple[Difference, ...]:
    """Return what is otherwise than it should be; nothing if all is well.

    Args:
        wanted: How topics should be.
        found: Those that are there, by name.
    """
    return tuple(difference for topic in wanted for difference in _differences(topic, found.get(topic.name)))


def _differences(topic: ControlTopic, present: ControlTopic | None) -> Iterator[Difference]:
    if present is None:
        yield Difference(topic=topic, action=Action.CREATE)
        return
    if topic.partitions == 1 < present.partitions:
        yield Difference(topic=topic, action=Action.UNFIT, found={"partitions": present.partitions})
    here = {name: present.config.get(name) for name in topic.config}
    if config := {name: is_ for name, is_ in here.items() if _words(is_) != _words(topic.config[name])}:
        yield Difference(topic=topic, action=Action.CONFIGURE, found={"config": config})


def _words(value: str | None) -> set[str] | None:
    """Return the parts of a list; their order means nothing: ``compact,delete``."""
    return None if value is None else {word.strip() for word in value.split(",")}
