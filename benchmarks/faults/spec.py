"""What a loading process is told on its command line, and what it sends."""

import json
import sys
from pathlib import Path
from typing import Self

from attrs import asdict, frozen

from benchmarks.faults.layouts import VALUE_BYTES

KEYS = 20_000
_MIX = 2_654_435_761  # Knuth's multiplicative hash
_NUMBER_DIGITS = 11
_ONE_IN = 10


@frozen
class LoadSpec:
    """One load of one producer.

    Attributes:
        producer: A name in `plan.PRODUCERS`.
        run: Marks the values of this run; no spaces.
        records: How many to send after the warm-up.
        keyed: Whether each record has a key.
        skewed: Whether a tenth of the records have the same one.
        acks: Of the producer.
        delivery_limit_ms, request_limit_ms: How long it may try, and how long one request may take.
        warm_up_s: How long it sends what does not count, before.
        out: Where the `Tape` goes.
    """

    producer: str
    bootstrap: str
    topic: str
    run: str
    rate: int
    records: int
    keyed: bool
    skewed: bool
    acks: str
    delivery_limit_ms: int
    request_limit_ms: int
    warm_up_s: float
    out: Path

    def command(self, module: str) -> list[str]:
        """Return the command line of a module of this package that works by the spec."""
        told = json.dumps({**asdict(self), "out": str(self.out)})
        return [sys.executable, "-m", f"benchmarks.faults.{module}", told]

    @classmethod
    def parse(cls, text: str) -> Self:
        told = json.loads(text)
        return cls(**{**told, "out": Path(told["out"])})


class Values:
    """Makes the values of one load: ``RUN NUMBER xxxx...``, `VALUE_BYTES` long."""

    def __init__(self, run: str) -> None:
        self._head = f"{run} ".encode()
        self._number = slice(len(self._head), len(self._head) + _NUMBER_DIGITS)
        self._tail = b" " + b"x" * (VALUE_BYTES - len(self._head) - _NUMBER_DIGITS - 1)

    def make(self, number: int) -> bytes:
        return b"%s%+011d%s" % (self._head, number, self._tail)

    def number(self, value: bytes) -> int:
        """Return the number that `make` was given."""
        return int(value[self._number])


def parse_value(value: bytes) -> tuple[str, int]:
    """Return run and number of a value."""
    run, number, _ = value.split(b" ", 2)
    return run.decode(), int(number)


def key_of(number: int, *, keyed: bool, skewed: bool = False) -> bytes | None:
    """Return the key of a record: one of `KEYS`, each as likely as the others; None unless ``keyed``.

    If they are ``skewed``, every tenth record has the same key.
    """
    if skewed and number % _ONE_IN == 0:
        return b"key-of-many"
    return b"key-%d" % (number * _MIX % 2**32 % KEYS) if keyed else None
