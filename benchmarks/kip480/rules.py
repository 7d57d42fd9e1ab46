"""Which runs do not count. Written down before anything was measured; change it, and measure anew."""

from benchmarks.kip480.metrics import Run
from benchmarks.measure import MAX_STEAL, MORE_TRIES

RULE = (
    f"A run is discarded when over {MAX_STEAL:.0%} of the processors' time was stolen by other machines from "
    "its beginning to its last report, or when a record failed. It is then repeated, up to "
    f"{MORE_TRIES} times. Nothing else counts against a run: that a saturated producer falls behind is what "
    "is measured."
)


def why_discarded(run: Run) -> str | None:
    """Return why a run does not count, in words; None if it does."""
    if run.steal > MAX_STEAL:
        return f"{run.steal:.0%} of the processors' time was stolen"
    if run.failed:
        return f"{run.failed:,} records failed"
    return None
