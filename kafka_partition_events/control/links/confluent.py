"""The control topics through confluent-kafka."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from kafka_partition_events.clients.confluent.connection import Connection, time_left
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.control.link import Report
from kafka_partition_events.control.topics import PREFIX
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.metadata.forking import keep_for_ever, reset_in_children

_READING: Final = {
    "group.id": "kpe-agent",  # never joined, but librdkafka wants one
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    # The tracker writes in transactions, and the mark at the end of one takes an offset, too. Whoever waits
    # for a record with the last offset waits for ever; this tells of the end of the partition.
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
}
_WRITING: Final = {
    "acks": "all",
    "linger.ms": 50,
    "message.timeout.ms": 30_000,
    "partitioner": "murmur2_random",  # as with the other client, so that a key stays on its partition
}
_CLOSING_S: Final = 1.0
_PRODUCE: Final = (
    Producer.produce
)  # of a producer of ours too: the application's partitioner has no part in it


class ConfluentControlLink:
    """Reads with a consumer of its own, writes with the application's producer or one of its own.

    Thread-safe. In a forked child it connects anew, with a producer of its own.
    """

    def __init__(
        self, config: Mapping[str, Any], producer: Producer | None = None, *, prefix: str = PREFIX
    ) -> None:
        """Make a link; connecting happens in the background.

        Args:
            config: The settings of any librdkafka client; those that say how to connect are used.
            producer: The application's producer, if it writes to the same cluster and is not transactional:
                no further connections then, and what arrives proves that its way is open. The application
                polls it. None: a producer of its own.
            prefix: What the names of the control topics begin with.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._settings = {"log_level": 2, **connecting(config)}
        self._connection = Connection(config)
        self._prefix = prefix
        self._start_afresh(producer)
        reset_in_children(self)

    def _start_afresh(self, borrowed: Producer | None) -> None:
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._borrowed = borrowed
        self._own: Producer | None = None
        self._position = 0
        self._found: list[tuple[bytes, bytes | None]] = []

    def reset_after_fork(self) -> None:
        """Start afresh in a forked child: the parent's clients do not work there."""
        keep_for_ever(self._consumer, self._own, self._borrowed)
        self._start_afresh(None)

    # -- reading -------------------------------------------------------------------------------------

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        """Return what was appended since the last call; see `ControlLink`."""
        topic, deadline = f"{self._prefix}changes", time.monotonic() + timeout
        if self._own is not None:
            self._own.poll(0)
        try:
            if self._consumer is None:
                self._consumer = Consumer({**self._settings, **_READING})
            self._read_to_end(self._consumer, topic, deadline)
        except (KafkaException, TimeoutError) as error:
            failure = self._connection.failure(f"can't read topic {topic}", error)
            raise ControlTopicError(f"{failure}; `kpe topics init` creates the control topics") from error
        self._connection.succeeded()
        found, self._found = self._found, []
        return found

    def _read_to_end(self, consumer: Consumer, topic: str, deadline: float) -> None:
        """Read on; what is found stays until the end is reached, because half a log tells of old times."""
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=time_left(deadline))
        if high < self._position:  # the topic was created anew
            self._position = 0
        if self._position >= high:
            return
        consumer.assign([TopicPartition(topic, 0, max(self._position, low))])
        try:
            while (message := consumer.poll(time_left(deadline))) is not None:
                if self._take(message):
                    return
        finally:
            consumer.unassign()  # else it would wait at the broker for more
        raise TimeoutError("it was not read to the end in time")

    def _take(self, message: Message) -> bool:
        """Take a message; tell whether the end is reached."""
        error, offset = message.error(), message.offset()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name
                raise KafkaException(error)
            self._position = max(self._position, offset or 0)
            return True
        self._found.append((message.key() or b"", message.value()))
        self._position = (offset or 0) + 1
        return False

    # -- writing -------------------------------------------------------------------------------------

    def publish(self, topic: Report, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
        """Hand a record over; see `ControlLink`."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            on_done(message.timestamp()[1] if error is None else None)

        try:
            _PRODUCE(self._producer(), f"{self._prefix}{topic}", value, key, on_delivery=delivered)
        except (KafkaException, BufferError, RuntimeError):  # the last: it was closed
            on_done(None)

    def _producer(self) -> Producer:
        if self._borrowed is not None:
            return self._borrowed
        with self._lock:
            if self._own is None:
                self._own = Producer({**self._settings, **_WRITING})
            return self._own

    def close(self) -> None:
        """Close the own connections. A producer of the application's is left alone."""
        if self._own is not None:
            self._own.flush(_CLOSING_S)
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        self._connection.close()
