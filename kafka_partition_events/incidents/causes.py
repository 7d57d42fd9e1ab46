"""Why something is down: what shares a cause is one incident. Pure.

What an event says of its cause was seen: the broker that left in the same look, or the topic that grew. Where
it says none, one is inferred. A partition that went offline waits for one broker: for the last one that was
in sync, and only where nobody knows that, for its last leader. So a lost broker's 2,000 partitions, whenever
each of them went, belong to that broker, and what is left has its topic for a cause.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from attrs import frozen

from kafka_partition_events.incidents.inputs import Happening
from kafka_partition_events.metadata.ranges import ids_in, ranges


class Kind(StrEnum):
    """What can be down."""

    PARTITION = "partition"
    """It is offline. Its name is the topic's."""
    BROKER = "broker"
    """It is not listed."""
    SUSPICION = "suspicion"
    """A producer does not trust a broker. Its name is the partitioner's, its id the broker's."""
    METADATA = "metadata"
    """The observer is blind. Its name tells how: ``unavailable`` or ``stale``."""


class Member(NamedTuple):
    """One thing that is down, within an incident."""

    kind: Kind
    name: str = ""
    id: int = 0


@frozen
class Cause:
    """A broker, a topic, or neither: then it is the cluster as a whole that can't be seen."""

    broker: int | None = None
    topic: str | None = None

    @property
    def subject(self) -> str | None:
        """The cause as a CloudEvent's subject."""
        if self.broker is not None:
            return f"broker/{self.broker}"
        return None if self.topic is None else f"topic/{self.topic}"

    def as_json(self) -> dict[str, Any] | None:
        """Return it as a CloudEvent's data tells it."""
        if self.broker is not None:
            return {"broker": self.broker}
        return None if self.topic is None else {"topic": self.topic}


MANY_TOPICS = Cause(topic="*")
"""The cause of what goes down when many topics are causes already; no topic can be called so."""

_LONGEST_NAME = 249  # of a topic
_MOST_IDS = 100_000  # of a topic's partitions that are down at a time

Names = dict[str, set[int]]
"""Ids by name."""


def members_of(happening: Happening) -> tuple[Member, ...]:
    """Return what went down or came up.

    Raises:
        ValueError, KeyError, TypeError: it does not say so.
    """
    data = happening.data
    match happening.name.split("."):
        case "partition", _:
            return (Member(Kind.PARTITION, _name(data["topic"]), _id(int(str(data["partitions"])))),)
        case "broker", "left" | "joined":
            return (Member(Kind.BROKER, id=_id(data["broker"])),)
        case "broker", _:
            return (Member(Kind.SUSPICION, _name(data["partitioner"]), _id(data["broker"])),)
        case "metadata", "unavailable" | "stale" as how:
            return (Member(Kind.METADATA, how),)
        case _:
            return (Member(Kind.METADATA, "unavailable"), Member(Kind.METADATA, "stale"))


def seen_cause_of(happening: Happening) -> Cause | None:
    """Return why what went down did, if that was seen; None if it is to be inferred.

    Raises:
        TypeError: it says something else.
    """
    data = happening.data
    if "broker" in data:
        return Cause(broker=_id(data["broker"]))
    if "topic" not in data:
        return Cause()
    return None if (told := data.get("cause")) is None else cause_in(told)


def cause_in(told: object) -> Cause:
    """Return what `Cause.as_json` made.

    Raises:
        TypeError: it is something else.
    """
    match told:
        case None:
            return Cause()
        case {"broker": broker}:
            return Cause(broker=_id(broker))
        case {"topic": str(topic)} if len(topic) <= _LONGEST_NAME:
            return Cause(topic=topic)
        case _:
            raise TypeError(f"no cause: {told!r}"[:100])


def inferred_cause_of(happening: Happening) -> Cause:
    """Return why a partition that went offline probably did.

    Raises:
        KeyError, TypeError: it tells of no such thing.
    """
    data = happening.data
    in_sync, before = data["after"]["isr"], data["before"]
    if len(in_sync) == 1:  # Kafka never empties it: it waits for the last one
        return Cause(broker=_id(in_sync[0]))
    if before is not None and before["leader"] is not None:
        return Cause(broker=_id(before["leader"]))
    return Cause(topic=_name(data["topic"]))


def _id(value: object) -> int:
    """Return what must be a number that Kafka may give: what is stored must be readable again."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise TypeError(f"no id: {value!r}"[:100])
    return value


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no name: {value!r}"[:100])
    return value


def packed(members: Iterable[Member]) -> dict[str, dict[str, str]]:
    """Return members as ranges of ids: kind -> name -> ranges."""
    found: dict[str, Names] = {}
    for member in members:
        found.setdefault(member.kind.value, {}).setdefault(member.name, set()).add(member.id)
    return {
        kind: {name: ranges(ids) for name, ids in sorted(names.items())}
        for kind, names in sorted(found.items())
    }


def unpacked(packed: dict[str, dict[str, str]]) -> Iterable[Member]:
    """Yield what was `packed`."""
    for kind, names in packed.items():
        for name, text in names.items():
            for id_ in ids_in(text, _MOST_IDS):
                yield Member(Kind(kind), name, id_)
