"""The thread that brings entries from an outbox to a sink."""

import contextlib
import math
import random
import threading
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from attrs import evolve, field, frozen

from kafka_partition_events.durations import NO_DELAYS, Durations
from kafka_partition_events.errors import OutboxError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.outbox.entry import Entry
from kafka_partition_events.outbox.retry import RetryDecision, RetryPolicy, decide
from kafka_partition_events.outbox.sink import DeliveryError, Sink
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox
from kafka_partition_events.process import OwnProcess

_READ_S: Final = 0.5
"""How often an idle deliverer reads the outbox."""

GIVE_UP_AFTER: Final = 10
"""How often an entry is tried with a sink that raises what it should not."""

_log = get_logger(__name__)

State = Literal["delivering", "idle", "backing_off"]


@frozen(kw_only=True)
class DeliveryStats:
    """What a deliverer has done since it began.

    Attributes:
        state: ``"delivering"``; ``"idle"``: nothing is waiting; ``"backing_off"``: waiting after a failure.
        delivered: Entries that the target took.
        failures: Tries that failed, by reason. ``error`` is an exception that the sink should not have
            raised, ``outbox`` a failure on this side.
        delays: Seconds between the recording of entries and their delivery.
    """

    state: State = "idle"
    delivered: int = 0
    failures: Mapping[str, int] = field(factory=dict)
    delays: Durations = NO_DELAYS


