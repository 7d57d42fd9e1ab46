"""Events of a poller, one by one, on the thread that asks for them."""

import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue

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
        BrokenPipeError: the reader of standard output is gone.
    """
    reader_gone = reader_check(sys.stdout)
    inbox = _Inbox()
    registration = poller.register(inbox, replay=False, capacity=_MAILBOX)
    poller.start()
    try:
        while (left := deadline - clock.monotonic()) > 0:
            event = clock.get(inbox.events, min(left, _READER_CHECK_S))
            if event is not None:
                inbox.room.release()
                yield event
            elif reader_gone():
                raise BrokenPipeError
    finally:
        inbox.room.release(_MAILBOX)  # the worker may wait to put one
        registration.close()


class _Inbox(PartitionChangeListener):
    """Hands events from the poller's worker to the main thread, where Ctrl-C and broken pipes arrive.

    It holds back the worker when the output is slow, so that the mailbox fills and the poller's own rule
    for slow listeners applies (`Resync`), instead of the memory of this program growing.
    """

    name = "watch"

    def __init__(self) -> None:
        self.events: SimpleQueue[Event | None] = SimpleQueue()
        self.room = threading.Semaphore(_HELD)

    def on_event(self, event: Event) -> None:
        self.room.acquire()
        self.events.put(event)
