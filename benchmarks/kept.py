"""What has been measured, as it is kept in a file of ``benchmarks/results/``: scenario by scenario.

A run is what one benchmark makes of it: an attrs class, read back by a function that is given.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import asdict, define, field, frozen

from benchmarks.measure import Environment

R = TypeVar("R")
Parse = Callable[[Mapping[str, Any]], R]


@define
class Measured(Generic[R]):
    """The runs of one producer in one scenario.

    Attributes:
        kept: The runs that count.
        discarded: Why others don't, one line each.
        broken: Why the producer could not be run; None if it could.
    """

    kept: list[R] = field(factory=list)
    discarded: list[str] = field(factory=list)
    broken: str | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], parse: Parse[R]) -> "Measured[R]":
        return cls([parse(run) for run in data["kept"]], data["discarded"], data["broken"])


@frozen
class Result(Generic[R]):
    """One scenario, measured in one go: its producers were interleaved, and compare.

    `conditions` says under what, where a benchmark keeps that.
    """

    scenario: str
    rounds: int
    producers: dict[str, Measured[R]]
    environment: Environment = field(factory=Environment)
    conditions: Mapping[str, float | str] = field(factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], parse: Parse[R]) -> "Result[R]":
        return cls(
            data["scenario"],
            data["rounds"],
            {name: Measured.from_json(measured, parse) for name, measured in data["producers"].items()},
            Environment(**{"commit": "", **data["environment"]}),
            data.get("conditions", {}),
        )

    @property
    def complete(self) -> bool:
        """Whether each producer has a kept run for every round."""
        return all(len(measured.kept) == self.rounds for measured in self.producers.values())


def load(path: Path, parse: Parse[R]) -> dict[str, Result[R]]:
    """Return the results by scenario; none if there is no file."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {name: Result.from_json(data, parse) for name, data in document.items()}


def merge(path: Path, result: Result[R], parse: Parse[R]) -> dict[str, Result[R]]:
    """Put one scenario in the place of its older result, write the file, return everything in it."""
    results = {**load(path, parse), result.scenario: result}
    document = {name: asdict(each) for name, each in results.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return results