class Deliverer:
    """Delivers the entries of an outbox to one sink, at least once, in order, on a thread of its own.

    The cursor moves when the target has taken an entry, or refused it for good: that one goes to the dead
    letters. Whatever else goes wrong is tried again,
    alone until one goes through, and nothing behind it comes first: a target that is down holds up its own
    deliverer only. An exception that is no `DeliveryError` is a bug, of the sink's or for one entry: that
    goes to the dead letters, too, when it was tried 10 times.

    For the process that made it.

    `stats` and `close` may be called from any thread.
    """

    def __init__(
        self,
        outbox: SqliteOutbox,
        sink: Sink,
        *,
        retry: RetryPolicy | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make a deliverer; from now on the outbox keeps what the sink has not got.

        A sink that the outbox does not know yet gets what is recorded from now on.

        Args:
            outbox: Where the entries are. Close it after the deliverer.
            sink: Where they go. It is the deliverer's from now on, which closes it.
            retry: How patient to be.
            clock: Times delays and ages; the system's by default.
            rng: Source of the jitter.

        Raises:
            OutboxError: the outbox can't be written.
        """
        self._outbox = outbox
        self._sink = sink
        self._name = sink.name
        self._policy = retry or RetryPolicy()
        self._clock = clock or Clock()
        self._rng = rng or random.Random()
        self._process = OwnProcess(type(self).__name__)
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._deadline = math.inf  # of `close`
        # From here on the worker's own: up to where the target is done, what it refused, and how far that is
        # durable; failures in a row; what others may read.
        self._done = self._settled = 0
        self._refused: Entry | None = None
        self._failures = 0
        self._raised = ("", 0)  # the entry that a bug was met with last, and how often
        self._stats = DeliveryStats()
        outbox.subscribe(self._name)

    def start(self) -> None:
        """Start the thread, unless it was started or the deliverer closed before.

        Raises:
            ForkedError: the deliverer was made before a fork.
        """
        self._process.check()
        with self._condition:
            if self._thread is None and self._deadline == math.inf:
                thread = threading.Thread(target=self._run, name=f"kpe-sink-{self._name}", daemon=True)
                thread.start()
                self._thread = thread

    @property
    def alive(self) -> bool:
        """Whether its thread runs, or is not to: not started, or closing."""
        thread = self._thread
        return thread is None or self._deadline < math.inf or thread.is_alive()

    @property
    def stats(self) -> DeliveryStats:
        """What became of the entries so far."""
        return self._stats

    def close(self, timeout: float = 5.0) -> None:
        """Deliver what is waiting, for ``timeout`` seconds at most, and close the sink.

        Retries come when they are due, not sooner; one that is due too late is not waited for. What is not
        delivered stays in the outbox. A call of the sink's that takes longer is left behind, with its thread.
        Idempotent. In a forked child it does nothing: all of this is the parent's.
        """
        if self._process.is_another:
            return
        with self._condition:
            never_started = self._thread is None and self._deadline == math.inf
            self._deadline = min(self._deadline, self._clock.monotonic() + timeout)
            self._condition.notify_all()
        if never_started:
            self._close_sink()
        if self._thread is not None:
            self._thread.join(timeout)

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._clock.monotonic() < self._deadline:
                closing = self._deadline < math.inf  # before it reads: what came before `close` is delivered
                delay = self._step()
                if delay is None:
                    if closing:
                        return  # drained
                    self._wait_for_entries()
                elif not self._sleep(delay):
                    return
        finally:
            self._close_sink()

    def _wait_for_entries(self) -> None:
        self._stats = evolve(self._stats, state="idle")
        with self._condition:
            if self._deadline == math.inf:
                self._clock.wait(self._condition, _READ_S)

    def _sleep(self, delay: float) -> bool:
        """Wait before the next try; return whether it comes before the deadline of `close`."""
        due = self._clock.monotonic() + delay
        with self._condition:
            while (left := due - self._clock.monotonic()) > 0:
                if due > self._deadline:
                    return False
                self._clock.wait(self._condition, left)
        return True

    def _step(self) -> float | None:
        """Try to deliver what is next; return the seconds to wait before the next step, None if idle."""
        entries: Sequence[Entry] = ()
        error: DeliveryError | None = None
        try:
            self._settle()
            entries = self._outbox.read(self._name, 1 if self._failures else self._sink.batch)
            if not entries:
                return None
            if self._stats.state == "idle":
                self._stats = evolve(self._stats, state="delivering")
            self._sink.deliver(entries)
        except DeliveryError as caught:
            error = caught
        except OutboxError as caught:
            error = DeliveryError(str(caught), reason="outbox")
        except Exception as caught:  # noqa: BLE001 - a bug of the sink's is not the end of its thread
            error = self._unexpected(caught, entries)
        decision = decide(self._policy, self._failures, len(entries), error, self._rng.random())
        self._log(entries, error, decision)
        self._note(entries, error, decision)
        with contextlib.suppress(OutboxError):  # the next step begins with it again, and reports it
            self._settle()
        return decision.delay

    def _unexpected(self, error: Exception, entries: Sequence[Entry]) -> DeliveryError:
        """Return what to do about a bug: an entry that was met with it often enough is given up."""
        id_, times = self._raised
        head = entries[0].id if entries else ""
        self._raised = head, times + 1 if id_ == head else 1
        # In a batch another entry may be at fault.
        given_up = len(entries) == 1 and self._raised[1] >= GIVE_UP_AFTER
        return DeliveryError(repr(error), reason="error", refused=given_up)

    def _note(self, entries: Sequence[Entry], error: DeliveryError | None, decision: RetryDecision) -> None:
        taken, stats = entries[: decision.delivered], self._stats
        if taken:
            self._done = taken[-1].seq
            now = self._clock.now()
            waits = [(now - entry.recorded_at).total_seconds() for entry in taken]
            delivered, delays = stats.delivered + len(taken), stats.delays.plus(*waits)
            stats = evolve(stats, delivered=delivered, delays=delays)
        if error is not None:
            failures = {**stats.failures, error.reason: stats.failures.get(error.reason, 0) + 1}
            stats = evolve(stats, failures=failures)
            if decision.refused:
                self._refused = entries[decision.delivered]
        self._failures = decision.failures
        self._stats = evolve(stats, state="backing_off" if decision.failures else "delivering")

    def _settle(self) -> None:
        """Make durable what the target has taken or refused.

        As long as this fails, nothing else is tried: an outbox that can't be written must not make the target
        hear the same entries again with each retry.
        """
        if self._done > self._settled:
            self._outbox.write(cursors={self._name: self._done})
            self._settled = self._done
        if self._refused is not None:
            self._outbox.refuse(self._name, self._refused)
            self._refused = None

    def _log(self, entries: Sequence[Entry], error: DeliveryError | None, decision: RetryDecision) -> None:
        log = _log.bind(sink=self._name)
        if error is None:
            if self._failures:
                log.info("delivery_resumed", failures=self._failures)
            return
        log = log.bind(reason=error.reason, error=str(error))
        if decision.refused:
            log.warning("entry_refused", id=entries[decision.delivered].id)
        else:
            log.warning("delivery_failed", failures=decision.failures, delay_s=decision.delay)

    def _close_sink(self) -> None:
        try:
            self._sink.close()
        except Exception as error:  # noqa: BLE001 - what a sink raises on its way out changes nothing
            _log.warning("sink_close_failed", sink=self._name, error=repr(error))
