"""The brokers' time, told from the answers to one's own records. Pure."""

from attrs import evolve, frozen


@frozen
class BrokerClock:
    """By how much the brokers' clock is ahead of a monotonic clock, as far as is known.

    A broker stamps a record before we hear of it, so each answer shows that its clock is at least so far. The
    most that was ever shown is closest to the truth. Brokers agree about the time, or Kafka's own retention
    would not work; by how much they do not is the error of this clock.
    """

    ahead_ms: float | None = None

    def heard(self, appended_ms: int, now: float) -> "BrokerClock":
        """Return the clock after an answer.

        Args:
            appended_ms: The ``LogAppendTime`` that a delivery report tells.
            now: The monotonic seconds now.
        """
        shown = appended_ms - 1_000 * now
        return self if self.ahead_ms is not None and shown <= self.ahead_ms else evolve(self, ahead_ms=shown)

    def now_ms(self, now: float) -> int | None:
        """Return the brokers' time, in milliseconds since 1970; None before the first answer."""
        return None if self.ahead_ms is None else int(self.ahead_ms + 1_000 * now)
