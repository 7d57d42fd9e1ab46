"""Gives a running producer other methods."""

import functools
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer


def override(producer: KafkaProducer, **methods: Callable[..., Any]) -> Callable[[KafkaProducer], None]:
    """Give one producer other methods, by a class of its own.

    Functions in the instance would either keep the producer alive, or be without it when the garbage
    collector closes it.

    Returns:
        What gives the producer its class back, if nobody else has changed it meanwhile.
    """
    base = type(producer)
    wrapped = {name: functools.wraps(getattr(base, name))(method) for name, method in methods.items()}
    own = type(
        base.__name__,
        (base,),
        {"__slots__": (), "__module__": base.__module__, "__qualname__": base.__qualname__, **wrapped},
    )
    producer.__class__ = own

    def undo(producer: KafkaProducer) -> None:
        if type(producer) is own:
            producer.__class__ = base

    return undo


def send_by_name(
    kind: Any,
    producer: KafkaProducer,
    topic: str,
    value: Any,
    key: Any,
    headers: Any,
    partition: int | None,
    timestamp_ms: int | None,
) -> Any:
    """Send as this class does, with named arguments: tracers that wrap it add headers by name."""
    return kind.send(
        producer,
        topic,
        value=value,
        key=key,
        headers=headers,
        partition=partition,
        timestamp_ms=timestamp_ms,
    )


def override_send(producer: KafkaProducer, instead: Callable[..., Any]) -> None:
    """Send the records that the partitioner is asked about in another way, for as long as the producer lives.

    Args:
        producer: The producer.
        instead: ``(producer, topic, value, key, headers, timestamp_ms) -> future``. The headers are a list of
            its own.
    """
    base = type(producer)  # asked anew each time: a tracer may wrap its method later

    def send(
        producer: KafkaProducer,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        listed = headers is None or isinstance(headers, list)  # else kafka-python is about to raise
        if partition is not None or not listed:
            return send_by_name(base, producer, topic, value, key, headers, partition, timestamp_ms)
        return instead(producer, topic, value, key, list(headers or ()), timestamp_ms)

    override(producer, send=send)
