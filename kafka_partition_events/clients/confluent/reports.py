"""Brings what librdkafka reports to the partitioner: deliveries, lost connections, and that we listened."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message

from kafka_partition_events.clients.reports import ProducerReports
from kafka_partition_events.routing.lanes import MAIN

OnDelivery = Callable[[KafkaError | None, Message], Any]

_LOST = frozenset(
    (
        KafkaError._TRANSPORT,  # noqa: SLF001 - librdkafka's public names
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
    )
)
_BROKER = re.compile(r"/(\d+): ")
"""librdkafka names a broker as ``host:port/ID``, and says nothing else of which one an error is about."""


class Reports(ProducerReports):
    """The callbacks of one producer. They hold no reference to it: it could not be collected else.

    They run in the thread that calls ``poll`` or ``flush``, as every callback of confluent-kafka does.
    """

    def for_record(self, theirs: OnDelivery | None, way: int) -> OnDelivery:
        """Return the callback for a tracked record, which calls the application's own one."""
        if theirs is None and way == MAIN:
            return self.delivered
        return partial(self._delivered_to, theirs, way)

    def _delivered_to(
        self, theirs: OnDelivery | None, way: int, error: KafkaError | None, message: Message
    ) -> None:
        try:
            self.delivered(error, message, way)
        finally:
            if theirs is not None:
                theirs(error, message)

    def delivered(self, error: KafkaError | None, message: Message, way: int = MAIN) -> None:
        """Note a delivery report of a record that was sent on this way."""
        topic, partition = message.topic(), message.partition()
        if topic is None or partition is None:
            return
        latency = message.latency()
        if error is not None and error.code() < 0:  # librdkafka's own: the broker has not answered
            self.emit(self._deliveries.failed(topic, partition, self._name, way))
        else:
            self.emit(self._deliveries.answered(topic, partition, latency or 0.0, self._name, way))

    def client_error(self, error: KafkaError) -> None:
        """Note what librdkafka tells of its connections."""
        if error.code() in _LOST and (named := _BROKER.search(error.str())) is not None:
            self.emit(self._deliveries.unreachable(int(named[1]), self._name))
