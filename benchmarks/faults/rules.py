"""Which runs do not count. Written down before anything was measured; change it, and measure anew."""

from benchmarks.faults.metrics import Run
from benchmarks.measure import MAX_STEAL, MORE_TRIES

MAX_BEFORE_P99_MS = 150.0
"""Six brokers with three replicas each share two cores: in calm their p99 is 20 to 130 ms, whoever writes."""

MIN_ACHIEVED = 0.95

RULE = (
    f"A run is discarded when its p99 before the fault was over {MAX_BEFORE_P99_MS:.0f} ms (brokers "
    f"share two cores), when over "
    f"{MAX_STEAL:.0%} of the processors' time was stolen by other machines, when less than "
    f"{MIN_ACHIEVED:.0%} of the records due before the fault were sent by then, or when the fault had not "
    f"run its course at the end of the load. It is then repeated, up to {MORE_TRIES} times. With all "
    "cores busy only the stolen time counts."
)


def why_discarded(run: Run, fault: str) -> str | None:
    """Return why a run does not count, in words; None if it does."""
    if run.steal > MAX_STEAL:
        return f"{run.steal:.0%} of the processors' time was stolen"
    if fault == "busy":
        return None
    if run.before_p99_ms > MAX_BEFORE_P99_MS:
        return f"p99 was {run.before_p99_ms:.0f} ms before the fault"
    if run.achieved < MIN_ACHIEVED:
        return f"only {run.achieved:.0%} of the rate before the fault"
    if not run.complete:
        return "the fault had not run its course at the end of the load"
    return None
