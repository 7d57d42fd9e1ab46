"""What has been measured, as it is kept in ``benchmarks/results/faults.json``: scenario by scenario."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from attrs import asdict, define, field, frozen

from benchmarks.faults.metrics import Run
from benchmarks.measure import Environment


@define
class Measured:
    """The runs of one producer in one scenario.

    Attributes:
        kept: The runs that count.
        discarded: Why others don't, one line each.
        broken: Why the producer could not be run; None if it could.
    """

    kept: list[Run] = field(factory=list)
    discarded: list[str] = field(factory=list)
    broken: str | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls([Run.from_json(run) for run in data["kept"]], data["discarded"], data["broken"])


@frozen
class Result:
    """One scenario, measured in one go: its producers were interleaved, and compare."""

    scenario: str
    rounds: int
    producers: dict[str, Measured]
    environment: Environment = field(factory=Environment)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            data["scenario"],
            data["rounds"],
            {name: Measured.from_json(measured) for name, measured in data["producers"].items()},
            Environment(**data["environment"]),
        )

    @property
    def complete(self) -> bool:
        """Whether each producer has a kept run for every round."""
        return all(len(measured.kept) == self.rounds for measured in self.producers.values())


def load(path: Path) -> dict[str, Result]:
    """Return the results by scenario; none if there is no file."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {name: Result.from_json(data) for name, data in document.items()}


def merge(path: Path, result: Result) -> dict[str, Result]:
    """Put one scenario in the place of its older result, write the file, return everything in it."""
    results = {**load(path), result.scenario: result}
    document = {name: asdict(each) for name, each in results.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return results
