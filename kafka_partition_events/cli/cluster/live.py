"""Events of a poller, one by one, on the thread that asks for them."""

import sys
import threading
from collections import deque
from collections.abc import Iterator

from kafka_partition_events.cli.common.output import reader_check
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller

_HELD = 1_000  # events waiting for a slow output here; what comes then waits in the poller's mailbox
_MAILBOX = 100_000
_READER_CHECK_S = 1.0


def live(poller: MetadataPoller, clock: Clock, deadline: float) -> Iterator[Event]:
    """Start the poller and yield its events until the deadline.

    Raises:
        BrokenPipeError: nobody reads standard output any more.
    """
    reader_gone = reader_check(sys.stdout)
    inbox = _Inbox(clock)
    registration = poller.register(inbox, replay=False, capacity=_MAILBOX)
    poller.start()
    try:
        while (left := deadline - clock.monotonic()) > 0:
            event = inbox.take(min(left, _READER_CHECK_S))
            if event is not None:
                yield event
            elif reader_gone():
                raise BrokenPipeError
    finally:
        inbox.close()
        registration.close()


class _Inbox(PartitionChangeListener):
    """Hands events from the poller's worker to the main thread, where Ctrl-C and broken pipes arrive.

    It holds back the worker when the output is slow, so that the mailbox fills and the poller's own rule
    for slow listeners applies (`Resync`), instead of the memory of this program growing.
    """

    name = "watch"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def on_event(self, event: Event) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) < _HELD or self._closed)
            self._events.append(event)
            self._changed.notify_all()

    def take(self, timeout: float) -> Event | None:
        """Return the next event; None when none came in ``timeout`` seconds."""
        with self._changed:
            if not self._events:
                self._clock.wait(self._changed, timeout)
            if not self._events:
                return None
            self._changed.notify_all()
            return self._events.popleft()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
