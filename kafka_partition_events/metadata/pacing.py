"""How long the poller waits until its next look."""

import random

FAST_SHARE = 10
"""While something is offline or refused, polls slow down to this fraction of the interval, no further."""


class Pacing:
    """Computes delays; not thread-safe, the poller calls it under its lock.

    Normal polls come every ``interval`` seconds. While something is offline, was refused or is just being
    created, and after errors, delays start at ``floor`` and double: up to a tenth of the interval (at least
    1 s) in the first case, up to the whole interval in the second. All delays are jittered by 10%, but not
    below ``floor``, so that a fleet of producers that were started together does not ask together.
    """

    def __init__(self, interval: float, floor: float, rng: random.Random) -> None:
        self.interval = interval
        self.floor = min(floor, interval)
        self._fast_limit = min(interval, max(1.0, interval / FAST_SHARE))
        self._rng = rng
        self._step = 0

    def after_answer(self, *, changed: bool, urgent: bool) -> float:
        """Return the delay in seconds after a good answer.

        Args:
            changed: The answer brought news, so more may follow soon.
            urgent: Something is offline, was refused, or is awaited.
        """
        if not urgent:
            self._step = 0
            return self._jittered(self.interval)
        if changed:
            self._step = 0
        delay = self._doubled(self._step, self._fast_limit)
        self._step += 1
        return delay

    def after_failure(self, attempts: int) -> float:
        """Return the delay in seconds after the given number of failures in a row."""
        self._step = 0
        return self._doubled(attempts - 1, self.interval)

    def _doubled(self, times: int, limit: float) -> float:
        return self._jittered(min(limit, self.floor * 2.0 ** min(times, 32)))

    def _jittered(self, delay: float) -> float:
        return max(self.floor, delay * self._rng.uniform(0.9, 1.1))
