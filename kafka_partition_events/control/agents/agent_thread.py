"""What all agents share: the thread that reads ``kpe.changes`` and publishes, and the link to do so by."""

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self

from kafka_partition_events.control.agents.leases import BUSY_S, Leaseholder, Report
from kafka_partition_events.control.protocol.codec import NO_PLACE, RecordError, Skipped, encode, key_of
from kafka_partition_events.errors import ConfigurationError, ControlTopicError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.process import OwnProcess


class AgentLink(Protocol):
    """Reads ``kpe.changes``, appends to ``kpe.leases``."""

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        """Return the keys and values appended since the last call; the first one begins at the beginning.

        Only what is committed, up to the end that the topic has now. One thread at a time.

        Args:
            timeout: Seconds after which to give up. A link must keep to it.

        Raises:
            ControlTopicError: it can't be read; the next call goes on where this one was.
        """

    def publish(self, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
        """Hand a lease over, without waiting and without raising.

        Args:
            key: The record's key.
            value: The record.
            on_done: Called once, on any thread: with the broker's append time in milliseconds, or with None
                if the record was lost.
        """

    def close(self) -> None:
        """Release what the link opened. Records that were handed over are given a second or so."""


READ_LIMIT_S: Final = 2.0
START_LIMIT_S: Final = 5.0
_RETRY_S: Final = 10.0

_log = get_logger(__name__)


class ControlAgent(ABC):
    """A thread around an instance's duties. Without the control topics, nothing but a line in the log.

    Thread-safe. For the process that made it.
    """

    def __init__(self, link: AgentLink, duties: Leaseholder, clock: Clock | None) -> None:
        """Make an agent; nothing is asked before it is started.

        Raises:
            ConfigurationError: the instance's name, or what else a lease says of it, is too long or no text.
        """
        try:
            encode(duties.lease)
        except RecordError as error:
            raise ConfigurationError(f"the tracker could not read of this instance: {error}") from error
        self.skipped = Skipped()
        """Records of ``kpe.changes`` that were not understood."""
        self.last_error: str | None = None
        """Why the control topics could not be read the last time; None when they could."""
        self._link = link
        self._presence = duties
        self._clock = clock or Clock()
        self._running = self._closing = False
        self._process = OwnProcess(type(self).__name__)
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._woken = False
        self._reached = False
        self._rounds = 0
        # When leases were appended, None: it was lost; noted on any thread, taken by ours.
        self._heard: deque[int | None] = deque()

    @abstractmethod
    def _act(self, now: float) -> float:
        """Do what is to be done after ``kpe.changes`` was read; return when to read it again."""

    # -- life ----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start; see `start`."""
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop, and say so."""
        self.close()

    def start(self, limit: float = START_LIMIT_S) -> bool:
        """Start the thread, and wait until what holds now is known and done.

        Args:
            limit: Seconds to wait at most.

        Returns:
            Whether the control topics could be read.

        Raises:
            ForkedError: the agent was made before a fork.
        """
        self._process.check()
        self._running, self._closing = True, False
        self._wake()
        with self._condition:
            self._condition.wait_for(lambda: self._rounds > 0, limit)
            return self._rounds > 0 and self.last_error is None

    def close(self) -> None:
        """Stop, and say so. Idempotent; does nothing in a forked child, where the agent is the parent's."""
        if self._process.is_another:
            return
        with self._condition:
            if not self._running:
                return
            thread, self._thread, self._running, self._closing = self._thread, None, False, True
            self._condition.notify_all()
        if thread is not None:
            thread.join(READ_LIMIT_S + 1.0)
        else:
            self._leave()

    def _leave(self) -> None:
        """Say goodbye, and close the link: on the thread that uses it, however long that still reads."""
        if self._reached:  # as in `_round`
            last = self._presence.last_lease()
            self._link.publish(key_of(last), encode(last), lambda _at_ms: None)
        self._link.close()

    def _wake(self) -> None:
        with self._condition:
            self._woken = True
            self._condition.notify_all()
            if self._thread is None and self._running:
                self._thread = threading.Thread(target=self._run, name="kpe-agent", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._thread is threading.current_thread():
            with self._condition:
                self._woken = False
            try:
                again_at = self._round()
            except Exception as error:  # noqa: BLE001 - a bug must not end the agent: gates would stay held
                _log.error("agent_failed", error=repr(error))
                again_at = self._clock.monotonic() + BUSY_S
            with self._condition:
                self._rounds += 1
                self._condition.notify_all()
                while self._thread is threading.current_thread() and not self._woken:
                    left = again_at - self._clock.monotonic()
                    if left <= 0:
                        break
                    self._clock.wait(self._condition, left)
        self._leave()

    # -- a round -------------------------------------------------------------------------------------

    def _round(self) -> float:
        self._read()
        if not self._reached or self._closing:
            # A record for a topic that is not there might create it, and not as it should be.
            return self._clock.monotonic() + _RETRY_S
        now = self._clock.monotonic()
        while self._heard:
            self._presence.was_appended(self._heard.popleft(), now)
        return self._act(now)

    def _read(self) -> None:
        try:
            appended = self._link.read_changes(READ_LIMIT_S if self._reached else START_LIMIT_S)
        except ControlTopicError as error:
            if self.last_error is None:
                _log.warning("control_topics_unreachable", error=str(error))
            self.last_error = str(error)
            return
        self._reached = True
        if self.last_error is not None:
            _log.info("control_topics_reachable")
            self.last_error = None
        for key, value in appended:
            self._presence.ledger.take_written(key, value, self.skipped, NO_PLACE)
        self._presence.ledger.keep(self._presence.needs)

    def _publish(self, report: Report) -> float:
        """Publish, and return when to read again."""
        lease, again_at = report
        if lease is not None:
            self._link.publish(key_of(lease), encode(lease), self._heard.append)
        return again_at
