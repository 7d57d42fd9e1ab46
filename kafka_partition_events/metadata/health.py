"""What the poller tells about itself."""

from attrs import frozen


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
        refused: What the staleness gate refused so far.
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
    refused: int = 0
    stale: bool = False
    internal_errors: int = 0
    next_delay: float = 0.0
    refresh_reason: str | None = None
