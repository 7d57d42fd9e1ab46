"""When entries of the outbox were made, by a clock that was set since."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from attrs import define, field, frozen

from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.outbox import Entry

STEP: Final = timedelta(seconds=1)
"""Less is no step: clocks are disciplined."""


@frozen
class _Step:
    """That the clock was set: by how much, when by monotonic seconds, and what the last entry was by then."""

    by: timedelta
    at: float
    last: int


@define
class ClockSteps:
    """The steps of a clock while entries wait. Not thread-safe.

    An entry bears the moment that the clock said then. What another observer says of its own moments is by
    the clock as it is now: compared as they are, a step of the clock between them would lose a page that
    waits, or tell one that was told long ago.
    """

    _clock: Clock
    _zero: datetime | None = None  # what the clock said when monotonic time was 0 s
    _steps: list[_Step] = field(factory=list)

    def note(self, done: int, last: Callable[[], int]) -> None:
        """Take a look at the clock: often, for what is written between a step and this passes for older.

        Args:
            done: The place up to which no entry waits for anybody.
            last: Returns the place of the last one that waits for somebody, 0 if none does.
        """
        monotonic = self._clock.monotonic()
        zero = self._clock.now() - timedelta(seconds=monotonic)
        by, self._zero = zero - (self._zero or zero), zero
        self._steps = [step for step in self._steps if step.last > done]
        if abs(by) > STEP and (place := last()):
            self._steps.append(_Step(by, monotonic, place))

    def made(self, entry: Entry) -> tuple[datetime, datetime]:
        """Return when an entry was made, at the earliest and at the latest, by the clock as it is now."""
        since = [step for step in self._steps if entry.seq <= step.last]
        if not since or self._zero is None:
            return entry.at, entry.at
        before = self._zero + timedelta(seconds=since[0].at)
        steps = [step.by for step in since]
        early = entry.at + sum((min(by, timedelta()) for by in steps), timedelta())
        late = entry.at + sum((max(by, timedelta()) for by in steps), timedelta())
        return early, min(late, before)
