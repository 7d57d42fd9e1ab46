"""Tells of connections that a running producer loses.

kafka-python has no public seam for it. This relies on ``KafkaProducer._sender._client._manager``, on that
connection manager's ``get_connection``, ``_conns`` and ``closed``, and on ``KafkaConnection.close_future``
and ``init_future``. Where one of them is missing there is no signal: deliveries tell as well, if later.
"""

import time
import weakref
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka.errors import RequestTimedOutError

from kafka_partition_events.log import get_logger

IDLE_S = 60.0
"""A connection that was not used for so long may have been closed for just that: it says nothing."""

_log = get_logger(__name__)


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
