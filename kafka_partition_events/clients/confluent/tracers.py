"""Lets tracers see the records of a `PartitioningProducer`, whenever they were installed.

OpenTelemetry and Datadog put a subclass of ``confluent_kafka.Producer`` in its place and wrap that one's
``produce``. A class that was made before, as ours was at import, would pass them by. So a producer is made of
both: of its own class, and of the one that ``confluent_kafka.Producer`` is at that moment, which then stands
between ours and librdkafka's.

Tracers look for ``headers`` among the arguments by name, or in a place of their own choice: where one is
installed all arguments have names. Else they go by position, which is what the hot path affords.
"""

from typing import Any

import confluent_kafka
from confluent_kafka.cimpl import Producer as PlainProducer

_made: dict[tuple[type, type], type] = {}


class Handle(PlainProducer):
    """A way to the brokers that tracers see: a `PartitioningProducer`, or another producer beside it."""

    plain = PlainProducer.produce
    """``produce`` of librdkafka, or of a tracer; to be called by position."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Any:
        """Make a handle that tracers see."""
        return super().__new__(seen_by_tracers(cls))


def plain_class() -> type[Any]:
    """Return the class that the application's own plain producers are of now."""
    current: object = confluent_kafka.Producer
    # Applications may put a function there, or `PartitioningProducer` itself.
    if isinstance(current, type) and issubclass(current, PlainProducer) and not hasattr(current, "plain"):
        return current
    return PlainProducer


def seen_by_tracers(cls: type[Any]) -> type[Any]:
    """Return the class to make a producer of ``cls`` of: itself, unless a tracer is installed."""
    current = plain_class()
    if current is PlainProducer or issubclass(cls, current):
        return cls
    made = _made.get((cls, current))
    if made is None:
        body = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        made = _made[cls, current] = type(cls.__name__, (cls, current), {**body, "plain": _by_name(current)})
    return made


def _by_name(traced: Any) -> Any:
    """Return ``produce`` of a traced class, to be called by position as `PlainProducer.produce` is."""

    def produce(
        self: Any,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        given = {"value": value, "key": key, "partition": partition, "timestamp": timestamp}
        if (report := callback or on_delivery) is not None:
            given["on_delivery"] = report
        if headers is not None:  # Datadog adds its own to none, and takes a dictionary only
            given["headers"] = _as_mapping(headers)
        traced.produce(self, topic, **given)

    return produce


def _as_mapping(headers: Any) -> Any:
    if isinstance(headers, list) and len({name for name, _ in headers}) == len(headers):
        return dict(headers)
    return headers
