"""How a producer sends, flushes and closes while it is attached.

kafka-python has no interceptor, so the producer becomes an instance of a subclass of its own class, and so do
its buffer and its client where there is a second producer. Beside what that one relies on, this relies on
``KafkaProducer._accumulator`` and its ``append``, and on ``_sender._client.connection_delay``. For rerouted
records it relies on ``send`` to ask the partitioner after it has checked the headers and before it reads
them: what the partitioner adds to the list in between is sent. A test would notice.
"""

import contextlib
import functools
from collections.abc import Callable, Collection
from typing import Any, Protocol

from kafka import KafkaProducer

from kafka_partition_events.clients.kafka_python.deliveries import Reports
from kafka_partition_events.clients.kafka_python.standby import Latest, Standby
from kafka_partition_events.clients.rerouting import noting_homes
from kafka_partition_events.clients.rescue import Headers
from kafka_partition_events.routing.lanes import MAIN

_LEAST_WAIT_MS = 5.0


class Rescuing(Protocol):
    """What sends unkeyed records without an explicit partition, and looks after them."""

    def send(
        self, producer: KafkaProducer, topic: str, value: Any, headers: Headers, timestamp_ms: int | None
    ) -> Any:
        """Send one, whose headers are a list of its own; return its future."""

    def flush(self, producer: KafkaProducer, timeout: float | None) -> None:
        """Wait for all records, as ``KafkaProducer.flush`` does."""


class Sending:
    """What one producer does by its own class, and what we add to it. Holds no reference to the producer."""

    def __init__(self, kind: Any, reports: Reports, standbys: Collection[Standby], *, reroutes: bool) -> None:
        self._kind = kind  # the producer's class, asked anew each time: a tracer may wrap its methods later
        self._reports = reports
        self._standbys = standbys
        self._latest = Latest()
        self._reroutes = reroutes

    def send(self, producer: KafkaProducer, topic: str, *, free: bool, **record: Any) -> tuple[Any, int]:
        """Send a record; return its future, and which way it took.

        One is ``free`` to take any way if the application has not given its partition.
        """
        self._latest.free, self._latest.way = free, MAIN
        with noting_homes(record["headers"]) if self._reroutes else contextlib.nullcontext():
            future = self._kind.send(producer, topic, **record)  # tracers that wrap it add headers by name
        way = self._latest.way
        if self._reports.open:
            self._reports.sent(future, way)
        return future, way

    def is_coming(self) -> bool:
        """Tell whether records are to take another way, but have to wait for it to be made."""
        return any(standby.is_coming() for standby in self._standbys)

    def flush(self, producer: KafkaProducer, timeout: float | None) -> None:
        """Flush all ways."""
        for standby in self._standbys:
            timeout = standby.flush(timeout)
        self._kind.flush(producer, timeout)

    def install(
        self, producer: KafkaProducer, rescue: Rescuing | None, closed: Callable[[], None]
    ) -> Callable[[KafkaProducer], None]:
        """Take part in the producer's ``send``, ``flush`` and ``close`` from now on.

        Returns:
            What ends this, given the producer. A rescue and rerouting go on, and what is on another way by
            then is still waited for.
        """
        kind, standbys, reports, reroutes = self._kind, self._standbys, self._reports, self._reroutes

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
            if partition is None and listed:
                if rescue is not None and key is None and reports.open:
                    return rescue.send(producer, topic, value, list(headers or ()), timestamp_ms)
                headers = list(headers or ()) if reroutes else headers
            future, _ = self.send(
                producer,
                topic,
                free=partition is None,
                value=value,
                key=key,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
            return future

        def flush(producer: KafkaProducer, timeout: float | None = None) -> None:
            (rescue or self).flush(producer, timeout)

        def close(producer: KafkaProducer, timeout: float | None = None, null_logger: bool = False) -> None:
            with contextlib.ExitStack() as at_last:
                at_last.callback(closed)
                for standby in standbys:
                    at_last.callback(standby.close, timeout)
                kind.close(producer, timeout, null_logger)

        restore = override(producer, send=send, flush=flush, close=close)
        undivert = _divert(producer, standbys, self._latest) if standbys else None

        def end(producer: KafkaProducer) -> None:
            needed = undivert is not None and undivert(producer)
            if not (needed or rescue or reroutes):
                restore(producer)

        return end


def override(thing: Any, **methods: Callable[..., Any]) -> Callable[[Any], None]:
    """Give one producer, or one part of it, other methods, by a class of its own.

    Functions in the instance would either keep it alive, or be without it when the garbage collector closes
    it.

    Returns:
        What gives it its class back, if nobody else has changed it meanwhile.
    """
    base = type(thing)
    wrapped = {name: functools.wraps(getattr(base, name))(method) for name, method in methods.items()}
    own = type(
        base.__name__,
        (base,),
        {"__slots__": (), "__module__": base.__module__, "__qualname__": base.__qualname__, **wrapped},
    )
    thing.__class__ = own

    def undo(thing: Any) -> None:
        if type(thing) is own:
            thing.__class__ = base

    return undo


def _divert(
    producer: KafkaProducer, standbys: Collection[Standby], latest: Latest
) -> Callable[[KafkaProducer], bool]:
    """Let other producers have what they take of the records that a producer appends to its buffer.

    Returns:
        What ends this, given the producer, and tells whether something is still on another way.
    """
    buffer, client = producer._accumulator, producer._sender._client  # noqa: SLF001 - see above
    append, delay = type(buffer).append, type(client).connection_delay

    def append_anywhere(buffer: Any, *args: Any, **kwargs: Any) -> Any:
        for standby in standbys:
            if (result := standby.append(latest, *args, **kwargs)) is not None:
                return result
        return append(buffer, *args, **kwargs)

    def connection_delay(client: Any, node_id: Any) -> float:
        # kafka-python asks again at once, some 5,000 times a second, while a connection has as much in
        # flight as it may. The second producer needs the processor, and what is awaited wakes the first.
        theirs: float = delay(client, node_id)
        return max(_LEAST_WAIT_MS, theirs)

    release = override(buffer, append=append_anywhere)
    calm = override(client, connection_delay=connection_delay)
    for standby in standbys:
        standby.begin(producer._metadata.topics)  # noqa: SLF001

    def end(producer: KafkaProducer) -> bool:
        release(producer._accumulator)  # noqa: SLF001
        calm(producer._sender._client)  # noqa: SLF001
        return sum(standby.end() for standby in standbys) > 0

    return end
