"""What the loading process saw, record by record, and the file in which it hands that over.

The file is one line of JSON, then four columns of little-endian 64-bit integers, a value for each record in
the order of sending. `LoadProducer.java` writes the same format. Times are those of the machine's monotonic
clock in ns, which all its processes share (``System.nanoTime`` too).
"""

import json
import time
from array import array
from pathlib import Path
from typing import Self

from attrs import Factory, define, field

UNREPORTED, DELIVERED, FIRST_ERROR = 0, 1, 2
NEVER = -1
EXCLUSIONS = "exclusions"
"""The measure that tells how often a producer took a broker for silent."""


def exclusions_of(broker: int) -> str:
    """Return the measure that tells how often it was this broker."""
    return f"{EXCLUSIONS} of {broker}"


def _filled(count: int, value: int) -> "array[int]":
    return array("q", [value]) * count


@define
class Tape:
    """The columns, and what else is worth knowing about the load.

    Attributes:
        sent: When the producer was called; `NEVER` if the load did not get that far.
        done: When the producer reported.
        partition: Where the record went or was meant to go; -1 if the client does not say.
        outcome: `UNREPORTED`, `DELIVERED`, or `FIRST_ERROR` + an index into `errors`.
        errors: The errors seen, by name.
        reported_again: How often a record was reported on a second time. It must not happen.
        counters: What the producer itself counted, in words.
        measures: What else the process measured, by name.
    """

    sent: "array[int]"
    done: "array[int]"
    partition: "array[int]"
    outcome: "array[int]"
    errors: list[str] = field(factory=list)
    reported_again: int = 0
    counters: str = ""
    measures: dict[str, float] = field(factory=dict)
    _codes: dict[str, int] = field(init=False, default=Factory(dict))

    @classmethod
    def blank(cls, count: int) -> Self:
        return cls(
            _filled(count, NEVER), _filled(count, NEVER), _filled(count, -1), _filled(count, UNREPORTED)
        )

    def choose(self, number: int, partition: int) -> None:
        """Note where a record is meant to go, from a client whose reports do not always say it."""
        if number >= 0:
            self.partition[number] = partition

    def report(self, number: int, partition: int, error: str | None) -> None:
        """Note a delivery report; numbers below 0 are those of the warm-up."""
        if number < 0:
            return
        if self.outcome[number] != UNREPORTED:
            self.reported_again += 1
            return
        self.done[number] = time.monotonic_ns()
        if partition >= 0:
            self.partition[number] = partition
        self.outcome[number] = DELIVERED if error is None else self._code(error)

    def _code(self, error: str) -> int:
        if error not in self._codes:
            self._codes[error] = FIRST_ERROR + len(self.errors)
            self.errors.append(error)
        return self._codes[error]

    def write(self, path: Path) -> None:
        header = {
            "records": len(self.sent),
            "errors": self.errors,
            "reported_again": self.reported_again,
            "counters": self.counters,
            "measures": self.measures,
        }
        with path.open("wb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            for column in (self.sent, self.done, self.partition, self.outcome):
                column.tofile(file)

    @classmethod
    def read(cls, path: Path) -> Self:
        with path.open("rb") as file:
            header = json.loads(file.readline())
            tape = cls.blank(0)
            for column in (tape.sent, tape.done, tape.partition, tape.outcome):
                column.fromfile(file, header["records"])
        tape.errors = header["errors"]
        tape.reported_again = header["reported_again"]
        tape.counters = header["counters"]
        tape.measures = header.get("measures", {})  # LoadProducer.java has none
        return tape
