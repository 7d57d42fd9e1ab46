"""Feeds the sinks from the outbox, as long as this observer is to; and says how far each has come."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.clock_steps import ClockSteps
from kafka_partition_events.observe.settings import Kafka
from kafka_partition_events.observe.sink_settings import SinkSettings
from kafka_partition_events.observe.sinks import make_sink
from kafka_partition_events.outbox import (
    Deliverer,
    DeliveryStats,
    Journal,
    ReaderStats,
    RepeatingSink,
    RetryPolicy,
    Sink,
    Stream,
    Write,
)

_CLOSE_S = 5.0


class SinkRunner:
    """A deliverer for each sink, from `start` to `stop`, again and again. Thread-safe."""

    def __init__(
        self,
        outbox: Journal,
        sinks: Sequence[SinkSettings],
        kafka: Kafka,
        *,
        margin: float,
        clock: Clock,
        holds_to: Callable[[Stream], datetime | None],
        make: Callable[[SinkSettings, Kafka], Sink] = make_sink,
    ) -> None:
        """Make it known to the outbox what the sinks read; nothing is delivered yet.

        Args:
            outbox: Where entries wait.
            sinks: What to feed.
            kafka: How the observed cluster is reached.
            margin: By how many seconds two observers may differ about when something happened.
            clock: Tells the time.
            holds_to: Returns up to which moment everything that happened lies in a stream of the outbox; None
                if nobody knows yet.
            make: Makes a sink of its settings.

        Raises:
            ConfigurationError: a sink's settings are of no use.
            ImportError: a sink needs an extra that is not installed.
        """
        self._outbox, self._kafka, self._clock, self._make = outbox, kafka, clock, make
        self._sinks = {sink.name: sink for sink in sinks}
        self._margin = timedelta(seconds=margin)
        self._holds_to = holds_to
        self._steps = ClockSteps(clock)
        self._passed: dict[str, int] = {}
        self._lock = threading.Lock()
        self._deliverers: dict[str, Deliverer] = {}
        for sink in sinks:
            _patience(sink)
            make(sink, kafka).close()  # what is wrong with it is told now, not when it is elected
            # A new pager must not be told a week of old incidents; `kpe events replay` brings the past.
            outbox.subscribe(sink.name, Stream(sink.stream), from_start=False)
            self._passed[sink.name] = outbox.stats(sink.name).cursor

    def start(self) -> None:
        """Begin to deliver. Idempotent."""
        with self._lock:
            if self._deliverers:
                return
            for name, sink in self._sinks.items():
                made = self._make(sink, self._kafka)
                repeat = partial(made.repeat, self._outbox) if isinstance(made, RepeatingSink) else None
                self._deliverers[name] = Deliverer(
                    self._outbox, made, retry=_patience(sink), repeat=repeat, clock=self._clock
                )
            for deliverer in self._deliverers.values():
                deliverer.start()

    def stop(self) -> None:
        """Deliver what can be delivered within seconds, then stop; all sinks at once. Idempotent."""
        with self._lock:
            closing = [
                threading.Thread(target=deliverer.close, args=(_CLOSE_S,), name=f"kpe-closing-{name}")
                for name, deliverer in self._deliverers.items()
            ]
            for thread in closing:
                thread.start()
            for thread in closing:
                thread.join()
            self._deliverers = {}

    # -- progress ------------------------------------------------------------------------------------

    def progress(self) -> dict[str, datetime]:
        """Return for each sink up to which moment everything that happened has been delivered.

        Another observer passes over what lies before it. So it is no later than what the outbox holds: an
        observer that can't look or can't write, or whose incidents are stuck, has nothing that waits for its
        sinks, and would else pass for one that has delivered all.
        """
        self._note_steps()
        found: dict[str, datetime] = {}
        for name, sink in self._sinks.items():
            # Before the look at what waits: what is written in between is not claimed.
            holds_to = self._holds_to(Stream(sink.stream))
            waiting_since = self._waiting_since(name) or holds_to
            if holds_to is None or waiting_since is None or waiting_since > self._clock.now():
                continue  # the last, by a clock that has been set back: nobody knows since when it waits
            found[name] = min(waiting_since, holds_to)
        return found

    def skip_delivered(self, progress: Mapping[str, datetime]) -> None:
        """Leave out what another observer has delivered, but for a margin.

        Its journal and this one tell of one change at different moments: each tells when it looked.
        """
        self._note_steps()
        for name, moment in progress.items():
            sink = self._sinks.get(name)
            if sink is not None:
                self._pass_over(name, Stream(sink.stream), moment - self._margin)

    def incidents_passed(self) -> int:
        """Return the place behind which sinks of incidents get what is told here, or have got it."""
        places = (self._passed[name] for name, sink in self._sinks.items() if sink.stream == Stream.INCIDENTS)
        return max(places, default=sys.maxsize)

    def _waiting_since(self, name: str) -> datetime | None:
        waiting = self._outbox.read(name, 1)
        return self._steps.made(waiting[0])[0] if waiting else None

    def _pass_over(self, name: str, stream: Stream, before: datetime) -> None:
        waiting = self._outbox.read(name, 1)
        if not waiting:
            return
        last, now = 0, self._clock.now()
        for entry in self._outbox.history(stream, after_seq=waiting[0].seq - 1):
            made = self._steps.made(entry)[1]
            if made > now:  # by a clock that was set back before this process: what follows tells how late
                continue
            if made >= before:
                break
            last = entry.seq
        if last:
            self._outbox.write(Write(cursors={name: last}))
            self._passed[name] = last

    def _note_steps(self) -> None:
        cursors = {name: self._outbox.stats(name).cursor for name in self._sinks}

        def last() -> int:
            waiting = (
                entry.seq
                for name, cursor in cursors.items()
                for entry in self._outbox.history(Stream(self._sinks[name].stream), after_seq=cursor)
            )
            return max(waiting, default=0)

        self._steps.note(min(cursors.values(), default=0), last)

    # -- how it is doing -----------------------------------------------------------------------------

    def ended(self) -> Iterator[str]:
        """Yield the sinks whose deliverer's thread has ended although it should run."""
        return (name for name, deliverer in tuple(self._deliverers.items()) if not deliverer.alive)

    def stats(self) -> dict[str, tuple[ReaderStats, DeliveryStats]]:
        """Return for each sink what waits for it, and what it has got here: nothing while it is not fed."""
        deliverers = dict(self._deliverers)
        return {
            name: (
                self._outbox.stats(name),
                deliverers[name].stats if name in deliverers else DeliveryStats(),
            )
            for name in self._sinks
        }


def _patience(sink: SinkSettings) -> RetryPolicy:
    try:
        first = min(RetryPolicy().first_delay, sink.max_delay)
        return RetryPolicy(first_delay=first, max_delay=sink.max_delay, max_age=sink.max_age)
    except ConfigurationError as error:
        raise ConfigurationError(f"sinks.{sink.name}: max_delay and max_age: {error}") from error
