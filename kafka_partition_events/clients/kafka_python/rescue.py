"""Sends unkeyed records of a running producer again that timed out or are stuck (``rescue=``).

The application gets futures of ours, of kafka-python's own class; each is resolved once, whatever becomes
of the record and its copies. Copies are sent by a thread of ours, because ``send`` may block, and by
``flush``. Beside public names this relies on ``KafkaProducer._metadata`` and ``_closed``, on the constructors
of ``FutureProduceResult`` and ``FutureRecordMetadata``, and on the latter's ``args`` and ``_produce_future``.
"""

import random
import threading
import time
import weakref
from functools import partial
from typing import Any

from attrs import frozen
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata

from kafka_partition_events.clients.held import Engine, Held
from kafka_partition_events.clients.kafka_python.deliveries import Reports
from kafka_partition_events.clients.kafka_python.sending import Sending
from kafka_partition_events.clients.rescue import ID_HEADER, Headers, RescueLimits, RescueMode, RescueStats
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.events import TopicCounts
from kafka_partition_events.partitioners.base import Partitioner

_LOOK_S = 0.005
"""How often to look for stuck records while there are any that could be."""

_PARKED_S = 0.5
"""How long the thread outlives its producer at most."""

_FLUSH_STEP_S = 0.02
_DRAWS = 8

_KEY_SIZE = 3  # place of the key's size in ``FutureRecordMetadata.args``: -1 is no key
_TIMESTAMP = 1

_rescues: "weakref.WeakKeyDictionary[KafkaProducer, Rescue]" = weakref.WeakKeyDictionary()


def rescue_stats(producer: KafkaProducer) -> RescueStats:
    """Return what the rescue of a producer has done since `attach`; all zero without one."""
    rescue = _rescues.get(producer)
    return RescueStats() if rescue is None else rescue.account.stats


def topic_counts(producer: KafkaProducer) -> tuple[TopicCounts, ...]:
    """Return what the rescue of a producer has done since `attach`, by topic, for a `CountersReporter`.

    Nothing else is counted beside a kafka-python producer.
    """
    rescue = _rescues.get(producer)
    saved = {} if rescue is None else rescue.account.saved()
    return tuple(TopicCounts(topic=topic, rescued=count) for topic, count in saved.items())


def refuse_with(producer: KafkaProducer) -> None:
    """Raise where a rescue would break what a producer's settings promise.

    Raises:
        ConfigurationError: the producer is transactional, or has a rescue already.
    """
    if producer.config["transactional_id"] is not None:
        raise ConfigurationError(
            "rescue can't be used with transactional_id: a copy may arrive beside its original, and a "
            "transaction promises exactly one. Leave rescue out; abort and retry a transaction that fails"
        )
    if producer in _rescues:
        raise ConfigurationError("this producer has a rescue already, which lasts as long as the producer")


