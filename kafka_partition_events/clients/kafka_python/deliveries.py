"""Brings what becomes of a running producer's records and connections to its partitioner.

``send`` registers two callbacks with a record's future before the application can. Beside public names this
relies on ``FutureRecordMetadata._produce_future.topic_partition``, because a future that fails does not tell
where its record was sent.

For connections kafka-python has no public seam. This relies on ``KafkaProducer._sender._client._manager``, on
that connection manager's ``get_connection``, ``_conns`` and ``closed``, and on
``KafkaConnection.close_future`` and ``init_future``. Where one of them is missing there is no signal:
deliveries tell as well, if later.
"""

import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka.errors import BrokerResponseError, RequestTimedOutError

from kafka_partition_events.clients.reports import ProducerReports
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.routing.lanes import MAIN

SAMPLE_S = 0.00025
"""At higher rates than one record in this time, only one is tracked: it stands for its neighbours."""

IDLE_S = 60.0
"""A connection that was not used for so long may have been closed for just that: it says nothing."""

_log = get_logger(__name__)


class Reports(ProducerReports):
    """Tracks the records of one producer. Thread-safe; holds no reference to the producer.

    ``sent`` runs in the thread that sends, the rest in the producer's I/O thread, before the application's
    own callbacks.
    """

    def __init__(
        self,
        partitioner: Partitioner,
        poller: MetadataPoller,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(partitioner, poller)
        self.open = True
        self._partitioner = partitioner
        self._clock = clock
        self._next_sample = 0.0

    def sent(self, future: Any, way: int = MAIN) -> None:
        """Track a record that was just sent, unless another one was a moment ago. Never raises."""
        now = self._clock()
        if now < self._next_sample and not self._deliveries.avoiding:
            return
        try:
            topic, partition = future._produce_future.topic_partition  # noqa: SLF001 - see above
            self._track(future, topic, partition, now, way)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record has been sent
            self.open = False
            _log.warning("kafka_python_delivery_feedback_lost", error=repr(error))

    def _track(self, future: Any, topic: str, partition: int | None, now: float, way: int) -> None:
        route = self._partitioner.route(topic)
        if route is None or partition is None or not 0 <= partition < route.count:
            return
        if now < self._next_sample and not route.avoids(partition):  # a probe is always tracked
            return
        self._next_sample = now + SAMPLE_S
        self._deliveries.sent(topic, partition, *route.needs(partition), way)
        future.add_callback(functools.partial(self._delivered, topic, partition, way, now))
        future.add_errback(functools.partial(self._failed, topic, partition, way, now))
        self.heard()

    def _delivered(self, topic: str, partition: int, way: int, sent_at: float, _metadata: object) -> None:
        latency = self._clock() - sent_at
        self.emit(self._deliveries.answered(topic, partition, latency, self._name, way))
        self.heard()

    def _failed(self, topic: str, partition: int, way: int, sent_at: float, error: BaseException) -> None:
        # A broker has a time-out too, but kafka-python uses the same error for its own.
        if isinstance(error, BrokerResponseError) and not isinstance(error, RequestTimedOutError):
            self._delivered(topic, partition, way, sent_at, error)
        else:  # kafka-python's own: the broker has not answered
            self.emit(self._deliveries.failed(topic, partition, self._name, way))
            self.heard()

    def lost_connection(self, broker: int) -> None:
        """Note that the producer lost a connection, or could not make one."""
        if self.open:
            self.emit(self._deliveries.unreachable(broker, self._name))


def watch_connections(
    producer: KafkaProducer, lost: Callable[[int], None], clock: Callable[[], float] = time.monotonic
) -> Callable[[], None]:
    """Call ``lost`` with the broker's id whenever a connection fails, or can't be made.

    Args:
        producer: The producer; no reference to it is kept.
        lost: Called on the producer's I/O thread; must not block.
        clock: Monotonic seconds; for tests.

    Returns:
        What ends this.
    """
    try:
        watcher = _Watcher(producer._sender._client._manager, lost, clock)  # noqa: SLF001
    except AttributeError as error:
        _log.warning("kafka_python_connections_not_watched", error=repr(error))
        return lambda: None
    return watcher.stop


class _Watcher:
    """Stands between a connection manager and whoever asks it for a connection."""

    def __init__(self, manager: Any, lost: Callable[[int], None], clock: Callable[[], float]) -> None:
        self._manager = weakref.ref(manager)
        self._get = type(manager).get_connection
        self._lost: Callable[[int], None] | None = lost
        self._clock = clock
        self._used_at: dict[object, float] = {}
        self._watched: weakref.WeakSet[Any] = weakref.WeakSet()
        for node, connection in tuple(manager._conns.items()):  # noqa: SLF001
            self._watch(node, connection)
        manager.get_connection = self._get_connection

    def stop(self) -> None:
        """Give the manager its method back. Connections that are still watched are no longer told of."""
        self._lost = None
        manager = self._manager()
        if manager is not None and vars(manager).get("get_connection") == self._get_connection:
            del manager.get_connection

    def _get_connection(self, node_id: object, *args: Any, **kwargs: Any) -> Any:
        connection = self._get(self._manager(), node_id, *args, **kwargs)
        self._watch(node_id, connection)
        return connection

    def _watch(self, node_id: object, connection: Any) -> None:
        self._used_at[node_id] = self._clock()
        # Bootstrap connections have names for ids; whose they are is not known.
        if isinstance(node_id, int) and connection not in self._watched:
            self._watched.add(connection)
            connection.close_future.add_errback(lambda error: self._closed(node_id, connection, error))

    def _closed(self, broker: int, connection: Any, error: BaseException) -> None:
        manager, lost = self._manager(), self._lost
        if lost is None or manager is None or manager.closed:
            return
        # It hangs up itself when an answer takes too long. Deliveries tell better who is to blame for that:
        # the broker may be waiting for a replica.
        if isinstance(error, RequestTimedOutError) and connection.init_future.succeeded():
            return
        if self._clock() - self._used_at[broker] < IDLE_S:
            lost(broker)
