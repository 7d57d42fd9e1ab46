"""The control topics through kafka-python."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from kafka_partition_events.control.link import Report
from kafka_partition_events.control.topics import PREFIX
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.metadata.forking import keep_for_ever, reset_in_children

_CONNECTING: Final = ("bootstrap_servers", "client_id", "security_protocol", "api_version", "proxy_url")
_READING: Final = {
    "group_id": None,
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
    "allow_auto_create_topics": False,
    "fetch_max_wait_ms": 10,
}
_WRITING: Final = {
    "acks": "all",
    "linger_ms": 50,
    "enable_idempotence": False,
    "allow_auto_create_topics": False,
    "max_block_ms": 1_000,
}
_CLOSING_S: Final = 1.0


class KafkaPythonControlLink:
    """Reads and writes with clients of its own: the application's producer serializes in its own way.

    One thread at a time uses it. In a forked child it connects anew.
    """

    def __init__(self, config: Mapping[str, Any], *, prefix: str = PREFIX) -> None:
        """Make a link; it connects when it is used.

        Args:
            config: The settings of any kafka-python client; those that say how to connect are used.
            prefix: What the names of the control topics begin with.
        """
        self._settings = {
            name: value
            for name, value in config.items()
            if name in _CONNECTING or name.startswith(("ssl_", "sasl_"))
        }
        self._partition = TopicPartition(f"{prefix}changes", 0)
        self._prefix = prefix
        self._start_afresh()
        reset_in_children(self)

    def _start_afresh(self) -> None:
        self._consumer: Any = None
        self._producer: Any = None
        self._position = 0
        self._found: list[tuple[bytes, bytes | None]] = []

    def reset_after_fork(self) -> None:
        """Start afresh in a forked child: the parent's clients do not work there."""
        keep_for_ever(self._consumer, self._producer)
        self._start_afresh()

    # -- reading -------------------------------------------------------------------------------------

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        """Return what was appended since the last call; see `ControlLink`."""
        deadline = time.monotonic() + timeout
        try:
            if self._consumer is None:
                settings = {**self._settings, **_READING, "bootstrap_timeout_ms": _left_ms(deadline)}
                self._consumer = KafkaConsumer(**settings)
            self._read_to_end(self._consumer, deadline)
        except (KafkaError, TimeoutError) as error:
            raise ControlTopicError(
                f"can't read topic {self._partition.topic}: {error!r}; `kpe topics init` creates it"
            ) from error
        found, self._found = self._found, []
        return found

    def _read_to_end(self, consumer: Any, deadline: float) -> None:
        """Read on; what is found stays until the end is reached, because half a log tells of old times."""
        partition = self._partition
        end = consumer.end_offsets([partition], timeout_ms=_left_ms(deadline))[partition]
        if end < self._position:  # the topic was created anew
            self._position = 0
        if self._position >= end:
            return
        consumer.assign([partition])
        consumer.seek(partition, self._position)
        # The mark at the end of a transaction takes an offset and is no record: the position tells the end.
        while self._position < end:
            if time.monotonic() > deadline:
                raise TimeoutError("it was not read to the end in time")
            for records in consumer.poll(timeout_ms=_left_ms(deadline, 500)).values():
                self._found += [(record.key or b"", record.value) for record in records]
            self._position = consumer.position(partition, timeout_ms=_left_ms(deadline)) or self._position
        consumer.unsubscribe()  # else it would fetch on, of what was compacted meanwhile

    # -- writing -------------------------------------------------------------------------------------

    def publish(self, topic: Report, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
        """Hand a record over; see `ControlLink`. The first time it may take a second."""
        try:
            if self._producer is None:
                self._producer = KafkaProducer(**self._settings, **_WRITING)
            future = self._producer.send(f"{self._prefix}{topic}", value, key.encode())
        except KafkaError:
            on_done(None)
            return
        future.add_callback(lambda metadata: on_done(metadata.timestamp))
        future.add_errback(lambda _error: on_done(None))

    def close(self) -> None:
        """Close the connections."""
        consumer, producer = self._consumer, self._producer
        self._consumer = self._producer = None
        if producer is not None:
            producer.close(timeout=_CLOSING_S)
        if consumer is not None:
            consumer.close(autocommit=False)


def _left_ms(deadline: float, most: int = 60_000) -> int:
    return max(50, min(most, round(1_000 * (deadline - time.monotonic()))))
