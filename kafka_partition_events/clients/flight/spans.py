"""What OpenTelemetry's traces say of records that go otherwise than the application sent them.

It is never imported here: an application that is traced has done that. Spans and attributes are there
where the application has a span that records while it sends; names are those of the semantic conventions for
messaging, and ``kpe.`` before what these do not know.
"""

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka_partition_events.clients.flight.record import Attempt, Record

_PARTITION: Final = "messaging.destination.partition.id"

T = TypeVar("T")


def _recording() -> Any:
    trace = sys.modules.get("opentelemetry.trace")
    span = None if trace is None else trace.get_current_span()
    return span if span is not None and span.is_recording() else None


def origin() -> Any:
    """Return the context of the application's span, which copies link to; None where there is none."""
    span = _recording()
    return None if span is None else span.get_span_context()


def placed(home: int, partition: int, *, held: bool) -> None:
    """Note in the application's span that a key goes to another partition than its own.

    Of a record that was held it is over by now.
    """
    if partition != home and not held and (span := _recording()) is not None:
        span.set_attributes({_PARTITION: str(partition), "kpe.moved_from": str(home)})


def copied(hand_over: Callable[[Record, Attempt], T], record: Record, attempt: Attempt, linked: Any) -> T:
    """Hand a copy over, in a trace of its own that links to the application's span."""
    trace = sys.modules["opentelemetry.trace"]
    with trace.get_tracer("kafka_partition_events").start_as_current_span(
        f"send {record.topic}",
        trace.set_span_in_context(trace.INVALID_SPAN),
        trace.SpanKind.PRODUCER,
        {
            "messaging.system": "kafka",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": record.topic,
            _PARTITION: str(attempt.partition),
            "kpe.copy": True,
        },
        [trace.Link(linked)],
    ):
        return hand_over(record, attempt)
