"""The brokers' time: as the tracker hears it, and as a reader of the control topics can tell it. Pure."""

import statistics
from collections.abc import Hashable, Mapping

from attrs import field, frozen

from kafka_partition_events.control.protocol.ledger import Ledger


@frozen
class BrokerClock:
    """By how much the brokers' clocks are ahead of a monotonic clock, as far as is known, in milliseconds.

    A broker stamps a record before we hear of it, so each answer shows that its clock is at least so far. The
    most that was ever shown is closest to the truth. Clocks are kept apart, and the one in the middle is
    believed: of three brokers, one that is wrong moves nothing.
    """

    most: Mapping[Hashable, float] = field(factory=dict)
    last: Mapping[Hashable, float] = field(factory=dict)

    def heard(self, appended_ms: int, now: float, broker: Hashable = None) -> "BrokerClock":
        """Return the clock after an answer.

        Args:
            appended_ms: The ``LogAppendTime`` that a delivery report tells.
            now: The monotonic seconds now.
            broker: Whose clock it is.
        """
        shown = appended_ms - 1_000 * now
        most = max(shown, self.most.get(broker, shown))
        return BrokerClock({**self.most, broker: most}, {**self.last, broker: shown})

    def now_ms(self, now: float) -> int | None:
        """Return the brokers' time, in milliseconds since 1970; None before the first answer."""
        return int(statistics.median_low(self.most.values()) + 1_000 * now) if self.most else None

    @property
    def spread_s(self) -> float:
        """By how many seconds they differ, or answers take."""
        return (max(self.last.values()) - min(self.last.values())) / 1_000 if self.last else 0.0


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
