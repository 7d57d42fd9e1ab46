"""What was true of the cluster, and when: the controllers' log, as `kafka-dump-log` prints it. Pure."""

import base64
import json
import re
import uuid
from bisect import bisect_right
from collections.abc import Iterable
from math import inf
from typing import Any, Final

from attrs import define, field

_PAYLOAD: Final = re.compile(r"CreateTime: (\d+) .*?payload: (\{.*\})\s*$")
_UNCHANGED: Final = -2
"""What a PARTITION_CHANGE_RECORD says of a leader that stays."""


@define
class State:
    """A partition from one moment on."""

    at: float
    epoch: int
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@define
class Topic:
    """One life of a topic: a name may have several, an id has one.

    Attributes:
        counts: From when on it had how many partitions.
        states: Of each partition, from its beginning on.
    """

    id: str
    name: str
    created: float
    removed: float = inf
    counts: list[tuple[float, int]] = field(factory=list)
    states: dict[int, list[State]] = field(factory=dict)

    def count_at(self, at: float) -> int:
        """Return how many partitions it had at a moment."""
        place = bisect_right(self.counts, at, key=lambda count: count[0])
        return self.counts[place - 1][1] if place else 0

    def sizes(self, begin: float, end: float) -> set[int]:
        """Return all numbers of partitions that it had in a time."""
        return {self.count_at(begin), *(n for at, n in self.counts if begin <= at <= end)} - {0}

    def spans(self, partition: int) -> list[tuple[State, float]]:
        """Return the states of a partition, each with its end."""
        states = self.states.get(partition, [])
        ends = [state.at for state in states[1:]] + [self.removed]
        return list(zip(states, ends, strict=True))

    def leaderless(self, partition: int) -> list[tuple[float, float]]:
        """Return when a partition had no leader."""
        return [(state.at, end) for state, end in self.spans(partition) if state.leader < 0]


@define
class Truth:
    """All topics by id; and when brokers were fenced (False) and unfenced (True)."""

    topics: dict[str, Topic] = field(factory=dict)
    brokers: dict[int, list[tuple[float, bool]]] = field(factory=dict)

    def lives(self, name: str) -> list[Topic]:
        """Return the lives of a topic, in order."""
        return sorted((t for t in self.topics.values() if t.name == name), key=lambda topic: topic.created)

    def outages(self, broker: int) -> list[tuple[float, float]]:
        """Return when a broker was fenced, from its first moment on to its last."""
        times, down = list[tuple[float, float]](), None
        for at, up in [*self.brokers.get(broker, []), (inf, True)]:
            if up and down is not None:
                times.append((down, at))
            down = None if up else at if down is None else down
        return times

    def was_fenced(self, broker: int, begin: float, end: float) -> bool:
        """Tell whether a broker was fenced at any moment of a time."""
        return any(down <= end and up >= begin for down, up in self.outages(broker))


def parse(lines: Iterable[str]) -> Truth:
    """Return what a dump tells. What it tells in one batch is true at once."""
    truth, grown = Truth(), dict[str, float]()
    for line in lines:
        if line.startswith("baseOffset:"):
            _count(truth, grown)
        elif found := _PAYLOAD.search(line):
            entry = json.loads(found[2])
            data = entry["data"]
            if "topicId" in data:
                data["topicId"] = as_clients_tell(data["topicId"])
            _take(truth, grown, int(found[1]) / 1e3, entry["type"], data)
    _count(truth, grown)
    return truth


def as_clients_tell(topic_id: str) -> str:
    """Return a topic id, which the tool prints in base64, in hexadecimal digits."""
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "==")))


def _count(truth: Truth, grown: dict[str, float]) -> None:
    for id_, at in grown.items():
        topic = truth.topics[id_]
        topic.counts.append((at, len(topic.states)))
    grown.clear()


def _take(truth: Truth, grown: dict[str, float], at: float, kind: str, data: dict[str, Any]) -> None:
    match kind:
        case "TOPIC_RECORD":
            truth.topics[data["topicId"]] = Topic(data["topicId"], data["name"], at)
        case "REMOVE_TOPIC_RECORD":
            truth.topics[data["topicId"]].removed = at
        case "PARTITION_RECORD":
            topic = truth.topics[data["topicId"]]
            state = State(
                at, data["leaderEpoch"], data["leader"], tuple(data["isr"]), tuple(data["replicas"])
            )
            topic.states[data["partitionId"]] = [state]
            grown[topic.id] = at
        case "PARTITION_CHANGE_RECORD":
            _change(truth, at, data)
        case "REGISTER_BROKER_RECORD":
            _fence(truth, at, data["brokerId"], not data["fenced"])
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            # A broker that is shutting down in good order is no longer listed to clients, fenced or not.
            if data.get("fenced", 0) or data.get("inControlledShutdown", 0):
                _fence(truth, at, data["brokerId"], data.get("fenced", 0) < 0)
        case "FENCE_BROKER_RECORD" | "UNFENCE_BROKER_RECORD":
            _fence(truth, at, data["id"], kind.startswith("UNFENCE"))


def _fence(truth: Truth, at: float, broker: int, up: bool) -> None:
    truth.brokers.setdefault(broker, []).append((at, up))


def _change(truth: Truth, at: float, data: dict[str, Any]) -> None:
    states = truth.topics[data["topicId"]].states[data["partitionId"]]
    before, leader = states[-1], data.get("leader", _UNCHANGED)
    moved = leader != _UNCHANGED
    states.append(
        State(
            at,
            before.epoch + moved,
            leader if moved else before.leader,
            tuple(before.isr if data.get("isr") is None else data["isr"]),
            tuple(before.replicas if data.get("replicas") is None else data["replicas"]),
        )
    )
