"""Worlds of observers for the tests of outages."""

import random
from datetime import datetime, timedelta
from typing import Final

from attrs import define, field

from tests.fleet_kit import moment, record

PARTITIONS: Final = 3
STEPS: Final = 60
START: Final = moment("10:00")


@define
class _Look:
    """What an observer knows of the topic: its generation, and each partition's epoch (odd: offline)."""

    generation: int
    epochs: tuple[int, ...]
    at: datetime


@define
class World:
    """A topic whose partitions come and go, and observers that look at it now and then.

    An observer writes what differs from its last look, with the bounds that it knows. Some start again and
    write what there is, some look away for long, and their clocks differ by seconds.
    """

    random: random.Random
    cluster: str
    topic: str
    observers: int = 2
    longest_gap_s: float = 60.0
    """The longest time between two looks of an observer that does not look away."""
    written: list[tuple[datetime, bytes]] = field(factory=list)

    def run(self) -> list[tuple[datetime, bytes]]:
        """Return the records, and when their observers saw what they say."""
        generation, epochs = 0, [0] * PARTITIONS
        looks: list[_Look | None] = [None] * self.observers
        skews = [timedelta(0, self.random.choice((0, 0, 1, -2)), number) for number in range(self.observers)]
        away = [0] * self.observers
        now = START
        for _ in range(STEPS):
            now += timedelta(seconds=self.random.randint(1, round(self.longest_gap_s / 2)))
            for _ in range(self.random.randint(0, 2)):
                epochs[self.random.randrange(PARTITIONS)] += self.random.choice((1, 1, 1, 2))
            if self.random.random() < 0.04:
                generation, epochs = generation + 1, [self.random.choice((0, 0, 1)) for _ in epochs]
            for number, look in enumerate(looks):
                away[number] -= 1
                if away[number] > 0:
                    continue
                if self.random.random() < 0.05:
                    away[number] = self.random.randint(2, 20)
                starts_again = self.random.random() < 0.05
                new = _Look(generation, tuple(epochs), now + skews[number])
                self._look(None if starts_again else look, new)
                looks[number] = new
        return self.written

    def _look(self, old: _Look | None, new: _Look) -> None:
        if old is not None and old.generation == new.generation:
            before = old.epochs
        else:
            before = (0,) * PARTITIONS
            kind = "created" if old is None else "recreated"
            self._write(f"topic.{kind}", None, (kind, new.generation), old, new)
        for partition, (known, epoch) in enumerate(zip(before, new.epochs, strict=True)):
            if epoch != known and (epoch % 2 or known % 2):
                name = "partition.offline" if epoch % 2 else "partition.online"
                self._write(name, partition, ("epoch", new.generation, partition, epoch), old, new)

    def _write(
        self, name: str, partition: int | None, what: tuple[str | int, ...], old: _Look | None, new: _Look
    ) -> None:
        number = random.Random(repr(what)).getrandbits(62)
        value = record(
            name,
            new.at,
            prev_at=None if old is None else old.at,
            cluster=self.cluster,
            topic=self.topic,
            id_=f"{self.topic}-{number}",
            initial=old is None,
            partitions=f"0-{PARTITIONS - 1}" if partition is None else str(partition),
            before={"leader": number % 5},
            after={"leader": number % 7, "count": PARTITIONS + number % 2},
        )
        self.written.append((new.at, value))
