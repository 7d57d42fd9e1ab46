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
        max_age: Seconds after which an entry that is still not delivered goes to the dead letters.
        open_after: How many failures in a row open the circuit: then single entries are tried, not batches.
    """

    first_delay: float = 1.0
    max_delay: float = 900.0
    max_age: float = 604_800.0
    open_after: int = 5

    def __attrs_post_init__(self) -> None:
        """Refuse a policy that makes no sense."""
        if not (0 < self.first_delay <= self.max_delay and self.max_age > 0 and self.open_after >= 1):
            raise ConfigurationError(
                "a retry policy needs 0 < first_delay <= max_delay, max_age > 0 and open_after >= 1, "
                f"not {self}"
            )

    def is_open(self, failures: int) -> bool:
        """Tell whether the circuit is open after so many failures in a row."""
        return failures >= self.open_after


@frozen(kw_only=True)
class Decision:
    """What to do after a try.

    Attributes:
        delivered: How many entries the target has; the cursor goes behind them.
        refused: Whether the one after them goes to the dead letters.
        gone: Whether the sink is to be switched off.
        failures: Failures in a row, this try included.
        delay: Seconds until the next try.
    """

    delivered: int
    refused: bool = False
    gone: bool = False
    failures: int = 0
    delay: float = 0.0


def decide(
    policy: RetryPolicy, failures: int, tried: int, error: DeliveryError | None, jitter: float
) -> Decision:
    """Return what to do after a try.

    The delay is drawn evenly from nothing to its bound ("full jitter"), so that the many senders whom one
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
        return Decision(delivered=tried)
    delivered = max(0, min(error.delivered, tried))
    if error.gone:
        return Decision(delivered=delivered, gone=True)
    if error.refused and delivered < tried:
        return Decision(delivered=delivered, refused=True)
    row = 1 if delivered else failures + 1
    bound = min(policy.max_delay, policy.first_delay * 2.0 ** min(row - 1, 63))
    asked = min(error.retry_after or 0.0, policy.max_delay)
    return Decision(delivered=delivered, failures=row, delay=max(jitter * bound, asked))
