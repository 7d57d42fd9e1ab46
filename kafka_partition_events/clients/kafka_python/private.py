"""What this library uses of kafka-python that is not public, and why.

Of kafka-python 3.0; there is no other way:

1. ``FutureRecordMetadata._produce_future``: where a record went that was not delivered.
2. ``FutureProduceResult``, ``FutureRecordMetadata.args``: a rescued record has a future of the same class.
3. ``KafkaProducer._metadata``, ``._topics``: which topics are written; what partitioners get.
4. ``KafkaProducer._closed``.
5. ``KafkaProducer._sender._client._manager``, its ``get_connection``, ``_conns`` and ``closed``;
   ``KafkaConnection.close_future`` and ``init_future``: connections that are lost, or can't be made.
6. ``config["value_serializer"]`` is public, but meant to be read: serialized values are passed through.
7. ``_transaction_manager``, ``_accumulator`` and more, for a producer that would send nothing any more:
   ``idempotence.py``.
8. ``ClusterMetadata._manager`` and its loop, for leader epochs and topic ids: ``links.py``.

Where one of 1 to 4 is missing records go on without feedback; without 5 there is no signal of lost
connections: deliveries show the same, if later.
"""

import weakref
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka.errors import RequestTimedOutError

from kafka_partition_events.log import get_logger

_log = get_logger(__name__)


def partition_of(future: Any) -> int | None:
    """Return which partition a record was sent to; None if it was not sent, or that can't be known."""
    produced = getattr(future, "_produce_future", None)
    partition: int | None = getattr(produced, "topic_partition", (None, None))[1]
    return partition


def is_closed(producer: KafkaProducer) -> bool:
    """Return whether a producer was closed."""
    closed: bool = producer._closed  # noqa: SLF001
    return closed


def cluster_of(producer: KafkaProducer) -> Any:
    """Return a producer's metadata, which partitioners get as an argument; it does not keep it alive."""
    return producer._metadata  # noqa: SLF001


def topics_of(producer: KafkaProducer) -> Callable[[], set[str]]:
    """Return what lists the topics that a producer writes; it does not keep the producer alive."""
    cluster = cluster_of(producer)
    # What is written stays in `_topics`, also while an answer that lags does not list it.
    return lambda: {*cluster._topics, *cluster.topics()}  # noqa: SLF001


def watch_connections(
    producer: KafkaProducer, lost: Callable[[int], None], is_waited_for: Callable[[int], bool]
) -> Callable[[], None]:
    """Call ``lost`` with the broker's id whenever a connection can't be made, or fails in use.

    That is on the producer's I/O thread: it must not block. A connection over which nothing is waited for was
    idle: a proxy or the broker closes those. Returns what ends it; keeps no reference to the producer.
    """
    try:
        manager = producer._sender._client._manager  # noqa: SLF001
        known, get = tuple(manager._conns.items()), type(manager).get_connection  # noqa: SLF001
    except AttributeError as error:
        _log.warning("kafka_python_connections_not_watched", error=repr(error))
        return lambda: None
    alive, watched = weakref.ref(manager), weakref.WeakSet[Any]()
    ended = False

    def get_connection(node_id: object, *args: Any, **kwargs: Any) -> Any:
        connection = get(alive(), node_id, *args, **kwargs)
        watch(node_id, connection)
        return connection

    def watch(node_id: object, connection: Any) -> None:
        # Bootstrap connections have names for ids; which broker that is is not known.
        if isinstance(node_id, int) and connection not in watched:
            watched.add(connection)
            connection.close_future.add_errback(lambda error: closed(node_id, connection, error))

    def closed(broker: int, connection: Any, error: BaseException) -> None:
        manager, worked = alive(), connection.init_future.succeeded()
        # kafka-python hangs up itself when an answer takes too long. Deliveries show better which broker is
        # to blame for that: this one may be waiting for a replica.
        is_no_sign = worked and (isinstance(error, RequestTimedOutError) or not is_waited_for(broker))
        if not ended and manager is not None and not manager.closed and not is_no_sign:
            lost(broker)

    def stop() -> None:  # connections that are still watched are not reported any more
        nonlocal ended
        ended = True
        manager = alive()
        if manager is not None and vars(manager).get("get_connection") is get_connection:
            del manager.get_connection

    for node, connection in known:
        watch(node, connection)
    manager.get_connection = get_connection
    return stop
