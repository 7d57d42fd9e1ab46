"""Asks what other members have committed, and from where to where a log reaches, on a thread of its own.

So neither a coordinator nor a leader that hangs holds up who reads.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Literal, Protocol, get_args

from kafka_partition_events.clients.flight.predecessors import AFTER_HEADER
from kafka_partition_events.clients.ordered.order import EnquiryAnswer, Head, Order, Place, Question
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger

_log = get_logger(__name__)

ASK_S: Final = 0.5
"""How long one request may take."""

SLICE_S: Final = 0.02
"""How long a reader polls before it takes answers in, while something waits."""

_EVERY_S = 0.1

OnTimeout = Literal["deliver", "raise"]
"""How a wait ends that is too long: the record is handed out, or the application gets an exception."""


class Enquirer(Protocol):
    """A client of its own, that asks and waits for the answers."""

    def ask(self, question: Question) -> EnquiryAnswer:
        """Return what could be found out; it may also raise what the client raises."""

    def close(self) -> None:
        """Close the client."""


class Waits:
    """What a reader asks while something waits, and how it ends what waits for too long."""

    def __init__(self, order: Order, open_: Callable[[], Enquirer], on_timeout: OnTimeout) -> None:
        """``open_`` makes the client that asks, on the thread, when there is something to ask."""
        if on_timeout not in get_args(OnTimeout):
            raise ConfigurationError(
                f"on_timeout must be one of {', '.join(get_args(OnTimeout))}, not {on_timeout!r}"
            )
        self._order, self._open, self._raises = order, open_, on_timeout == "raise"
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="kpe-ordered")
        self._closed = False
        self._enquirer: Enquirer | None = None
        self._asked: tuple[Question, Future[EnquiryAnswer]] | None = None
        self._next = 0.0

    def turn(self, now: float) -> str | None:
        """Take an answer in, and ask again where that is due. Never blocks.

        Returns:
            Why an exception is due: a wait was too long.
        """
        if self._asked is not None:
            question, future = self._asked
            if not future.done():
                return None
            self._asked, self._next = None, now + _EVERY_S
            if (error := future.exception()) is None:
                self._order.learn(question, future.result())
            for place, head in self._order.overdue(question.asked):
                text = _why(place, head, question.asked, error)
                if self._raises:
                    head.raised = now
                    return text
                _log.warning("ordered_wait_ended", why=text)
                head.after.clear()
        elif now >= self._next and (asked := self._order.question(now)) is not None:
            self._asked = asked, self._pool.submit(self._ask, asked)
        return None

    def close(self) -> None:
        """Close the client once it has its answer, `ASK_S` at the longest for each request. Idempotent."""
        if not self._closed:
            self._closed = True
            self._pool.submit(self._close)
            self._pool.shutdown()

    def _ask(self, question: Question) -> EnquiryAnswer:
        if self._enquirer is None:
            self._enquirer = self._open()
        return self._enquirer.ask(question)

    def _close(self) -> None:
        if self._enquirer is not None:
            self._enquirer.close()


def _why(place: Place, head: Head, now: float, error: BaseException | None) -> str:
    (topic, partition), awaited = place, ", ".join(f"{each[1]}:{o}" for each, o in sorted(head.after.items()))
    failed = f"; what could be asked last ended in {error!r}" if error is not None else ""
    return (
        f"record {head.offset} of partition {partition} of {topic} has waited {now - head.since:.0f} s for "
        f"the group to process PARTITION:OFFSET {awaited}, which {AFTER_HEADER} names{failed}"
    )
