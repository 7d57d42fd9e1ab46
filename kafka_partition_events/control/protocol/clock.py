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


def newest_ms(ledger: Ledger) -> int:
    """Return the time for somebody who only reads: when the newest record was appended; 0: there is none.

    It is never ahead of the brokers, so no one counts as departed too early; and while there is a tracker,
    its leases come every 30 seconds.
    """
    leases = (lease.at_ms for lease in ledger.leases.values())
    acks = (ack.at_ms for of_change in ledger.acks.values() for ack in of_change.values())
    requests = (change.requested_ms for change in ledger.changes.values())
    return max((*leases, *acks, *requests), default=0)
