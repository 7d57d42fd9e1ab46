"""The control topics: how they should be, and what to do where they are not. Pure.

Readers cope with more partitions of leases and acks, as all merges go by keys; with fewer, too. Commands and
changes have one: it elects the tracker, and it keeps their order; approvals have one, as they are few.
"""

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError

PREFIX: Final = "kpe."
EVERYTHING: Final = ("changes", "approvals", "leases", "acks")
"""All that a tracker goes by."""
CHANGES: Final = ("changes",)
"""What tells of changes, but for what each instance says of them."""
FLEET: Final = (*CHANGES, "leases", "acks")
"""That, too: what readers need, who have no business with approvals."""

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
    """A topic as it should be.

    Attributes:
        name: Its name.
        partitions: How many it is created with.
        only: Whether more would be wrong.
        config: Its configuration, as far as it matters.
    """

    name: str
    partitions: int
    only: bool
    config: Mapping[str, str]


@frozen(kw_only=True)
class FoundTopic:
    """A topic as it is.

    Attributes:
        partitions: How many it has.
        replicas: How many the partition has that has fewest.
        config: Its configuration.
    """

    partitions: int
    replicas: int
    config: Mapping[str, str]


@frozen
class Create:
    """The topic is not there."""

    topic: ControlTopic

    def __str__(self) -> str:
        config = " ".join(f"{name}={value}" for name, value in self.topic.config.items())
        return f"{self.topic.name}: create with {self.topic.partitions} partition(s) {config}"


@frozen
class Configure:
    """Some of its configuration is otherwise: name -> (what is, what should be)."""

    topic: ControlTopic
    differing: Mapping[str, tuple[str | None, str]]

    def __str__(self) -> str:
        return f"{self.topic.name}: set " + " ".join(
            f"{name}={wanted} (is {found})" for name, (found, wanted) in self.differing.items()
        )


@frozen
class Unfit:
    """It can't be made right, because Kafka can't shrink a topic. It has so many partitions."""

    topic: ControlTopic
    partitions: int

    def __str__(self) -> str:
        return (
            f"{self.topic.name}: has {self.partitions} partitions and must have {self.topic.partitions}; "
            "delete it, or choose another --prefix"
        )


Difference = Create | Configure | Unfit


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
            only=partitions == 1,
            config={**dotted, **_APPEND_TIME, **(segments if "compact" in config["cleanup_policy"] else {})},
        )

    return (
        topic("commands", 1, cleanup_policy="delete", retention_ms=str(30 * _DAY_MS)),
        topic("approvals", 1, cleanup_policy="delete", retention_ms=str(30 * _DAY_MS)),
        topic("changes", 1, cleanup_policy="compact"),
        topic("leases", _MANY, cleanup_policy="compact,delete", retention_ms=str(2 * _DAY_MS)),
        topic("acks", _MANY, cleanup_policy="compact,delete", retention_ms=str(30 * _DAY_MS)),
    )


def differences(wanted: tuple[ControlTopic, ...], found: Mapping[str, FoundTopic]) -> tuple[Difference, ...]:
    """Return what is otherwise than it should be; nothing if all is well.

    Args:
        wanted: How topics should be.
        found: Those that are there, by name.
    """
    differing: list[Difference] = []
    for topic in wanted:
        present = found.get(topic.name)
        if present is None:
            differing.append(Create(topic))
            continue
        if topic.only and present.partitions != topic.partitions:
            differing.append(Unfit(topic, present.partitions))
        config = {
            name: (present.config.get(name), value)
            for name, value in topic.config.items()
            if _words(present.config.get(name)) != _words(value)
        }
        if config:
            differing.append(Configure(topic, config))
    return tuple(differing)


def few_replicas(found: Mapping[str, FoundTopic], replicas: int) -> dict[str, int]:
    """Return the topics with fewer replicas, by name, and how many they have."""
    return {name: topic.replicas for name, topic in found.items() if topic.replicas < replicas}


def _words(value: str | None) -> set[str] | None:
    """Return the parts of a list; their order means nothing: ``compact,delete``."""
    return None if value is None else {word.strip() for word in value.split(",")}
