"""Sends unkeyed records again that timed out or are stuck on a suspect broker (``rescue=``).

Delivery callbacks must not re-enter ``poll`` or ``flush`` (confluent-kafka aborts the process), so they only
queue what is to be sent again; the producer drains the queue after ``poll`` has returned.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from kafka_partition_events.clients.confluent.reports import OnDelivery, Reports
from kafka_partition_events.clients.confluent.settings import only_errors_are_reported
from kafka_partition_events.clients.held import Account, Held, hedgeable
from kafka_partition_events.clients.rescue import (
    Headers,
    Ids,
    RescueLimits,
    RescueMode,
    copy_headers,
    original_headers,
)
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.routing.table import Route

_TIMED_OUT = frozenset(
    (
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - librdkafka's public names
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
    )
)

_PURGED = KafkaError(KafkaError._PURGE_QUEUE)  # noqa: SLF001


class Rescue:
    """The rescue of one producer, to which it holds no reference. Thread-safe."""

    def __init__(self, mode: RescueMode, limits: RescueLimits, reports: Reports) -> None:
        self.account = Account(limits)
        self._hedging = mode == "hedge"
        self._reports = reports
        self._ids = Ids()

    # -- sending -------------------------------------------------------------------------------------

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
            id=self._ids.next(),
            home=None,
            outcome=theirs,
        )
        return held if self.account.admit(held) else None

    def headers(self, held: Held) -> Headers:
        """Return the headers for a record's next attempt."""
        if held.attempts == 0:
            return original_headers(held.headers, held.id)
        return copy_headers(held.headers, held.id, held.home, held.attempts + 1)

    def placing(self, held: Held, partition: int, way: int) -> OnDelivery:
        """Note that a record is being sent to a partition; return the callback for it."""
        if held.home is None and partition >= 0:
            held.home = partition
        self.account.place(held, partition, way)
        return partial(self._reported, held, partition, way)

    def drain(self, send: Callable[[Held], None]) -> None:
        """Send what is queued; what finds the producer's queue full stays for the next time.

        A copy that can't be sent, for whatever reason (a chooser of the application's that raises, a handle
        that was closed), leaves its record with the outcome that it had, unless another one is on its way.
        """
        while (held := self.account.take()) is not None:
            if held.purged:
                self._refused(held, KafkaException(_PURGED))
                continue
            try:
                send(held)
            except BufferError:
                self.account.put_back(held)
                break
            except Exception as error:  # noqa: BLE001 - see above
                self._refused(held, error)
            except BaseException:  # a signal's
                self.account.put_back(held)
                raise
        self._reports.emit(self.account.take_events())

    def _refused(self, held: Held, error: Exception) -> None:
        if self.account.refused(held, error) and held.error is not None:
            failed, message = held.error.args  # how the original had failed
            self._settle(held, _PURGED if held.purged else failed, message)

    # -- hearing -------------------------------------------------------------------------------------

    def hedge(self, route: Callable[[str], Route | None]) -> None:
        """Queue copies of the records that are stuck, of topics where a copy would not be stuck as well."""
        if self._hedging and ((stuck := self._reports.stuck()) or self.account.is_short):
            self.account.hedge(hedgeable(stuck, route))

    def _reported(
        self, held: Held, partition: int, way: int, error: KafkaError | None, message: Message
    ) -> None:
        try:
            if partition >= 0:  # else librdkafka chose, and no account was kept
                self._reports.delivered(error, message, way)
        finally:
            if held.home is None and error is not None:  # librdkafka chose, and tells by now
                held.home = message.partition()
            if error is None:
                decided = self.account.delivered(held, partition, way)
            else:
                worth_a_copy = error.code() in _TIMED_OUT
                cause = KafkaException(error, message)
                decided = self.account.failed(held, partition, cause, worth_a_copy=worth_a_copy, way=way)
            if decided:
                self._settle(held, error, message)

    def _settle(self, held: Held, error: KafkaError | None, message: Message) -> None:
        self.account.settled(held)
        if held.outcome is not None:
            held.outcome(error, message)


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
