"""What has been measured, as it is kept in ``benchmarks/results/faults.json``: scenario by scenario."""

from benchmarks import kept
from benchmarks.faults.metrics import Run

Measured = kept.Measured[Run]
Result = kept.Result[Run]