class Rescue(Engine):
    """The rescue of one producer, to which it holds a weak reference only. Thread-safe.

    It lasts as long as the producer. After the poller was closed records are sent without a rescue; what is
    held by then is looked after to its end.
    """

    _reports: Reports

    def __init__(
        self,
        producer: KafkaProducer,
        partitioner: Partitioner,
        reports: Reports,
        sending: Sending,
        mode: RescueMode,
        limits: RescueLimits,
    ) -> None:
        super().__init__(mode, limits, reports)
        self._producer = weakref.ref(producer)
        self._partitioner = partitioner
        self._sending = sending
        self._serializer: SerializedOnce | None = None
        if (theirs := producer.config["value_serializer"]) is not None:
            producer.config["value_serializer"] = self._serializer = SerializedOnce(theirs)
        self._thread: threading.Thread | None = None
        self._parked = False
        _rescues[producer] = self

    # -- sending -------------------------------------------------------------------------------------

    def send(
        self, producer: KafkaProducer, topic: str, value: Any, headers: Headers, timestamp_ms: int | None
    ) -> Any:
        """Send an unkeyed record without an explicit partition, and hold it; return its future."""
        id_ = self.new_id()
        # A serializer may add headers: it gets a list of its own, and a copy repeats what it has made of it.
        mark = ID_HEADER, id_.encode()
        all_headers = [*headers, mark]
        future, way = self._sending.send(
            producer, topic, free=True, value=value, headers=all_headers, timestamp_ms=timestamp_ms
        )
        home = future._produce_future.topic_partition  # noqa: SLF001
        if home.partition is None or future.args[_KEY_SIZE] != -1:  # no metadata; a key from the serializer
            return future
        data = value if self._serializer is None else self._serializer.latest
        held = Held(
            topic=topic,
            data=None if data is None else bytes(data),  # a buffer may change
            headers=[header for header in all_headers if header is not mark],
            timestamp_ms=future.args[_TIMESTAMP],
            id=id_,
            home=home.partition,
            outcome=FutureProduceResult(home),
        )
        if not self.account.admit(held):
            return future
        theirs = FutureRecordMetadata(held.outcome, 0, *future.args[1:])
        self._follow(held, home.partition, way, future)
        if self._hedging:
            self._wake()
        return theirs

    def _send_copy(self, producer: KafkaProducer | None, held: Held) -> None:
        partition = self._elsewhere(producer, held)
        future, way = self._sending.send(
            producer,
            held.topic,
            free=True,
            value=held.data if self._serializer is None else Serialized(held.data),
            headers=self.headers(held),
            partition=partition,
            timestamp_ms=held.timestamp_ms,
        )
        self._follow(held, partition, way, future)

    def _elsewhere(self, producer: KafkaProducer | None, held: Held) -> int:
        """Return a usable partition, rather one where the record has not been."""
        if producer is None:
            raise ReferenceError("the producer is gone")
        route = self._partitioner.route(held.topic, producer._metadata)  # noqa: SLF001
        if route is None:
            raise ValueError(f"topic {held.topic} is not known")
        partition = random.choice(route.usable)
        for _ in range(_DRAWS):
            if partition not in held.tried:
                break
            partition = random.choice(route.usable)
        return partition

    def _follow(self, held: Held, partition: int, way: int, future: Any) -> None:
        self.account.place(held, partition, way)
        future.add_callback(partial(self.delivered, held, partition, way))
        future.add_errback(partial(self._failed, held, partition, way))

    def _failed(self, held: Held, partition: int, way: int, error: BaseException) -> None:
        # What kafka-python would have tried again itself, if there had been time left.
        worth_a_copy = bool(getattr(error, "retriable", False))
        if not self.failed(held, partition, way, error, worth_a_copy=worth_a_copy):
            self._wake()

    def _tell(self, held: Held, arrived: Any) -> None:
        """Resolve the application's future, which calls its callbacks."""
        if arrived is None:
            held.outcome.failure(held.error)
        else:
            held.outcome.topic_partition = arrived.topic_partition
            held.outcome.success((arrived.offset, arrived.timestamp, None))

    # -- our thread ----------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Make sure that the thread is there and looks."""
        if self._thread is not None and not self._parked:
            return  # it looks again in a moment
        with self.account.changed:
            self._parked = False
            self.account.changed.notify_all()
            if self._thread is None and not self.account.closed:
                self._thread = threading.Thread(target=self._run, name="kpe-rescue", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        account = self.account
        while not self._producer_is_gone():
            with account.changed:
                if not account.queue:
                    busy = self._hedging and account.any_open()
                    self._parked = not busy
                    account.changed.wait(_LOOK_S if busy else _PARKED_S)
                    self._parked = False
            self._look_for_stuck()
            self.drain(partial(self._send_copy, self._producer()))
        with account.changed:
            account.closed = True
        self.drain(partial(self._send_copy, None))

    def _producer_is_gone(self) -> bool:
        producer = self._producer()
        return producer is None or producer._closed  # noqa: SLF001

    def _look_for_stuck(self) -> None:
        # The application may be waiting and send nothing, so that nobody else would notice a silence.
        if not (self._hedging and self._reports.open):
            return
        self._reports.heard()
        if not self._sending.is_coming():
            self.hedge(self._partitioner.route)

    def flush(self, producer: KafkaProducer, timeout: float | None) -> None:
        """Wait as ``KafkaProducer.flush`` does, and until the futures of ours are resolved too.

        Raises:
            KafkaTimeoutError: they are not, after ``timeout`` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        mine = self.account.open
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            self.drain(partial(self._send_copy, producer))
            self._sending.flush(producer, left)  # it waits for what was sent before
            if self.account.wait_for(mine, _FLUSH_STEP_S):
                return
            if left == 0:
                raise KafkaTimeoutError(f"records are still being rescued after {timeout} s")


@frozen
class Serialized:
    """A value that is serialized already."""

    data: str | bytes | None


class SerializedOnce:
    """Stands for a producer's value serializer, and keeps what it made last, for each thread.

    So the very bytes can be sent again, although ``send`` always calls the serializer: the value itself may
    have changed since it was sent, and serializing may have side effects.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs
        self._kept = threading.local()

    @property
    def latest(self) -> Any:
        """What this thread's latest value became."""
        return self._kept.data

    def serialize(self, topic: str, *args: Any) -> Any:
        """Serialize a value, the last argument; kafka-python also knows serializers without headers."""
        if isinstance(args[-1], Serialized):
            return args[-1].data
        self._kept.data = data = self._theirs.serialize(topic, *args)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)
