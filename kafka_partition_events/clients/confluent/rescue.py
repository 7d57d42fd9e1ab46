"""Sends unkeyed records again that timed out or are stuck on a suspect broker (``rescue=``).

Delivery callbacks must not re-enter ``poll`` or ``flush`` (confluent-kafka aborts the process), so they only
queue what is to be sent again; the producer drains the queue after ``poll`` has returned.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException, Message

from kafka_partition_events.clients.confluent.reports import OnDelivery, Reports
from kafka_partition_events.clients.confluent.settings import only_errors_are_reported
from kafka_partition_events.clients.held import Engine, Held
from kafka_partition_events.clients.rescue import Headers
from kafka_partition_events.errors import ConfigurationError

_TIMED_OUT = frozenset(
    (
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - librdkafka's public names
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
    )
)

_PURGED = KafkaError(KafkaError._PURGE_QUEUE)  # noqa: SLF001


class Rescue(Engine):
    """The rescue of one producer, which it does not keep alive. Thread-safe."""

    no_room: ClassVar = (BufferError,)
    _reports: Reports

    def hold(
        self, topic: str, value: str | bytes | None, headers: Any, timestamp: int, theirs: OnDelivery | None
    ) -> Held | None:
        """Keep a record that is about to be sent for the first time; None when too much is kept already."""
        held = Held(
            topic=topic,
            data=value,
            headers=as_list(headers),
            # The copy is to have the time of the original, which librdkafka does not tell of a failed record.
            timestamp_ms=timestamp or int(time.time() * 1000),
            id=self.new_id(),
            home=None,
            outcome=theirs,
        )
        return held if self.account.admit(held) else None

    def placing(self, held: Held, partition: int, way: int) -> OnDelivery:
        """Note that a record is being sent to a partition; return the callback for it."""
        if held.home is None and partition >= 0:
            held.home = partition
        self.account.place(held, partition, way)
        return partial(self._reported, held, partition, way)

    def drain(self, send: Callable[[Held], None]) -> None:
        """Send what is queued, but for what was purged there; see `Engine.drain`."""
        super().drain(partial(_unless_purged, send))

    def _reported(
        self, held: Held, partition: int, way: int, error: KafkaError | None, message: Message
    ) -> None:
        try:
            if partition >= 0:  # else librdkafka chose, and no account was kept
                self._reports.delivered(error, message, way)
        finally:
            if error is None:
                self.delivered(held, partition, way, message)
            else:
                if held.home is None:  # librdkafka chose, and tells by now
                    held.home = message.partition()
                cause, worth_a_copy = KafkaException(error, message), error.code() in _TIMED_OUT
                self.failed(held, partition, way, cause, worth_a_copy=worth_a_copy)

    def _tell(self, held: Held, arrived: Message | None) -> None:
        if held.outcome is None:
            return
        if arrived is None and held.error is not None:
            held.outcome(*held.error.args)  # the error and the message, of `_reported` or `_unless_purged`
        else:
            held.outcome(None, arrived)


def _unless_purged(send: Callable[[Held], None], held: Held) -> None:
    if not held.purged:
        send(held)
        return
    if held.error is not None and not held.on_the_way:  # it has failed, and is told as purged
        held.error = KafkaException(_PURGED, held.error.args[1])
    raise KafkaException(_PURGED)


def refuse_with(config: Mapping[str, Any]) -> None:
    """Raise where a rescue would break what a setting promises.

    Raises:
        ConfigurationError: the producer is transactional, or keeps good delivery reports to itself.
    """
    if config.get("transactional.id") is not None:
        raise ConfigurationError(
            "rescue can't be used with transactional.id: a copy may arrive beside its original, and a "
            "transaction promises exactly one. Leave rescue out; abort and retry a transaction that fails"
        )
    if only_errors_are_reported(config):
        raise ConfigurationError(
            "rescue can't be used with delivery.report.only.error: it must hear of every delivery to know "
            "which records are stuck. Remove the setting"
        )


def as_list(headers: Any) -> Headers:
    """Return headers, in any form that confluent-kafka takes, as a list of our own."""
    if not headers:
        return []
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)
