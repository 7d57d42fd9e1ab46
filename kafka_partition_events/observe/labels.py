"""Says of events whether a change had asked for them, by what ``kpe.changes`` has.

A growth may be seen before the change that asks for it has been read. So an event is labelled by a reading
that *began after the event was seen*, and that is enough::

    tracker commits the request  ->  the topic grows  ->  the poller sees it  ->  a reading begins

Each arrow is an order in time, and a reading goes to the end that the topic has then: a request that came
before the growth is found. What is not found had not been accepted yet, or never was, and then ``false`` is
true. (A topic that grows between a command and the tracker's answer may be ``false``; the tracker refuses
such a request if it has seen the growth.) Two observers read at different moments, so at the edges of a
change they may differ in the label of one event; its id is the same.

The journal's thread reads, as growth is rare: the first event of a poll does, and the others find it done. A
reading that fails is tried again, as when the topic gets another leader, for `READ_LIMIT_S` in all. Then
events go on without a label, and none reads again for `RETRY_S`.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kafka_partition_events.control.agents.agent_thread import AgentLink
from kafka_partition_events.control.protocol.codec import NO_PLACE, Skipped
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.events.names import name_of
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.observe.planned import Plans, may_be_planned

READ_LIMIT_S: Final = 3.0
RETRY_S: Final = 5.0
PAUSE_S: Final = 0.2
"""Seconds between two tries of one event."""

Count = tuple[str, str]
"""An event's name, and what was said of it: ``"true"``, ``"false"``, or ``"unknown"`` for no label."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

_log = get_logger(__name__)


class EventLabels:
    """Labels events, and reads ``kpe.changes`` for that. Thread-safe."""

    def __init__(self, link: AgentLink, *, clock: Clock) -> None:
        """Make it; nothing is read before the first event that may be planned.

        Args:
            link: Reaches the control topics; closed with this. Nothing is written.
            clock: The poller's, by which events say when they were seen.
        """
        self._link = link
        self._clock = clock
        self._ledger = Ledger()
        self._reading = threading.Condition()
        self._closed = False
        self._plans = Plans(())
        self._read_from = self._retry_at = float("-inf")  # when the reading began that found the plans
        self._trouble: str | None = None
        self._counts: Counter[Count] = Counter()

    def close(self) -> None:
        """Let a reading end, and close the link. Idempotent."""
        self._closed = True
        ended = self._reading.acquire(timeout=READ_LIMIT_S + 1.0)
        self._link.close()
        if ended:
            self._reading.release()

    @property
    def counts(self) -> Mapping[Count, int]:
        """How many events there were that may have been planned."""
        return self._counts.copy()

    def of(self, event: Event) -> Mapping[str, Any]:
        """Return what ``data`` of an event is to say: nothing, or ``planned`` and, if so, ``change_id``.

        Takes `READ_LIMIT_S` at most, and never raises.
        """
        if not may_be_planned(event):
            return _NOTHING
        plans = self._plans_after(event.observed_at)
        if plans is None:
            self._counts[name_of(event), "unknown"] += 1
            return _NOTHING
        change = plans.change_of(event)
        self._counts[name_of(event), "false" if change is None else "true"] += 1
        return {"planned": False} if change is None else {"planned": True, "change_id": change.change_id}

    def _plans_after(self, moment: float) -> Plans | None:
        """Return what a reading has found that began then or later; None if there is none in time."""
        with self._reading:
            began = self._clock.monotonic()
            while self._read_from < moment and not self._closed and began >= self._retry_at:
                now = self._clock.monotonic()
                if now - began >= READ_LIMIT_S:
                    self._retry_at = now + RETRY_S
                    break
                self._note(trouble := self._read(now, READ_LIMIT_S - (now - began)))
                if trouble is not None:
                    self._clock.wait(self._reading, PAUSE_S)
            return self._plans if self._read_from >= moment else None

    def _read(self, began: float, limit: float) -> str | None:
        """Take in all that was asked for; return what is wrong, if something is."""
        try:
            for key, value in self._link.read_changes(limit):
                self._ledger.take_written(key, value, Skipped(), NO_PLACE)
            self._plans, self._read_from = Plans(self._ledger.changes.values()), began
        except ControlTopicError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a bug here must not cost the event
            return repr(error)
        return None

    def _note(self, trouble: str | None) -> None:
        """Log that there is trouble, or none any more; not each time."""
        if trouble is not None and self._trouble is None:
            _log.warning("control_topics_unreachable", error=trouble, events="have no label planned")
        elif trouble is None and self._trouble is not None:
            _log.info("control_topics_reachable")
        self._trouble = trouble
