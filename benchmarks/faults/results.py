"""What has been measured, as it is kept in ``benchmarks/results/faults.json``: scenario by scenario."""

from pathlib import Path

from benchmarks import kept
from benchmarks.faults.metrics import Run

Measured = kept.Measured[Run]
Result = kept.Result[Run]


def load(path: Path) -> dict[str, Result]:
    """Return the results by scenario; none if there is no file."""
    return kept.load(path, Run.from_json)


def merge(path: Path, result: Result) -> dict[str, Result]:
    """Put one scenario in the place of its older result, write the file, return everything in it."""
    return kept.merge(path, result, Run.from_json)
