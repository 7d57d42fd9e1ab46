"""Lets tracers see the records of a `PartitioningProducer`, whenever they were installed.

OpenTelemetry and Datadog put a subclass of ``confluent_kafka.Producer`` in its place and wrap that one's
``produce``. A class that was made before, as ours was at import, would pass them by. So a producer is made of
its own class and of the one that ``confluent_kafka.Producer`` is at that moment. Where a tracer is installed
all arguments have names, as it expects; else they go by position, which is what the hot path affords.
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
        return super().__new__(_seen_by_tracers(cls))


def _seen_by_tracers(cls: type[Any]) -> type[Any]:
    """Return the class to make a producer of ``cls`` of: itself, unless a tracer is installed."""
    current: Any = confluent_kafka.Producer
    # Applications may put a function there, or `PartitioningProducer` itself.
    is_traced = isinstance(current, type) and issubclass(current, PlainProducer)
    if not is_traced or issubclass(cls, current) or hasattr(current, "plain"):
        return cls
    if (made := _made.get((cls, current))) is None:
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
        if isinstance(headers, list) and len({name for name, _ in headers}) == len(headers):
            headers = dict(headers)  # Datadog adds its own to none, and takes a dictionary only
        if headers is not None:
            given["headers"] = headers
        traced.produce(self, topic, **given)

    return produce
