"""What a loading process is told on its command line, the same for Python and Java: ``name=value`` words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from attrs import asdict, frozen

from benchmarks.faults.layouts import VALUE_BYTES

KEYS = 20_000
_MIX = 2_654_435_761  # Knuth's multiplicative hash
_NUMBER_DIGITS = 11


@frozen
class LoadSpec:
    """One load of one producer instance.

    Attributes:
        producer: A name in `plan.PRODUCERS`.
        run: Marks the values of this run; no spaces.
        index: Which of several instances this is.
        records: How many to send after the warm-up.
        keyed: Whether each record has a key.
        acks: Of the producer.
        delivery_limit_ms, request_limit_ms: How long it may try, and how long one request may take.
        warm_up_s: How long it sends what does not count, before.
        out: Where the `Tape` goes.
    """

    producer: str
    bootstrap: str
    topic: str
    run: str
    index: int
    rate: int
    records: int
    keyed: bool
    acks: str
    delivery_limit_ms: int
    request_limit_ms: int
    warm_up_s: float
    out: Path

    def words(self) -> list[str]:
        return [f"{name}={int(value) if name == 'keyed' else value}" for name, value in asdict(self).items()]

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        told = dict(word.split("=", 1) for word in words)
        return cls(
            producer=told["producer"],
            bootstrap=told["bootstrap"],
            topic=told["topic"],
            run=told["run"],
            index=int(told["index"]),
            rate=int(told["rate"]),
            records=int(told["records"]),
            keyed=told["keyed"] == "1",
            acks=told["acks"],
            delivery_limit_ms=int(told["delivery_limit_ms"]),
            request_limit_ms=int(told["request_limit_ms"]),
            warm_up_s=float(told["warm_up_s"]),
            out=Path(told["out"]),
        )


class Values:
    """Makes the values of one instance: ``RUN INDEX NUMBER xxxx...``, `VALUE_BYTES` long."""

    def __init__(self, run: str, index: int) -> None:
        self._head = f"{run} {index} ".encode()
        self._number = slice(len(self._head), len(self._head) + _NUMBER_DIGITS)
        self._tail = b" " + b"x" * (VALUE_BYTES - len(self._head) - _NUMBER_DIGITS - 1)

    def make(self, number: int) -> bytes:
        return b"%s%+011d%s" % (self._head, number, self._tail)

    def number(self, value: bytes) -> int:
        """Return the number that `make` was given."""
        return int(value[self._number])


def parse_value(value: bytes) -> tuple[str, int, int]:
    """Return run, index and number of a value."""
    run, index, number, _ = value.split(b" ", 3)
    return run.decode(), int(index), int(number)


def key_of(number: int, *, keyed: bool) -> bytes | None:
    """Return the key of a record: one of `KEYS`, each as likely as the others; None unless ``keyed``."""
    return b"key-%d" % (number * _MIX % 2**32 % KEYS) if keyed else None
