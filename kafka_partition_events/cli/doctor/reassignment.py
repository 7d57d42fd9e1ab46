"""Better placements: where replicas would be, so that one broker blocks as little as possible. Pure."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.metadata.cluster import Cluster, TopicInfo

Replicas = tuple[tuple[int, ...], ...]
"""The replicas of a topic, partition by partition; the first one of a partition is its preferred leader."""


class Remedy(StrEnum):
    """What gives a topic's partitions a safe alternative."""

    MOVE = "move"
    """Another placement on the brokers that there are."""
    IN_SYNC = "in_sync"
    """Nothing but time, or whoever mends it: with all replicas in sync the placement is good."""
    RETURN = "return"
    """A broker that has replicas is not listed; where to move them is a question for when it is back."""
    PARTITIONS = "partitions"
    """More partitions: no placement of so few is any better."""
    BROKERS = "brokers"
    """More brokers; else only fewer replicas, or another ``acks``, which both risk records."""
    RACKS = "racks"
    """Brokers in other racks: a better placement would have replicas of a partition share a rack."""


@frozen(kw_only=True)
class Placement:
    """Where the replicas of a topic would be.

    Attributes:
        topic: Its name.
        old: Where they are.
        new: Where they would be.
    """

    topic: str
    old: Replicas
    new: Replicas

    @property
    def moved(self) -> int:
        """How many replicas would have to be copied to another broker."""
        return sum(len(set(new) - set(old)) for old, new in zip(self.old, self.new, strict=True))


@frozen(kw_only=True)
class Advice:
    """What gives a topic's partitions a safe alternative.

    Attributes:
        topic: The topic's name.
        remedy: What helps.
        needed: How many brokers or partitions there must be at least; None for other remedies.
        placement: Where replicas would be; None for other remedies than `Remedy.MOVE`.
    """

    topic: str
    remedy: Remedy
    needed: int | None = None
    placement: Placement | None = None


def most_blocked(replicas: Replicas) -> int:
    """Return how many partitions the broker blocks that, with all replicas in sync, blocks most."""
    return max(Counter(broker for row in replicas for broker in row).values(), default=0)


def advise(cluster: Cluster, topics: Iterable[str]) -> tuple[Advice, ...]:
    """Return for each topic what gives its partitions a safe alternative.

    Args:
        cluster: The snapshot.
        topics: Names of topics in it that have none; `Remedy.IN_SYNC` is returned for one that has.
    """
    busy = Counter(b for info in cluster.by_topic.values() for p in info.partitions for b in p.replicas)
    found = []
    for name in topics:
        advice = _advice(cluster.by_topic[name], cluster, busy)
        if advice.placement is not None:  # the next topic goes where this one does not
            busy.subtract(broker for row in advice.placement.old for broker in row)
            busy.update(broker for row in advice.placement.new for broker in row)
        found.append(advice)
    return tuple(found)


