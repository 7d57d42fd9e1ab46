"""Says of events whether somebody had asked for them, by what ``kpe.changes`` tells.

A growth may be seen before the change that asks for it has been read. So an event is labelled by a reading
that *began after the event was seen*, and that is enough::

    tracker commits the request  ->  somebody grows the topic  ->  the poller sees it  ->  a reading begins

Each arrow is an order in time, and a reading goes to the end that the topic has then: a request that came
before the growth is found. What is not found had not been accepted yet, or never was, and then ``false`` is
true. (Whoever grows a topic between his command and the tracker's answer may be told ``false``; the tracker
refuses such a request if it has seen the growth.) Two observers read at different moments, so at the edges of
a change they may differ in the label of one event; its id is the same.

Nobody waits for long. The first event of a look asks for a reading and waits for its end; the others find it
done. One that fails is tried again, as when the topic gets another leader. If none succeeds in `PATIENCE_S`,
events go on without a label: nobody knows. From then on no event waits, until a reading has succeeded again.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kafka_partition_events.control.agents.agent_thread import Link
from kafka_partition_events.control.protocol.codec import NO_PLACE, Skipped
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.events.names import name_of
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.observe.planned import Plans, may_be_planned

PATIENCE_S: Final = 3.0
READ_LIMIT_S: Final = 2.5
FIRST_READ_LIMIT_S: Final = 5.0
IDLE_S: Final = 30.0
"""Seconds between readings that nobody asks for; they keep connections open."""
RETRY_S: Final = 5.0
"""Seconds after a reading that failed, if no event waits,"""
SOON_S: Final = 0.2
"""and if one does."""

Count = tuple[str, str]
"""An event's name, and what was said of it: ``"true"``, ``"false"``, or ``"unknown"`` for no label."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_log = get_logger(__name__)


class EventLabels:
    """Reads ``kpe.changes`` on a thread of its own, and labels events. Thread-safe."""

    def __init__(self, link: Link, *, clock: Clock) -> None:
        """Make it; nothing is read before `start`.

        Args:
            link: Reaches the control topics; closed with this. Nothing is written.
            clock: The poller's, by which events say when they were seen.
        """
        self.skipped = Skipped()
        """Records of ``kpe.changes`` that were not understood."""
        self._link = link
        self._clock = clock
        self._ledger = Ledger()
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None  # none before it runs
        self._closed = False
        self._plans = Plans(())
        self._read_from = float("-inf")  # when the reading that found the plans began
        self._wanted_from = float("-inf")  # when one has to begin, for the last event that waits or waited
        self._given_up = False
        self._trouble: str | None = None
        self._counts: Counter[Count] = Counter()

    def start(self) -> None:
        """Begin to read."""
        thread = threading.Thread(target=self._run, name="kpe-labels", daemon=True)
        thread.start()
        self._thread = thread

    @property
    def alive(self) -> bool:
        """Whether its thread runs, or is not to."""
        return self._thread is None or self._closed or self._thread.is_alive()

    def close(self) -> None:
        """Stop, and close the link. Idempotent."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(READ_LIMIT_S + 1.0)
        self._link.close()

    @property
    def counts(self) -> Mapping[Count, int]:
        """How many events there were that may have been planned."""
        return self._counts.copy()

    # -- events --------------------------------------------------------------------------------------

    def of(self, event: Event) -> Mapping[str, Any]:
        """Return what ``data`` of an event is to say: nothing, or ``planned`` and, if so, ``change_id``.

        Waits for `PATIENCE_S` at most, and never raises.
        """
        if not may_be_planned(event):
            return _NOTHING
        plans = self._plans_after(event.observed_at)
        label = None if plans is None else plans.label(event)
        if label is None:
            self._counts[name_of(event), "unknown"] += 1
            return _NOTHING
        self._counts[name_of(event), str(label.planned).lower()] += 1
        return {"planned": True, "change_id": label.change_id} if label.planned else {"planned": False}

    def _plans_after(self, moment: float) -> Plans | None:
        """Return what a reading has found that began then or later; None if there is none in time."""
        with self._condition:
            self._wanted_from = max(self._wanted_from, moment)
            self._condition.notify_all()
            deadline = self._clock.monotonic() + PATIENCE_S
            while self._read_from < moment and not (self._given_up or self._closed):
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    self._given_up = True
                    self._note(self._trouble or "a reading takes too long")
                    break
                self._clock.wait(self._condition, left)
            return self._plans if self._read_from >= moment else None

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        limit = FIRST_READ_LIMIT_S
        while not self._closed:
            began = self._clock.monotonic()
            plans = self._read(limit)
            with self._condition:
                if plans is not None:
                    self._note(None)
                    self._plans, self._read_from, self._given_up = plans, began, False
                    self._condition.notify_all()
                    limit = READ_LIMIT_S
                self._rest()

    def _read(self, limit: float) -> Plans | None:
        """Return all that was asked for; None if nobody knows."""
        try:
            appended = self._link.read_changes(limit)
            for key, value in appended:
                self._ledger.take_written(key, value, self.skipped, NO_PLACE)
            return Plans(self._ledger.changes.values())
        except ControlTopicError as error:
            self._note(str(error))
        except Exception as error:  # noqa: BLE001 - a bug here must not end the thread: events would wait
            self._note(repr(error))
        return None

    def _rest(self) -> None:
        """Wait until somebody wants a reading, or it is time for one."""
        began = self._clock.monotonic()
        while not self._closed:
            wanted = self._read_from < self._wanted_from and not self._given_up
            hurried, unhurried = (0.0, IDLE_S) if self._trouble is None else (SOON_S, RETRY_S)
            left = began + (hurried if wanted else unhurried) - self._clock.monotonic()
            if left <= 0:
                return
            self._clock.wait(self._condition, left)

    def _note(self, trouble: str | None) -> None:
        """Log that there is trouble, or none any more; not each time anew."""
        if trouble is not None and self._trouble is None:
            _log.warning("control_topics_unreachable", error=trouble, events="have no label planned")
        elif trouble is None and self._trouble is not None:
            _log.info("control_topics_reachable")
        self._trouble = trouble
