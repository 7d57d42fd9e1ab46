"""A sink that writes the entries of an outbox to a Kafka topic."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.connection import Login
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.cloudevents import RECORD_HEADERS
from kafka_partition_events.metadata.forking import keep_for_ever, reset_in_children
from kafka_partition_events.outbox import DeliveryError, Entry, Stream
from kafka_partition_events_listeners.kafka_events import make_producer
from kafka_partition_events_listeners.redaction import fields_of, redacted

_REFUSALS: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "FORMAT"})
"""Kafka's errors that the same record gets again whenever it is sent; and ours, if it can't be redacted."""
_QUEUE_FULL, _TIMED_OUT, _FORMAT = "_QUEUE_FULL", "_TIMED_OUT", "FORMAT"
_POLL_S = 0.1

_Answers = dict[int, str | None]
"""By an entry's place: None if Kafka has it, else the name of the error."""


class KafkaSink:
    """Writes entries as CloudEvents in structured JSON mode: the records that `KafkaEventListener` writes.

    `deliver` returns when Kafka has acknowledged all entries. Producing is idempotent, so what librdkafka
    sends again makes no double. What an outbox delivers again makes one, under the same id: entries behind
    one that failed may have arrived before it. As long as none fails, the entries of a key are in order.

    For the process that made it: no librdkafka producer survives a fork. Make the topic yourself: no sink
    creates topics.
    """

    def __init__(
        self,
        producer: Producer | Mapping[str, Any],
        topic: str = "kpe.events",
        *,
        name: str = "kafka",
        stream: Stream = Stream.EVENTS,
        batch: int = 500,
        timeout: float = 10.0,
        redact: Iterable[str] = (),
    ) -> None:
        """Make a sink; nothing is sent yet.

        Args:
            producer: The configuration of a confluent-kafka `Producer` for the sink alone (idempotent unless
                it says otherwise), or a producer that stays yours to look after: what it has not delivered
                in time stays in its queue, and is then delivered beside its own repetition.
            topic: Where to write.
            name: What configuration, metrics and logs call the sink.
            stream: The lane it is fed from.
            batch: How many entries it takes at a time.
            timeout: Seconds to wait for Kafka's acknowledgements.
            redact: What is left out of records, as of a `WebhookSink`.

        Raises:
            ConfigurationError: ``topic`` is empty, ``batch`` or ``timeout`` is not above 0, or ``redact`` has
                what can't be left out.
        """
        if not topic:
            raise ConfigurationError("topic must name the topic to write events to, but is empty")
        if batch < 1 or not timeout > 0:
            raise ConfigurationError(
                f"batch must be at least 1 entry and timeout more than 0 s, not {batch} and {timeout}"
            )
        self.name = name
        self.stream = stream
        self.batch = batch
        self.topic = topic
        self._timeout = timeout
        self._left_out = fields_of(redact)
        self._login: Login | None = None
        self._config = producer if isinstance(producer, Mapping) else None
        self._producer = self._made(producer) if isinstance(producer, Mapping) else producer
        reset_in_children(self)

    def reset_after_fork(self) -> None:
        """Let a forked child end without closing or destroying the producer, which would hang there."""
        self._config = None
        keep_for_ever(self._producer)

    def deliver(self, entries: Sequence[Entry], /) -> None:
        """Write entries in order; return when Kafka has all of them.

        Raises:
            DeliveryError: it has not. Refused is what is too large for the topic, or fails its validation.
        """
        delivered, failure = self._send(entries)
        if failure in _REFUSALS:
            # Kafka refuses, and librdkafka fails, a whole batch of records for one of them, or for their
            # size together. Sent one by one, each is judged for itself. That is slow: where it is the rule,
            # the producer's ``batch.size`` should be below the topic's ``max.message.bytes``.
            delivered, failure = self._send_each(entries, delivered)
        if failure is None:
            return
        refused, told = failure in _REFUSALS, self._told(failure)
        if not refused and self._config is not None:
            self._renew(self._config)
        raise DeliveryError(
            f"topic {self.topic} has {delivered} of {len(entries)} entries: {told}",
            reason=failure.lower().lstrip("_"),
            delivered=delivered,
            refused=refused,
        )

    def close(self) -> None:
        """Close the sink's own producer. Idempotent."""
        config, self._config = self._config, None
        if config is not None:
            _discard(self._producer)

    def _told(self, failure: str) -> str:
        """Return what a failure means: which right is lacking, or why brokers take no login."""
        told = lacking(failure, [Right(("Write",), "topic", self.topic)], self._config) or failure
        if self._login is None or (refusal := self._login.refusal) is None:
            return told
        return f"{told} (cause: {refusal.name()}: {refusal.str()})"

    def _send(self, entries: Sequence[Entry]) -> tuple[int, str | None]:
        """Return how many entries Kafka has, from the first one on, and the error of the one after them."""
        answers: _Answers = {}
        queued, failure = 0, None
        for entry in entries:
            try:
                self._producer.produce(
                    self.topic,
                    key=entry.key,
                    value=redacted(entry, self._left_out).body,
                    headers={**RECORD_HEADERS},
                    on_delivery=_noting(answers, queued),
                )
            except BufferError:
                failure = _QUEUE_FULL
                break
            except KafkaException as error:
                failure = error.args[0].name()
                break
            except (ValueError, RecursionError):
                failure = _FORMAT
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
            # In short turns: a producer of the application's own may be served by a thread of its own.
            self._producer.poll(min(left, _POLL_S))

    def _send_each(self, entries: Sequence[Entry], first: int) -> tuple[int, str | None]:
        for place in range(first, len(entries)):
            _, failure = self._send(entries[place : place + 1])
            if failure is not None:
                return place, failure
        return len(entries), None

    def _renew(self, config: Mapping[str, Any]) -> None:
        # What the old producer still holds must not arrive between entries that are delivered again, and
        # after a fatal error it would never send again.
        former = self._producer
        former.purge()
        with contextlib.suppress(KafkaException):  # of certificates that are being replaced: the next time
            self._producer = self._made(config)
            _discard(former)

    def _made(self, config: Mapping[str, Any]) -> Producer:
        self._login = Login(config)
        return make_producer({"error_cb": self._login.note, **config})


def _noting(answers: _Answers, place: int) -> Callable[[Any, Any], None]:
    def note(error: Any, _message: Any) -> None:
        answers[place] = None if error is None else error.name()

    return note


def _discard(producer: Producer) -> None:
    producer.purge()  # or `close` would wait until all of it is delivered
    producer.close()