def _advice(info: TopicInfo, cluster: Cluster, busy: Mapping[int, int]) -> Advice:
    rows = tuple(p.replicas for p in info.partitions)
    partitions, brokers, total = len(rows), len(cluster.nodes), sum(map(len, rows))
    if not {broker for row in rows for broker in row} <= cluster.nodes.keys():
        return Advice(topic=info.name, remedy=Remedy.RETURN)
    if most_blocked(rows) < partitions:
        return Advice(topic=info.name, remedy=Remedy.IN_SYNC)
    if total > brokers * (partitions - 1):  # some broker has a replica of each then, wherever they are
        most = max(map(len, rows))
        if most >= brokers:
            needed = -(-total // (partitions - 1)) if partitions > 1 else most + 1
            return Advice(topic=info.name, remedy=Remedy.BROKERS, needed=needed)
        return Advice(topic=info.name, remedy=Remedy.PARTITIONS, needed=-(-brokers // (brokers - most)))
    placement = better_placement(info, cluster, busy)
    if placement is None:
        return Advice(topic=info.name, remedy=Remedy.RACKS)
    return Advice(topic=info.name, remedy=Remedy.MOVE, placement=placement)


def better_placement(
    info: TopicInfo, cluster: Cluster, busy: Mapping[int, int] | None = None
) -> Placement | None:
    """Return a placement in which the worst broker blocks fewer partitions; None if none is found.

    Unless racks stand in the way, no other placement has a better worst broker, nor less to copy for it. No
    partition gets another number of replicas, or is on fewer racks than now. Preferred leaders are as even as
    these replicas allow.

    Args:
        info: The topic; all its replicas are on listed brokers.
        cluster: Its brokers. Racks matter if all of them have one.
        busy: Replicas of all topics by broker: of two brokers that are as good, the less busy one is taken.
    """
    old = tuple(p.replicas for p in info.partitions)
    rows = [list(row) for row in old]
    _Spread(rows, cluster, busy or {}).improve()
    if most_blocked(tuple(map(tuple, rows))) >= most_blocked(old):
        return None
    _Leaders(rows).balance()
    return Placement(topic=info.name, old=old, new=tuple(map(tuple, rows)))


class _Spread:
    """Moves replicas from brokers that have more than their share, until none has or no move is left.

    One pass moves at most one replica of each partition, so that what moves is spread, too. Without racks the
    passes end with nobody above the share: who is above it has a partition that who is below it has not.
    """

    def __init__(self, rows: list[list[int]], cluster: Cluster, busy: Mapping[int, int]) -> None:
        self._rows = rows
        self._load = Counter(dict.fromkeys(cluster.nodes, 0))
        self._load.update(broker for row in rows for broker in row)
        self._share = -(-self._load.total() // max(1, len(self._load)))
        self._busy = busy
        racks = {broker: node.rack for broker, node in cluster.nodes.items()}
        self._racks = dict.fromkeys(racks) if None in racks.values() else racks

    def improve(self) -> None:
        """Move what is to be moved."""
        while sum(map(self._move_one, self._rows)):
            pass

    def _move_one(self, row: list[int]) -> bool:
        load = self._load
        above = [broker for broker in row if load[broker] > self._share]
        for source in sorted(above, key=lambda broker: (-load[broker], -self._busy.get(broker, 0))):
            target = self._target(row, source)
            if target is not None:
                row[row.index(source)] = target
                load[source] -= 1
                load[target] += 1
                return True
        return False

    def _target(self, row: Sequence[int], source: int) -> int | None:
        """Return where a replica is best moved to: more racks first, then fewer replicas."""
        racks = self._racks
        others = {racks[broker] for broker in row if broker != source}
        fitting = [
            broker
            for broker, count in self._load.items()
            if count < self._share
            and broker not in row
            and (racks[broker] not in others or racks[source] in others)
        ]
        return min(
            fitting,
            key=lambda b: (racks[b] in others, self._load[b], self._busy.get(b, 0), b),
            default=None,
        )


class _Leaders:
    """Lets other replicas be the first ones, until leaders are as even as the replicas allow.

    That is an optimal semi-matching: there is a better one only if leadership can be passed on, from broker
    to broker, from one to another that leads at least two partitions less.
    """

    def __init__(self, rows: list[list[int]]) -> None:
        self._rows = rows
        self._led = Counter(dict.fromkeys((broker for row in rows for broker in row), 0))
        self._led.update(row[0] for row in rows if row)
        self._could: dict[int, dict[int, set[int]]] = {broker: {} for broker in self._led}
        for number, row in enumerate(rows):
            for follower in row[1:]:
                self._could[row[0]].setdefault(follower, set()).add(number)

    def balance(self) -> None:
        """Let others lead where that is more even."""
        while path := self._path():
            for leader, follower in pairwise(path):
                self._pass_on(leader, follower)

    def _path(self) -> Sequence[int]:
        busiest_first = sorted(self._led, key=lambda broker: (-self._led[broker], broker))
        return next(filter(None, map(self._path_from, busiest_first)), ())

    def _path_from(self, start: int) -> Sequence[int]:
        paths: dict[int, tuple[int, ...]] = {start: (start,)}
        queue = deque([start])
        while queue:
            leader = queue.popleft()
            for follower, partitions in self._could[leader].items():
                if follower in paths or not partitions:
                    continue
                paths[follower] = (*paths[leader], follower)
                if self._led[follower] <= self._led[start] - 2:
                    return paths[follower]
                queue.append(follower)
        return ()

    def _pass_on(self, leader: int, follower: int) -> None:
        number = min(self._could[leader][follower])
        row = self._rows[number]
        for other in row[1:]:
            self._could[leader][other].discard(number)
        place = row.index(follower)
        row[0], row[place] = row[place], row[0]
        for other in row[1:]:
            self._could[follower].setdefault(other, set()).add(number)
        self._led[leader] -= 1
        self._led[follower] += 1


_VERSION: Final = 1


def reassignment_json(placements: Iterable[Placement]) -> dict[str, Any]:
    """Return what ``kafka-reassign-partitions.sh --reassignment-json-file`` takes; what stays is left out."""
    return {
        "version": _VERSION,
        "partitions": [
            {"topic": each.topic, "partition": number, "replicas": list(new)}
            for each in placements
            for number, (old, new) in enumerate(zip(each.old, each.new, strict=True))
            if old != new
        ],
    }
