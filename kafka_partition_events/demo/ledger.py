"""What became of every record: as the producers were told, and as the topics show afterwards.

Each topic is written by one producer, which numbers its records from 0. A record carries its number and what
its partitioner was up against, so a topic can be counted without knowing anything of its producer: gaps in
the numbers are records that are not there.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum, IntFlag
from typing import Self

from attrs import field, frozen

from kafka_partition_events.routing.table import Route


class Outcome(IntEnum):
    """What a producer was told of a record."""

    PENDING = 0
    ACKNOWLEDGED = 1
    FAILED = 2


class Mark(IntFlag):
    """What a record's partitioner was up against."""

    NONE = 0
    KEYED = 1
    REROUTED = 2
    """Unkeyed, while a partition that the producer uses was offline: it went around it."""
    CAPPED = 4
    """Unkeyed, while the budget kept the producer off some partitions."""

    @classmethod
    def of(cls, route: Route | None, *, keyed: bool) -> "Mark":
        """Return the marks of a record that is sent by this route."""
        if keyed:
            return cls.KEYED
        if route is None:
            return cls.NONE
        return (cls.REROUTED if route.rerouted else cls.NONE) | (cls.CAPPED if route.capped else cls.NONE)


@frozen
class Payload:
    """The value of a record."""

    producer: str
    number: int
    mark: Mark

    def encode(self) -> bytes:
        """Return the value's bytes: JSON, for whoever looks into the topics."""
        return json.dumps(
            {
                "producer": self.producer,
                "number": self.number,
                "keyed": Mark.KEYED in self.mark,
                "rerouted": Mark.REROUTED in self.mark,
                "capped": Mark.CAPPED in self.mark,
            }
        ).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Return what `encode` made."""
        told = json.loads(value)
        mark = Mark.NONE
        for flag in (Mark.KEYED, Mark.REROUTED, Mark.CAPPED):
            if told[str(flag.name).lower()]:
                mark |= flag
        return cls(told["producer"], told["number"], mark)


@frozen(kw_only=True)
class Totals:
    """One line of the final table. Rerouted and capped are counted among the acknowledged."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    rerouted: int = 0
    capped: int = 0

    def __add__(self, other: "Totals") -> "Totals":
        """Return the sum of two lines."""
        return Totals(
            sent=self.sent + other.sent,
            acknowledged=self.acknowledged + other.acknowledged,
            failed=self.failed + other.failed,
            rerouted=self.rerouted + other.rerouted,
            capped=self.capped + other.capped,
        )


class TopicLedger:
    """One topic's records as their producer was told. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes = bytearray()
        self._marks = bytearray()
        self._totals = Counter[str]()
        self.causes = Counter[str]()
        """Why records failed: cause -> how many."""

    def send(self, mark: Mark) -> int:
        """Enter a record that is about to be sent; return its number."""
        with self._lock:
            self._outcomes.append(Outcome.PENDING)
            self._marks.append(mark)
            return len(self._outcomes) - 1

    def acknowledged(self, number: int) -> None:
        """Enter an acknowledgement."""
        with self._lock:
            self._outcomes[number] = Outcome.ACKNOWLEDGED
            mark = self._marks[number]
            self._totals["acknowledged"] += 1
            self._totals["rerouted"] += bool(mark & Mark.REROUTED)
            self._totals["capped"] += bool(mark & Mark.CAPPED)

    def failed(self, number: int, cause: str) -> None:
        """Enter a failure."""
        with self._lock:
            self._outcomes[number] = Outcome.FAILED
            self._totals["failed"] += 1
            self.causes[cause] += 1

    @property
    def totals(self) -> Totals:
        """The counts so far."""
        with self._lock:
            return Totals(sent=len(self._outcomes), **self._totals)

    def numbers(self, outcome: Outcome) -> set[int]:
        """Return the numbers of the records with an outcome."""
        with self._lock:
            return {number for number, known in enumerate(self._outcomes) if known == outcome}


@frozen
class Found:
    """One topic's records as the topic shows them, read from its beginning to its end."""

    numbers: frozenset[int]
    records: int
    """With doubles."""
    rerouted: int = 0
    capped: int = 0

    @classmethod
    def of(cls, payloads: Iterable[Payload]) -> Self:
        """Count a topic's records; a double is counted once."""
        marks: dict[int, Mark] = {}
        records = 0
        for payload in payloads:
            records += 1
            marks[payload.number] = payload.mark
        return cls(
            frozenset(marks),
            records,
            sum(Mark.REROUTED in mark for mark in marks.values()),
            sum(Mark.CAPPED in mark for mark in marks.values()),
        )

    @property
    def totals(self) -> Totals:
        """The counts: sent is what the highest number tells, failed are the numbers that are not there."""
        sent = max(self.numbers, default=-1) + 1
        stored = len(self.numbers)
        return Totals(
            sent=sent, acknowledged=stored, failed=sent - stored, rerouted=self.rerouted, capped=self.capped
        )


@frozen(kw_only=True)
class Reconciliation:
    """Both counts of one topic, and every way in which they differ.

    Attributes:
        topic: The topic.
        producer: The producer's name.
        told: As the producer was told.
        found: As the topic shows.
        lost: Acknowledged and not there.
        stored_though_failed: There, though the producer gave up on it: the answer was lost, not the record.
        doubles: Records that are there more than once.
        pending: Neither acknowledged nor failed at the end.
        recreated: Whether the topic was deleted on the way, with whatever was in it.
    """

    topic: str
    producer: str
    told: Totals
    found: Totals
    lost: int
    stored_though_failed: int
    doubles: int
    pending: int
    recreated: bool = field(default=False)

    @property
    def agrees(self) -> bool:
        """Whether everything that was acknowledged is there. A deleted topic takes its records with it."""
        return self.pending == 0 and (self.recreated or self.lost == 0)

    def differences(self) -> list[str]:
        """Return every way in which the counts differ, in words."""
        said = []
        if self.lost:
            where = "gone with the deleted topic" if self.recreated else "NOT IN THE TOPIC"
            said.append(f"{_records(self.lost)} acknowledged and {where}")
        if self.stored_though_failed:
            said.append(
                f"{_records(self.stored_though_failed)} given up by the producer and stored all the same"
            )
        if self.doubles:
            said.append(f"{_records(self.doubles)} stored twice, by a retry")
        if self.pending:
            said.append(f"{_records(self.pending)} neither acknowledged nor failed")
        return said


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def reconcile(
    topic: str, producer: str, ledger: TopicLedger, found: Found, *, recreated: bool
) -> Reconciliation:
    """Compare what a producer was told with what its topic shows."""
    acknowledged = ledger.numbers(Outcome.ACKNOWLEDGED)
    return Reconciliation(
        topic=topic,
        producer=producer,
        told=ledger.totals,
        found=found.totals,
        lost=len(acknowledged - found.numbers),
        stored_though_failed=len(ledger.numbers(Outcome.FAILED) & found.numbers),
        doubles=found.records - len(found.numbers),
        pending=len(ledger.numbers(Outcome.PENDING)),
        recreated=recreated,
    )
