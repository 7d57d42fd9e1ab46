"""Hands out each key's records in their order from a ``kafka.KafkaConsumer``, although keys move."""

import time
from collections.abc import Iterator
from typing import Any, Self

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from kafka_partition_events.clients.kafka_python.private import states_of
from kafka_partition_events.clients.ordered.asking import ASK_S, SLICE_S, OnTimeout, Waits
from kafka_partition_events.clients.ordered.order import EnquiryAnswer, NextRecord, Order, Question

_ASK_MS = int(1000 * ASK_S)
_NOT_OURS = (
    "group_instance_id",
    "enable_auto_commit",
    "isolation_level",
    "key_deserializer",
    "value_deserializer",
)


def ordered(
    consumer: KafkaConsumer, *, max_wait_ms: int = 300_000, on_timeout: OnTimeout = "deliver"
) -> "OrderedReader":
    """Return a consumer that hands out each key's records in their order, although keys move.

    What waits for what, and how long, is as with `clients.confluent.OrderedConsumer`. Where a record waits,
    the position is set back to it, and it is fetched again each 20 ms: so commits of either kind include
    only what was handed out, and a rebalance loses nothing. (A pause could stop the partition for good:
    kafka-python 3.0.12 parks what it has fetched, and may not find it again.) Iteration counts a record as
    processed when it asks for the next one, and commits as `poll` of one record does. Use nothing but the
    result from then on. With few records a lower ``fetch_max_wait_ms`` (500) makes waits shorter.

    Args:
        consumer: The consumer, subscribed or not. The result has all its methods.
        max_wait_ms: After so long a wait ends.
        on_timeout: How it ends: ``deliver`` (logged as a warning) or ``raise`` (``KafkaTimeoutError``).

    Raises:
        ConfigurationError: ``on_timeout`` is neither.
    """
    return OrderedReader(consumer, max_wait_ms / 1000, on_timeout)


class OrderedReader:
    """What `ordered` returns. Not thread-safe, as the consumer itself."""

    def __init__(self, consumer: KafkaConsumer, max_wait: float, on_timeout: OnTimeout) -> None:
        self._consumer, self._order = consumer, Order(max_wait)
        self._waits = Waits(self._order, lambda: _KafkaPythonEnquirer(consumer.config), on_timeout)
        self._assigned: dict[TopicPartition, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[Any]]:
        """Return records that may be handed out; see ``KafkaConsumer.poll``.

        Raises:
            KafkaTimeoutError: a wait was too long, with ``on_timeout="raise"``; it begins again.
        """
        now = time.monotonic()
        deadline = now + timeout_ms / 1000
        while True:
            self._settle()
            if self._order.heads and (why := self._waits.turn(now)) is not None:
                raise KafkaTimeoutError(why)
            left = max(0.0, deadline - now)
            wait = min(left, SLICE_S) if self._order.heads else left
            fetched = self._consumer.poll(timeout_ms=1000 * wait, max_records=max_records)
            try:
                self._follow()
                now = time.monotonic()
                given = {each: self._ordered(each, records, now) for each, records in fetched.items()}
            except BaseException:  # a signal handler's: what was fetched is not handed out, so it comes again
                for each, records in fetched.items():
                    self.seek(each, records[0].offset)
                raise
            if any(given.values()) or now >= deadline:
                return {each: records for each, records in given.items() if records}
            time.sleep(min(SLICE_S, deadline - now) if self._order.heads else 0)

    def _settle(self) -> None:
        self._order.settle()
        self._follow()
        awaited = self._order.awaited()
        for each in [each for each in self._assigned if each in awaited]:  # all below is behind us
            if (position := self._consumer.position(each, timeout_ms=0)) is not None:
                self._order.reached(each, position)
        self._order.settle()

    def _follow(self) -> None:
        """Forget what is not assigned any more, or was not for a moment: it may be read again."""
        assigned = states_of(self._consumer)
        gone = [each for each, state in self._assigned.items() if assigned.get(each) is not state]
        if gone:
            self._order.forget(gone)
        self._assigned = assigned

    def _ordered(self, partition: TopicPartition, records: list[Any], now: float) -> list[Any]:
        given = []
        for record in records:
            verdict = self._order.judge(partition, record.offset, record.headers, now)
            if verdict is NextRecord.WAIT:
                self._consumer.seek(partition, record.offset)
                break
            if verdict is NextRecord.GIVE:
                given.append(record)
        return given

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(autocommit=kind is None)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Return the next record that may be handed out; ends after ``consumer_timeout_ms``."""
        limit = self._consumer.config["consumer_timeout_ms"]
        end = time.monotonic() + limit / 1000 if limit >= 0 else float("inf")
        while (left := end - time.monotonic()) > 0:
            for records in self.poll(1000 * min(left, 1.0), max_records=1).values():
                return records[0]
        raise StopIteration

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See ``KafkaConsumer.seek``."""
        self._consumer.seek(partition, offset)
        self._order.starts(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """See ``KafkaConsumer.seek_to_beginning``."""
        self._consumer.seek_to_beginning(*partitions)
        for each in partitions or self._consumer.assignment():
            self._order.starts(each, 0)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """See ``KafkaConsumer.seek_to_end``."""
        self._consumer.seek_to_end(*partitions)
        for each in partitions or self._consumer.assignment():
            self._order.starts(each, None)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """See ``KafkaConsumer.close``."""
        self._waits.close()
        self._consumer.close(*args, **kwargs)


class _KafkaPythonEnquirer:
    """A client beside the consumer: in no group, and it sees what open transactions hide."""

    def __init__(self, config: dict[str, Any]) -> None:
        made: list[Any] = []

        def client(**settings: Any) -> Any:
            made.append(config["kafka_client"](**settings))
            return made[-1]

        plain = {name: value for name, value in config.items() if name not in _NOT_OURS}
        plain |= {"kafka_client": client, "bootstrap_timeout_ms": _ASK_MS, "enable_auto_commit": False}
        try:
            self._client = KafkaConsumer(**plain)
        except BaseException:
            for each in made:  # its thread and connections would stay, and no one has it
                each.close()
            raise

    def ask(self, question: Question) -> EnquiryAnswer:
        committed, log = {}, None
        for place in question.committed:
            offset = self._client.committed(TopicPartition(*place), timeout_ms=_ASK_MS)
            committed[place] = -1 if offset is None else offset
        if question.log is not None:
            log = self._log(TopicPartition(*question.log))
        return EnquiryAnswer(committed, log)

    def _log(self, partition: TopicPartition) -> tuple[int, int] | None:
        if partition.partition not in (self._client.partitions_for_topic(partition.topic) or ()):
            return 0, 0
        try:
            begins = self._client.beginning_offsets([partition], timeout_ms=_ASK_MS)
            ends = self._client.end_offsets([partition], timeout_ms=_ASK_MS)
        except KafkaTimeoutError:
            return None
        return begins[partition], ends[partition]

    def close(self) -> None:
        self._client.close()
