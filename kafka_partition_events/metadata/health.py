"""What the poller tells about itself."""

from collections.abc import Mapping

from attrs import field, frozen

from kafka_partition_events.metadata.durations import NO_WORK, Durations
from kafka_partition_events.metadata.events import Rejection


@frozen(kw_only=True)
class Health:
    """How the poller is doing. Times are seconds of its monotonic clock.

    Attributes:
        running: Whether the polling thread is alive.
        last_attempt: When the last fetch began; None before the first.
        last_success: When the last good answer came; None before the first.
        failures: Failed fetches in a row.
        last_error: The last fetch's error, None when it succeeded.
        polls: Fetches so far.
        failed: How many of them failed.
        fetching: How long fetches took, failed ones too.
        taking_in: How long it took to compare an answer with the snapshot, and to hand out what differs.
        refusals: What the staleness gate refused so far; every reason is there.
        stale: Whether the snapshot is too old to be trusted.
        internal_errors: Bugs of this library that were contained; please report what the log says.
        next_delay: Seconds between the last answer and the next fetch, as planned.
        refresh_reason: Why somebody asked for a poll last; None if nobody did.
    """

    running: bool = False
    last_attempt: float | None = None
    last_success: float | None = None
    failures: int = 0
    last_error: str | None = None
    polls: int = 0
    failed: int = 0
    fetching: Durations = NO_WORK
    taking_in: Durations = NO_WORK
    refusals: Mapping[Rejection, int] = field(factory=lambda: dict.fromkeys(Rejection, 0))
    stale: bool = False
    internal_errors: int = 0
    next_delay: float = 0.0
    refresh_reason: str | None = None

    @property
    def refused(self) -> int:
        """How much the staleness gate refused so far."""
        return sum(self.refusals.values())
