"""The brokers' time, as the tracker hears it. Pure."""

from collections.abc import Hashable, Mapping

from attrs import field, frozen


@frozen
class BrokerClock:
    """By how much the brokers' clocks are ahead of a monotonic clock, as far as is known, in milliseconds.

    A broker stamps a record before we hear of it, so each answer shows that its clock is at least so far. The
    most that was ever shown is closest to the truth. The slowest clock counts: where clocks differ, who has
    signed by any of them passes for alive for longer, and no gate opens too early.
    """

    most: Mapping[Hashable, float] = field(factory=dict)

    def heard(self, appended_ms: int, now: float, broker: Hashable = None) -> "BrokerClock":
        """Return the clock after an answer.

        Args:
            appended_ms: The ``LogAppendTime`` that a delivery report tells.
            now: The monotonic seconds now.
            broker: Whose clock it is.
        """
        shown = appended_ms - 1_000 * now
        return BrokerClock({**self.most, broker: max(shown, self.most.get(broker, shown))})

    def now_ms(self, now: float) -> int | None:
        """Return the brokers' time, in milliseconds since 1970; None before the first answer."""
        return int(min(self.most.values()) + 1_000 * now) if self.most else None
