"""Weights by a number that the application reads somewhere: consumer lag, disk usage."""

import math
import statistics
import weakref

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.partitioners.choosers.choice import Choice, Chooser
from kafka_partition_events.partitioners.choosers.readings import Numbers, Readings, ReadMetric
from kafka_partition_events.partitioners.choosers.wheels import Wheels
from kafka_partition_events.routing.wheel import FLOOR

_LEAST_WEIGHT = 50


@frozen(kw_only=True)
class MetricStats:
    """How the source of a metric has been doing.

    Attributes:
        reads: Reads that gave numbers.
        failures: Reads that raised, or gave none.
        fallbacks: Records that were placed without numbers. Where threads count at the same time, one may be
            missing.
        last_error: The last failure, as text.
    """

    reads: int = 0
    failures: int = 0
    fallbacks: int = 0
    last_error: str | None = None


def by_metric(
    read: ReadMetric,
    otherwise: Chooser,
    *,
    refresh: float = 5.0,
    max_age: float = 30.0,
    clock: Clock | None = None,
) -> "MetricChooser":
    """Prefer places with a low number, in inverse proportion to the number plus one. Thread-safe.

    So a lag of 1 gets half of what a lag of 0 gets, and 1,001 nearly the same as 1,000. But the worst place
    gets a twentieth of what the best gets: it never starves, and it is seen when its number recovers.

    ``read`` runs on a thread of its own, never on one that produces. A topic is first read when its first
    record is placed, and no more when no record was placed for ``max_age``. When reading raises,
    ``otherwise`` chooses until it succeeds again; when it hangs, as soon as the numbers are older than
    ``max_age``. One warning is logged for each such episode. A chooser's topics are read one after the
    other, so they hang together.

    Args:
        read: Returns the numbers of one topic's partitions, 0 or more; less is better. One that is missing
            or NaN is taken to be the median of the others. Use units of which 1 is little: lag in records,
            disk usage in percent.
        otherwise: Chooses while there are no numbers that can be trusted.
        refresh: How many seconds after a read the next one begins.
        max_age: For how many seconds numbers can be trusted, counted from when their read began.
        clock: For tests.

    Raises:
        ConfigurationError: ``refresh`` is not positive, or ``max_age`` less than that.
    """
    if not 0 < refresh < math.inf:
        raise ConfigurationError(f"refresh must be more than 0 seconds, not {refresh!r}")
    if not max_age >= refresh:
        raise ConfigurationError(
            f"max_age must be at least refresh, {refresh} seconds, not {max_age!r}: "
            "numbers would be too old before the next ones are read"
        )
    return MetricChooser(Readings(read, refresh, max_age, clock or SystemClock()), otherwise)


class MetricChooser:
    """The chooser that `by_metric` makes. Reading ends with `close`, or when the chooser is dropped."""

    def __init__(self, readings: Readings, otherwise: Chooser) -> None:
        self._readings = readings
        self._otherwise = otherwise
        self._wheels: Wheels[Numbers] = Wheels(_weights)
        self._fallbacks = 0
        weakref.finalize(self, readings.close)

    def __call__(self, choice: Choice) -> int:
        """Choose a place by the numbers, or as ``otherwise`` does."""
        numbers = self._readings.get(choice.topic)
        if numbers is not None:
            return self._wheels.turn(choice, numbers)
        self._fallbacks += 1
        return self._otherwise(choice)

    @property
    def stats(self) -> MetricStats:
        """How the source has been doing."""
        readings = self._readings
        return MetricStats(
            reads=readings.reads,
            failures=readings.failures,
            fallbacks=self._fallbacks,
            last_error=readings.last_error,
        )

    def close(self) -> None:
        """Read no more: ``otherwise`` chooses from now on. Idempotent; a read that goes on is left alone."""
        self._readings.close()


def _weights(choice: Choice, numbers: Numbers) -> list[int]:
    known = [numbers[place] for place in choice.places if place in numbers]
    if not known:
        return [1] * len(choice.places)
    most, usual = _LEAST_WEIGHT * FLOOR * (min(known) + 1), statistics.median_low(known)
    return [max(_LEAST_WEIGHT, round(most / (numbers.get(place, usual) + 1))) for place in choice.places]
