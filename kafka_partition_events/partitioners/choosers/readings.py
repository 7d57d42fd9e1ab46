"""Reads numbers about topics in the background: whoever needs them has them at once, or learns that not."""

import contextlib
import math
import threading
from collections.abc import Callable, Mapping

from attrs import define

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock

ReadMetric = Callable[[str], Mapping[int, float]]
"""Returns a number for each partition of a topic; it may be slow, and may raise."""

Numbers = Mapping[int, float]
"""What was read of one topic: finite, and not negative."""

_HIGHEST = 1e15

_log = get_logger(__name__)


@define(eq=False)
class _Topic:
    """What is known of one topic. Moments are monotonic seconds."""

    name: str
    due_at: float
    asked_at: float
    good_until: float
    told: bool
    """Whether the warning about the failure that goes on is out."""
    numbers: Numbers | None = None


class Readings:
    """The latest numbers of each topic that is asked for, read again and again on one thread. Thread-safe.

    The thread begins with the first topic. It knows nothing of the chooser, so it does not keep it alive.
    """

    def __init__(self, read: ReadMetric, refresh: float, max_age: float, clock: Clock) -> None:
        """Make readings without topics; see `by_metric` for the arguments."""
        self.reads = 0
        self.failures = 0
        self.last_error: str | None = None
        self._read = read
        self._refresh = refresh
        self._max_age = max_age
        self._clock = clock
        self._topics: dict[str, _Topic] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def get(self, name: str) -> Numbers | None:
        """Return a topic's numbers; None while there are none, or none that can be trusted. Never waits."""
        now = self._clock.monotonic()
        topic = self._topics.get(name) or self._follow(name, now)
        topic.asked_at = now
        if now <= topic.good_until:
            return topic.numbers
        if not topic.told:
            self._tell(topic, f"no answer for {self._max_age} s")
        return None

    def close(self) -> None:
        """Read no more, and forget what was read. Idempotent; does not wait for a read that goes on."""
        with self._changed:
            self._closed = True
            for topic in tuple(self._topics.values()):
                topic.told, topic.numbers = True, None
            self._changed.notify_all()

    def _follow(self, name: str, now: float) -> _Topic:
        with self._changed:
            topic = self._topics.get(name)
            if topic is None:
                topic = _Topic(name, now, now, good_until=now + self._max_age, told=self._closed)
                self._topics[name] = topic
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name="kpe-metric", daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads: records must go out all the same
                    thread.start()
                    self._thread = thread
            self._changed.notify_all()
        return topic

    def _tell(self, topic: _Topic, error: str) -> None:
        """Warn of a failure, once for each that goes on."""
        with self._changed:
            told, topic.told = topic.told, True
        if not told:
            _log.warning("metric_unavailable", topic=topic.name, error=error)

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            for topic in tuple(self._topics.values()):
                self._look_after(topic)
            with self._changed:
                if self._closed:
                    return
                now = self._clock.monotonic()
                due_at = min((topic.due_at for topic in self._topics.values()), default=now + self._refresh)
                self._clock.wait(self._changed, due_at - now)

    def _look_after(self, topic: _Topic) -> None:
        now = self._clock.monotonic()
        if topic.due_at > now or self._closed:
            return
        if now - topic.asked_at > self._max_age:
            self._topics.pop(topic.name, None)
            return
        try:
            numbers = _checked(self._read(topic.name))
        except Exception as error:  # noqa: BLE001 - a source is foreign code
            topic.numbers = None
            self.failures += 1
            self.last_error = repr(error)
            self._tell(topic, repr(error))
        else:
            self.reads += 1
            with self._changed:
                if not self._closed:
                    topic.good_until = now + self._max_age
                    topic.numbers, topic.told = numbers, False
        topic.due_at = self._clock.monotonic() + self._refresh


def _checked(answer: Mapping[int, float]) -> Numbers:
    """Return the numbers of an answer, within bounds.

    Raises:
        ValueError: it has none.
    """
    numbers = {
        int(partition): min(max(0.0, float(number)), _HIGHEST)
        for partition, number in answer.items()
        if not math.isnan(number)
    }
    if not numbers:
        raise ValueError("the metric has no number for any partition")
    return numbers
