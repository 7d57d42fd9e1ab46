"""The brokers' time as a reader of the control topics can tell it. Pure."""

from kafka_partition_events.control.broker_clock import BrokerClock
from kafka_partition_events.control.merge import Ledger


def newest_ms(ledger: Ledger) -> int | None:
    """Return when the newest lease, ack or request that is known was appended; None: nothing is known."""
    leases = (tenancy.holder.at_ms for tenancy in ledger.tenancies.values())
    acks = (ack.at_ms for of_change in ledger.acks.values() for ack in of_change.values())
    requests = (change.requested_ms for change in ledger.changes.values())
    return max((*leases, *acks, *requests), default=None)


class ReadersClock:
    """The brokers' clock for somebody who only reads.

    It is never ahead of the brokers: it begins at the newest record, and then goes on with a monotonic clock.
    So nobody counts as departed too early. Nobody's wall clock takes part.
    """

    def __init__(self) -> None:
        """Make a clock that knows nothing yet."""
        self._clock = BrokerClock()

    def now_ms(self, ledger: Ledger, monotonic: float) -> int:
        """Return the brokers' time now, in milliseconds since 1970; 0 if there is no record at all.

        Args:
            ledger: What was just read.
            monotonic: The monotonic seconds now.
        """
        newest = newest_ms(ledger)
        if newest is not None:
            self._clock = self._clock.heard(newest, monotonic)
        return self._clock.now_ms(monotonic) or 0
