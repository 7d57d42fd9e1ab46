"""A clock that a step of the machine's clock does not move at once.

Whoever sets a clock ahead for a second makes everything that waits too old, and whoever puts it back an hour
delays each page by an hour. So the service goes by the clock that it began with, carried on by the monotonic
one, which cannot be set; and takes over what the machine's clock says when that differs by little, or has
differed for `TRUSTED_AFTER_S`: then it is no accident.
"""

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock

DRIFT_S: Final = 1.0
"""What clocks differ by as they are disciplined; more than that is a step."""

TRUSTED_AFTER_S: Final = 300.0
"""How long the machine's clock must differ to be believed: longer than a hold-down, so that what was down
when it was set is told in time, and shorter than a look at the log."""

_log = get_logger(__name__)


class SteadyClock:
    """A `Clock` over another one, whose steps it takes over late. Thread-safe."""

    def __init__(self, machine: Clock) -> None:
        """Begin with what the machine's clock says now.

        Args:
            machine: The clock that may be set.
        """
        self._machine = machine
        self._lock = threading.Lock()
        self._began, self._began_at = machine.monotonic(), machine.now().astimezone(UTC)
        self._differs_since: float | None = None

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return self._machine.monotonic()

    def now(self) -> datetime:
        """Return the aware UTC time, which goes on as if nobody had set the clock lately."""
        with self._lock:
            elapsed, theirs = self._machine.monotonic(), self._machine.now().astimezone(UTC)
            ours = self._began_at + timedelta(seconds=elapsed - self._began)
            step = (theirs - ours).total_seconds()
            if abs(step) <= DRIFT_S:
                if self._differs_since is not None:
                    _log.warning("clock_is_back")
                self._differs_since = None
            elif self._differs_since is None:
                self._differs_since = elapsed
                _log.warning("clock_was_set", seconds=round(step, 1), believed_in_s=TRUSTED_AFTER_S)
                return ours
            elif elapsed - self._differs_since < TRUSTED_AFTER_S:
                return ours
            else:
                _log.warning("clock_is_believed", seconds=round(step, 1))
                self._differs_since = None
            self._began, self._began_at = elapsed, theirs
            return theirs

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait on a condition that the caller holds, for at most ``timeout`` seconds; None: no limit."""
        self._machine.wait(condition, timeout)

    @property
    def offset(self) -> float:
        """By how many seconds the machine's clock is ahead of this one."""
        return (self._machine.now() - self.now()).total_seconds()
