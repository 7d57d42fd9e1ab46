"""A sink that writes the entries of an outbox to a Kafka topic."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.connection import Login
from kafka_partition_events.clients.librdkafka import up_to_date
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.cloudevents import RECORD_HEADERS
from kafka_partition_events.outbox import DeliveryError, Entry
from kafka_partition_events.process import OwnProcess, forget_in_children, leak

_REFUSALS: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD"})
"""Kafka's errors that the same record gets again whenever it is sent."""
_QUEUE_FULL, _TIMED_OUT = "_QUEUE_FULL", "_TIMED_OUT"

_Answers = dict[int, str | None]
"""By an entry's place: None if Kafka has it, else the name of the error."""


class KafkaSink:
    """Writes entries as CloudEvents in structured JSON mode, the key of an entry as the record's.

    `deliver` returns when Kafka has acknowledged all entries. Producing is idempotent, so what librdkafka
    sends again makes no double. What an outbox delivers again makes one, under the same id: entries behind
    one that failed may have arrived before it. As long as none fails, the entries of a key are in order.

    For the process that made it. Make the topic yourself: no sink creates topics.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str = "kpe.events",
        *,
        name: str = "kafka",
        batch: int = 500,
        timeout: float = 10.0,
    ) -> None:
        """Make a sink; nothing is sent yet.

        Args:
            config: The configuration of a confluent-kafka `Producer` for the sink alone (idempotent, with a
                ``linger.ms`` of 5, unless it says otherwise).
            topic: Where to write.
            name: What configuration, metrics and logs call the sink.
            batch: How many entries it takes at a time.
            timeout: Seconds to wait for Kafka's acknowledgements.

        Raises:
            ConfigurationError: ``topic`` is empty, ``batch`` or ``timeout`` is not above 0.
        """
        if not topic:
            raise ConfigurationError("topic must name the topic to write events to, but is empty")
        if batch < 1 or not timeout > 0:
            raise ConfigurationError(
                f"batch must be at least 1 entry and timeout more than 0 s, not {batch} and {timeout}"
            )
        self.name = name
        self.batch = batch
        self.topic = topic
        self._timeout = timeout
        self._config = config
        self._producer = self._made()
        self._closed = False
        self._process = OwnProcess(type(self).__name__)
        forget_in_children(self, KafkaSink._forget)

    def _forget(self) -> None:
        """Leave the producer to the parent, in a forked child."""
        leak(self._producer)

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Write entries in order; return when Kafka has all of them.

        Raises:
            DeliveryError: it has not. Refused is what is too large for the topic, or fails its validation.
        """
        self._process.check()
        delivered, failure = self._send(entries)
        if failure in _REFUSALS:
            # Kafka refuses, and librdkafka fails, a whole batch of records for one of them, or for their
            # size together. Sent one by one, each is judged for itself. That is slow: where it is the rule,
            # the producer's ``batch.size`` should be below the topic's ``max.message.bytes``.
            delivered, failure = self._send_each(entries, delivered)
        if failure is None:
            return
        refused, meaning = failure in _REFUSALS, self._meaning(failure)
        if not refused:
            self._renew()
        raise DeliveryError(
            f"topic {self.topic} has {delivered} of {len(entries)} entries: {meaning}",
            reason=failure.lower().lstrip("_"),
            delivered=delivered,
            refused=refused,
        )

    def close(self) -> None:
        """Close the sink's own producer. Idempotent; does nothing in a forked child."""
        if self._process.is_another:
            return
        if not self._closed:
            self._closed = True
            _discard(self._producer)

    def _meaning(self, failure: str) -> str:
        """Return what a failure means: which right is lacking, or why brokers take no login."""
        meaning = lacking(failure, [Right(("Write",), "topic", self.topic)], self._config) or failure
        if (refusal := self._login.refusal) is None:
            return meaning
        return f"{meaning} (cause: {refusal.name()}: {refusal.str()})"

    def _send(self, entries: Sequence[Entry]) -> tuple[int, str | None]:
        """Return how many entries Kafka has, from the first one on, and the error of the one after them."""
        answers: _Answers = {}
        queued, failure = 0, None
        for entry in entries:
            try:
                self._producer.produce(
                    self.topic,
                    key=entry.key,
                    value=entry.body,
                    headers={**RECORD_HEADERS},
                    on_delivery=_noting(answers, queued),
                )
            except BufferError:
                failure = _QUEUE_FULL
                break
            except KafkaException as error:
                failure = error.args[0].name()
                break
            queued += 1
        self._wait(answers, queued)
        for place in range(queued):
            if (answer := answers.get(place, _TIMED_OUT)) is not None:
                return place, answer
        return queued, failure

    def _wait(self, answers: _Answers, queued: int) -> None:
        deadline = time.monotonic() + self._timeout
        while len(answers) < queued and (left := deadline - time.monotonic()) > 0:
            self._producer.poll(left)

    def _send_each(self, entries: Sequence[Entry], first: int) -> tuple[int, str | None]:
        for place in range(first, len(entries)):
            _, failure = self._send(entries[place : place + 1])
            if failure is not None:
                return place, failure
        return len(entries), None

    def _renew(self) -> None:
        # What the old producer still holds must not arrive between entries that are delivered again, and
        # after a fatal error it would never send again.
        former = self._producer
        former.purge()
        with contextlib.suppress(KafkaException):  # of certificates that are being replaced: the next time
            self._producer = self._made()
            _discard(former)

    def _made(self) -> Producer:
        login = Login(self._config)
        usual = {"enable.idempotence": True, "linger.ms": 5, "error_cb": login.note}
        producer = Producer({**usual, **up_to_date(self._config)})
        self._login = login  # not before: if none was made, the former one's has the cause
        return producer


def _noting(answers: _Answers, place: int) -> Callable[[Any, Any], None]:
    def note(error: Any, _message: Any) -> None:
        answers[place] = None if error is None else error.name()

    return note


def _discard(producer: Producer) -> None:
    producer.purge()  # or `close` would wait until all of it is delivered
    producer.close()
