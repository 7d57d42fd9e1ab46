"""What to do after a try to deliver. Pure."""

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox.sink import DeliveryError


@frozen(kw_only=True)
class RetryPolicy:
    """How long to try, and how patiently.

    Attributes:
        first_delay: Seconds to wait at most after a first failure; doubled with each failure in a row.
        max_delay: Seconds to wait at most after any, even if the target asks for more.
        max_age: Seconds after which a `SinkListener` gives an event up; an outbox keeps it.
    """

    first_delay: float = 1.0
    max_delay: float = 900.0
    max_age: float = 604_800.0

    def __attrs_post_init__(self) -> None:
        """Refuse a policy that makes no sense."""
        if not (0 < self.first_delay <= self.max_delay and self.max_age > 0):
            raise ConfigurationError(
                f"a retry policy needs 0 < first_delay <= max_delay and max_age > 0, not {self}"
            )


@frozen(kw_only=True)
class RetryDecision:
    """What to do after a try.

    Attributes:
        delivered: How many entries the target has; the cursor goes behind them.
        refused: Whether the one after them goes to the dead letters.
        failures: Failures in a row, this try included.
        delay: Seconds until the next try.
    """

    delivered: int
    refused: bool = False
    failures: int = 0
    delay: float = 0.0


def decide(
    policy: RetryPolicy, failures: int, tried: int, error: DeliveryError | None, jitter: float
) -> RetryDecision:
    """Return what to do after a try.

    The delay is drawn evenly from nothing to its bound ("full jitter"), so that the many senders that one
    outage has stopped don't come back together. What a target took before it failed shows that it lives, and
    so does a refusal: both begin a new row of failures.

    Args:
        policy: How patient to be.
        failures: Failures in a row before this try.
        tried: How many entries were handed over.
        error: What came of it; None: all were delivered.
        jitter: A random number, 0 <= jitter < 1.
    """
    if error is None:
        return RetryDecision(delivered=tried)
    delivered = max(0, min(error.delivered, tried))
    if error.refused and delivered < tried:
        return RetryDecision(delivered=delivered, refused=True)
    row = 1 if delivered else failures + 1
    bound = min(policy.max_delay, policy.first_delay * 2.0 ** min(row - 1, 63))
    asked = min(error.retry_after or 0.0, policy.max_delay)
    return RetryDecision(delivered=delivered, failures=row, delay=max(jitter * bound, asked))
