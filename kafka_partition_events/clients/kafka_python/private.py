"""What this library uses of kafka-python that is not public, and why.

Of kafka-python 3.0; there is no other way:

1. ``FutureRecordMetadata._produce_future``: where a record went that was not delivered.
2. ``FutureProduceResult``, ``FutureRecordMetadata.args``: a rescued record has a future of the same class.
3. ``KafkaProducer._metadata``, ``._topics``: which topics are written; what partitioners get.
4. ``KafkaProducer._closed``.
5. ``KafkaProducer._sender._client._manager``, its ``get_connection`` and ``closed``;
   ``KafkaConnection.close_future`` and ``init_future``: connections that are lost, or can't be made. Its
   ``least_loaded_node`` and ``connection_delay``: which broker is asked for metadata, and a producer id.
   ``KafkaNetClient.connection_delay``: for how long ``Sender`` waits (dpkp/kafka-python#1907).
6. ``KafkaProducer._serialize``: what was serialized here is not to be serialized by ``send``.
7. ``KafkaProducer._transaction_manager`` with ``reset_producer_id``, ``_enqueue_request``,
   ``_current_state`` and ``_lock``; ``._sender`` with ``_create_produce_requests``, ``_in_flight_batches``
   and ``_maybe_remove_from_inflight_batches``; ``._accumulator`` with ``_batches``, ``_tp_lock`` and
   ``muted``: for a producer that would send nothing any more (``idempotence.py``).
8. ``KafkaNetClient._net`` and ``._manager``, ``ClusterMetadata._manager``, ``MetadataRequest``, and of
   ``kafka.net``: ``KafkaConnectionManager.call_soon`` (thread-safe: runs a coroutine on the client's I/O
   thread), ``get_connection``, ``wait_for``, ``least_loaded_node``, ``cluster``;
   ``KafkaConnection.send_request``, ``connected``, ``parser``, ``sasl_enabled``, ``broker_version_data``:
   for leader epochs, topic ids, and topics' policies (``source.py``).
9. ``KafkaConsumer._subscription.assignment``: a partition that is taken away and given back within one poll
   begins where the group has committed, with another state (``ordered.py``).
"""

# ruff: noqa: SLF001 - that is what it is for

import random
import threading
import weakref
from collections.abc import Callable, Collection
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import RequestTimedOutError

from kafka_partition_events.clients.futures import embed
from kafka_partition_events.errors import MetadataFetchError

_PAUSE_MS: Final = 20.0


def states_of(consumer: Any) -> dict[Any, Any]:
    """Return what a consumer's partitions are; another object is another assignment of the same one."""
    return dict(consumer._subscription.assignment)


def run(manager: Any, limit_s: float, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a coroutine returns on a client's I/O thread, within so many seconds."""
    answered = threading.Event()
    future = manager.call_soon(ask, *arguments)
    future.add_both(lambda _result: answered.set())
    if not answered.wait(limit_s):
        raise MetadataFetchError(f"no answer within {limit_s:.3g} s")
    if future.exception is not None:
        raise future.exception
    return future.value


def ask_healthy(client: Any, suspects: Callable[[], Collection[int]]) -> Any:
    """Have a client ask no suspect for metadata and producer ids, as long as there are others; return it.

    By itself it asks any broker, and an idempotent producer sends nothing until that has answered: one that
    hangs holds up all until the request times out.
    """
    manager = client._manager
    kind = type(manager)

    def least_loaded_node(manager: Any) -> Any:
        node = kind.least_loaded_node(manager)
        if node not in (bad := suspects()):
            return node
        nodes = [broker.node_id for broker in manager.cluster.brokers()]
        well = [other for other in nodes if other not in bad and not manager.connection_delay(other)]
        return random.choice(well) if well else node

    embed(manager, least_loaded_node=least_loaded_node)
    return client


def pause_while_connecting(client: Any) -> Any:
    """Have a client's I/O thread pause while a connection is not ready to send; return the client.

    While one is being made, or has as many requests in flight as it may, kafka-python 3.0 tries again at
    once; and where it is to wait it takes seconds for ms. Beside a broker that hangs that is 20,000 times a
    second, for which the application's threads and a second producer's wait. What makes the connection ready
    ends the pause.
    """
    kind = type(client)

    def connection_delay(client: Any, node_id: object) -> float:
        delay_s: float = kind.connection_delay(client, node_id)
        return max(_PAUSE_MS, 1000 * delay_s)

    embed(client, connection_delay=connection_delay)
    return client


def watch_connections(
    producer: KafkaProducer, lost: Callable[[int], None], is_waited_for: Callable[[int], bool]
) -> None:
    """Call ``lost`` with the broker's id whenever a connection can't be made, or fails in use.

    That is on the producer's I/O thread: it must not block. A connection over which nothing is waited for was
    idle: a proxy or the broker closes those. Keeps no reference to the producer.
    """
    manager = producer._sender._client._manager
    kind, alive, watched = type(manager), weakref.ref(manager), weakref.WeakSet[Any]()

    def get_connection(manager: Any, node_id: object, *args: Any, **kwargs: Any) -> Any:
        connection = kind.get_connection(manager, node_id, *args, **kwargs)
        # Bootstrap connections have names for ids; which broker that is is not known.
        if isinstance(node_id, int) and connection not in watched:
            watched.add(connection)
            connection.close_future.add_errback(lambda error: closed(node_id, connection, error))
        return connection

    def closed(broker: int, connection: Any, error: BaseException) -> None:
        manager, worked = alive(), connection.init_future.succeeded()
        # kafka-python hangs up itself when an answer takes too long. Deliveries show better which broker is
        # to blame for that: this one may be waiting for a replica.
        is_no_sign = worked and (isinstance(error, RequestTimedOutError) or not is_waited_for(broker))
        if manager is not None and not manager.closed and not is_no_sign:
            lost(broker)

    embed(manager, get_connection=get_connection)
