"""Worlds of observers for the tests of outages.

Pure: no Spark. Times are microseconds since 1970 in UTC.
"""

import random
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from attrs import define, field

SECOND = 1_000_000
START = 1_795_168_800 * SECOND  # 2026-11-20 10:00:00 UTC


class Kind(IntEnum):
    """What a sighting says. Those that say "online" come in the order of their names, which breaks ties."""

    ONLINE = 0
    STARTED = 1
    """An observer started and saw the topic: partitions that it didn't find offline are online."""
    DELETED = 2
    RECREATED = 3
    OFFLINE = 4
    FOUND_OFFLINE = 5
    """An observer started and saw the partition offline."""


NAMES: Final = {
    Kind.ONLINE: "partition.online",
    Kind.STARTED: "topic.created",
    Kind.DELETED: "topic.deleted",
    Kind.RECREATED: "topic.recreated",
    Kind.OFFLINE: "partition.offline",
    Kind.FOUND_OFFLINE: "partition.offline",
}


class Sighting(NamedTuple):
    """What one record tells.

    Attributes:
        partition: None when it is about the whole topic.
        kind: A `Kind`.
        identity: A number that stands for the event's source and id.
        prev_at: When its observer last found it otherwise; None: it never did.
        at: When its observer found it.
    """

    partition: int | None
    kind: int
    identity: int
    prev_at: int | None
    at: int


@define
class _Look:
    """What an observer knows of the topic: its generation, and each partition's epoch (odd: offline)."""

    generation: int
    epochs: tuple[int, ...]
    began: int


@define
class World:
    """A topic whose partitions come and go, and observers that look at it now and then.

    An observer tells what differs from its last look, with the bounds that it knows. Some start anew and
    tell what there is, some look away for long, and their clocks differ by seconds.
    """

    random: random.Random
    partitions: int = 3
    observers: int = 2
    steps: int = 40
    longest_gap_s: float = 60.0
    """The longest time between two looks of an observer that does not look away."""
    told: list[Sighting] = field(factory=list)

    def run(self) -> list[Sighting]:
        generation, epochs = 0, [0] * self.partitions
        looks: list[_Look | None] = [None] * self.observers
        skews = [self.random.choice((0, 0, 1, -2)) * SECOND for _ in looks]
        away = [0] * self.observers
        now = START
        for _ in range(self.steps):
            now += self.random.randint(1, round(self.longest_gap_s / 2)) * SECOND
            for _ in range(self.random.randint(0, 2)):
                epochs[self.random.randrange(self.partitions)] += self.random.choice((1, 1, 1, 2))
            if self.random.random() < 0.04:
                generation, epochs = generation + 1, [self.random.choice((0, 0, 1)) for _ in epochs]
            for number, look in enumerate(looks):
                away[number] -= 1
                if away[number] > 0:
                    continue
                if self.random.random() < 0.05:
                    away[number] = self.random.randint(2, 20)
                if self.random.random() < 0.05:
                    look = None  # noqa: PLW2901 - it started anew
                seen = now + skews[number] + number
                looks[number] = _Look(generation, tuple(epochs), seen)
                self._tell(look, looks[number], seen)
        return self.told

    def _tell(self, old: _Look | None, new: "_Look | None", seen: int) -> None:
        assert new is not None
        if old is None:
            self.told.append(Sighting(None, Kind.STARTED, self._id("created", new.generation), None, seen))
            for partition, epoch in enumerate(new.epochs):
                if epoch % 2:
                    self._own(Kind.FOUND_OFFLINE, new.generation, partition, epoch, None, seen)
            return
        if old.generation != new.generation:
            identity = self._id("recreated", new.generation)
            self.told.append(Sighting(None, Kind.RECREATED, identity, old.began, seen))
            for partition, epoch in enumerate(new.epochs):
                if epoch % 2:
                    self._own(Kind.OFFLINE, new.generation, partition, epoch, old.began, seen)
            return
        for partition, (before, epoch) in enumerate(zip(old.epochs, new.epochs, strict=True)):
            if epoch != before and (epoch % 2 or before % 2):
                kind = Kind.OFFLINE if epoch % 2 else Kind.ONLINE
                self._own(kind, new.generation, partition, epoch, old.began, seen)

    def _own(
        self, kind: Kind, generation: int, partition: int, epoch: int, prev_at: int | None, seen: int
    ) -> None:
        identity = self._id("epoch", generation, partition, epoch)
        self.told.append(Sighting(partition, kind, identity, prev_at, seen))

    @staticmethod
    def _id(*parts: str | int) -> int:
        return random.Random(repr(parts)).getrandbits(62)


def delivered(
    sightings: Sequence[Sighting], chance: random.Random, *, disorder_s: float, doubles: float = 0.1
) -> list[Sighting]:
    """Return sightings as they may arrive: each up to so many seconds later than in time, some twice."""
    rows = [one for one in sightings for _ in range(2 if chance.random() < doubles else 1)]
    return sorted(rows, key=lambda one: one.at + chance.uniform(0, disorder_s) * SECOND)
