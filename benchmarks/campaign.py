"""All runs of a scenario: interleaved, with disturbed ones repeated."""

import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from attrs import frozen

from benchmarks.errors import BenchError
from benchmarks.kept import Measured, Result
from benchmarks.measure import MORE_TRIES

R = TypeVar("R")
Say = Callable[[str], None]


@frozen
class Procedure(Generic[R]):
    """How one run is made and judged.

    Attributes:
        run: Runs one producer, in the round of this number; raises `BenchError` if it can't be run.
        why_discarded: Says why a run does not count; None if it does.
        in_words: Says what came of it, on one line.
    """

    run: Callable[[str, int], R]
    why_discarded: Callable[[R], str | None]
    in_words: Callable[[R], str]


def measure(
    procedure: Procedure[R], scenario: str, producers: Sequence[str], rounds: int, say: Say
) -> Result[R]:
    """Run every producer once a round. One that can't be run is left out from then on."""
    measured: dict[str, Measured[R]] = {name: Measured() for name in producers}
    for number in range(rounds):
        for producer, into in measured.items():
            if into.broken is None:
                say_run = _prefixed(say, f"{scenario}, round {number + 1} of {rounds}, {producer}: ")
                _run_until_kept(procedure, producer, number, into, say_run)
    return Result(scenario, rounds, measured)


def _run_until_kept(procedure: Procedure[R], producer: str, number: int, into: Measured[R], say: Say) -> None:
    for _ in range(1 + MORE_TRIES):
        began = time.monotonic()
        try:
            run = procedure.run(producer, number)
        except BenchError as error:
            into.broken = str(error)
            say("\n".join([f"can't be run: {error}", *getattr(error, "__notes__", ())]))
            return
        words = f"{procedure.in_words(run)} ({time.monotonic() - began:.0f} s)"
        why = procedure.why_discarded(run)
        if why is None:
            into.kept.append(run)
            say(words)
            return
        into.discarded.append(f"round {number + 1}: {why}")
        say(f"discarded, {why}; {words}")


def _prefixed(say: Say, prefix: str) -> Say:
    return lambda line: say(prefix + line)
