"""The brokers' time, as the tracker hears it. Pure."""

import statistics
from collections.abc import Hashable, Mapping

from attrs import field, frozen


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
