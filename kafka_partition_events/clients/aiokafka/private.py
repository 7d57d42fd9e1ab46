"""What this library uses of aiokafka that is not public, and why. All of it: no other file does.

Of aiokafka 0.14 (``aiokafka>=0.14,<0.15``); there is no other way. A test names each.

1. ``AIOKafkaProducer._partition``: is asked with the topic of each record; ``partitioner=`` is not.
2. ``AIOKafkaProducer._message_accumulator`` and its ``add_message``, which ``send`` calls right after that,
   with headers: so ``send`` itself, serializers, checks and tracers stay as they are. Its ``_batches``,
   ``_append_batch``, ``create_builder``, ``_waiter_future``, ``_closed``, ``_exception``, and a batch's
   ``append`` and ``_drain_waiter``: to append a record now, or to know that it has to wait.
3. Its ``_batch_size``, ``_compression_type``, ``_batch_ttl``, ``_linger_time`` and ``_pending_batches``;
   ``AIOKafkaProducer._sender`` with ``_acks``, ``_retry_backoff`` and ``_request_timeout_ms``;
   ``_txn_manager``, ``_partitioner``, ``_closed``: for a second accumulator and sender over the same client.
4. ``AIOKafkaClient._get_conn``, ``_conns``, ``_get_conn_lock_value``; ``AIOKafkaConnection._on_close_cb``:
   connections that are lost, or can't be made.
5. ``AIOKafkaClient._topics``: what its metadata is asked for.
6. ``aiokafka.protocol``, for Metadata v12 (``metadata_request.py``) and DescribeConfigs
   (``source.py``).

A connection's *group* is any hashable value: so each way has connections of its own.
"""

# ruff: noqa: SLF001 - that is what it is for

import asyncio
import contextlib
import copy
import functools
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import ProducerClosed
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.producer.message_accumulator import MessageAccumulator
from aiokafka.producer.sender import Sender
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.structs import TopicPartition
from aiokafka.util import INTEGER_MAX_VALUE
from attrs import frozen

from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.clients.futures import embed
from kafka_partition_events.partitioners.base import UNASSIGNED

THEIRS = DefaultPartitioner()
"""Chooses as aiokafka does by default."""


class FullError(Exception):
    """A partition's batch is full, and has not been sent yet; ``drained`` is done once it is."""

    def __init__(self, partition: int, drained: "asyncio.Future[None]") -> None:
        super().__init__(f"the batch of partition {partition} is full")
        self.partition = partition
        self.drained = drained


@frozen
class ProducerSettings:
    """A producer's settings."""

    acks: str
    limit_s: float
    linger_s: float
    partitioner: Any
    sender: Any  # of the first way
    transaction: str | None


def settings_of(producer: AIOKafkaProducer) -> ProducerSettings:
    """Return a producer's settings."""
    sender, manager = producer._sender, producer._txn_manager
    is_transactional = manager is not None and manager.transactional_id is not None
    return ProducerSettings(
        acks="all" if sender._acks == -1 else str(sender._acks),
        limit_s=producer._request_timeout_ms / 1000,
        linger_s=accumulator_of(producer)._linger_time,
        partitioner=producer._partitioner,
        sender=sender,
        transaction="transactional_id" if is_transactional else None,
    )


def is_started(producer: AIOKafkaProducer) -> bool:
    """Return whether a producer was started, and not stopped."""
    return producer._sender.sender_task is not None and not producer._closed


async def while_sending(work: Coroutine[Any, Any, None], sender: Any) -> None:
    """Wait for what a sender has to do, or for its end: then no one does it.

    A task that is cancelled fails no record: when a loop's tasks are cancelled together, flushing has no end.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task, sender.sender_task], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])


def topics_of(client: Any) -> set[str]:
    """Return the topics that a client asks for by itself."""
    return set(client._topics)


# -- records -------------------------------------------------------------------------------------------


def accumulator_of(producer: AIOKafkaProducer) -> Any:
    """Return what collects a producer's records to batches."""
    return producer._message_accumulator


def take_records(
    producer: AIOKafkaProducer, began: Callable[[str], None], add: Callable[[Record, float], Awaitable[Any]]
) -> None:
    """Have ``add`` place and append each record whose partition the application has not given.

    It takes the record, serialized, and how many seconds it may wait, and returns the application's future.
    ``began`` is called with the topic of each record. ``send`` calls the two methods one right after the
    other, so that nothing has to be kept in between.
    """
    kind, accumulator = type(producer), accumulator_of(producer)
    theirs = type(accumulator)

    def _partition(producer: Any, topic: str, partition: int | None, *more: Any) -> int:
        began(topic)
        return UNASSIGNED if partition is None else kind._partition(producer, topic, partition, *more)

    async def add_message(
        accumulator: Any,
        tp: TopicPartition,
        key: Any,
        value: Any,
        timeout: float,  # noqa: ASYNC109 - it is theirs
        timestamp_ms: int | None = None,
        headers: Any = (),
    ) -> Any:
        if tp.partition != UNASSIGNED:
            return await theirs.add_message(accumulator, tp, key, value, timeout, timestamp_ms, headers)
        # What is kept must not change when the application's objects do.
        key, value = (None if data is None else bytes(memoryview(data)) for data in (key, value))
        return await add(Record(tp.topic, value, key, None, timestamp_ms, list(headers)), timeout)

    embed(producer, _partition=_partition)
    embed(accumulator, add_message=add_message)


def has_open_batch(accumulator: Any, topic: str, partition: int) -> bool:
    """Return whether a partition has a batch that was not sent yet."""
    return bool(accumulator._batches.get(TopicPartition(topic, partition)))


def outstanding(accumulator: Any) -> int:
    """Return how many partitions and batches have not been delivered yet. Thread-safe."""
    return len(accumulator._batches) + len(accumulator._pending_batches)


def takes_records(accumulator: Any) -> bool:
    """Return whether an accumulator was not closed, and its sender has not failed."""
    return not accumulator._closed and accumulator._exception is None


def append_now(accumulator: Any, record: Record, partition: int) -> "asyncio.Future[Any]":
    """Append a record to its partition's batch; return its future. ``add_message`` would wait for room.

    Raises:
        FullError: there is no room now.
        KafkaError: the producer was stopped, or has failed.
    """
    tp = TopicPartition(record.topic, partition)
    if accumulator._closed:
        raise ProducerClosed
    if accumulator._exception is not None:
        raise copy.copy(accumulator._exception)
    pending = accumulator._batches.get(tp)
    batch = pending[-1] if pending else accumulator._append_batch(accumulator.create_builder(), tp)
    headers = [] if record.headers is None else record.headers
    future = batch.append(record.key, record.value, record.timestamp_ms, headers=headers)
    if future is not None:
        return future  # type: ignore[no-any-return]
    if not accumulator._waiter_future.done():  # the sender is to take it
        accumulator._waiter_future.set_result(None)
    raise FullError(partition, batch._drain_waiter)


# -- a further way over the same client ----------------------------------------------------------------


class Lane:
    """A client as the sender of a further way has it: the same metadata, connections of its own."""

    def __init__(self, client: Any, group: str, suspects: Callable[[], frozenset[int]]) -> None:
        self._client = client
        self._group = group
        self._suspects = suspects

    async def send(self, node_id: int, request: Any, **_group: Any) -> Any:
        """Send a request by the connections of this way."""
        return await self._client.send(node_id, request, group=self._group)

    def get_random_node(self) -> int | None:
        """Return a broker for a new producer id: one that hangs would hold the way up."""
        nodes, suspects = [broker.nodeId for broker in self._client.cluster.brokers()], self._suspects()
        well = [node for node in nodes if node not in suspects]
        return well[0] if well else self._client.get_random_node()  # type: ignore[no-any-return]

    def hang_up(self) -> None:
        """Close the connections of this way."""
        for node, group in tuple(self._client._conns):
            if group == self._group:
                self._client._conns.pop((node, group)).close(reason=CloseReason.SHUTDOWN)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def further_way(lane: Lane, first: Any) -> tuple[Any, Any]:
    """Return an accumulator and its sender, as the first one is, but not started; with an id of its own."""
    manager = None if first._txn_manager is None else TransactionManager(None, INTEGER_MAX_VALUE)
    theirs = first._message_accumulator
    accumulator = MessageAccumulator(
        lane.cluster,
        theirs._batch_size,
        theirs._compression_type,
        theirs._batch_ttl,
        txn_manager=manager,
        linger_ms=1000 * theirs._linger_time,
    )
    sender = Sender(
        lane,
        acks=first._acks,
        txn_manager=manager,
        retry_backoff_ms=1000 * first._retry_backoff,
        message_accumulator=accumulator,
        request_timeout_ms=first._request_timeout_ms,
    )
    return accumulator, sender


# -- connections ---------------------------------------------------------------------------------------


def watch_connections(client: Any, lost: Callable[[int], None], is_waited_for: Callable[[int], bool]) -> None:
    """Have a client connect to each broker by itself, and to none while it closes.

    aiokafka has one lock for all, so one that hangs would hold up the connections to all others for
    ``request_timeout_ms``; and what is connected to while it closes would stay open.

    ``lost`` is called with the broker's id whenever a connection can't be made, or fails in use. A connection
    over which nothing is waited for was idle: a proxy or the broker closes those. One that aiokafka hangs up,
    as an answer takes too long, is no sign either: that broker may wait for a replica.
    """
    kind, watched, is_closing = type(client), weakref.WeakSet[Any](), False
    locks: defaultdict[Any, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def close(client: Any) -> None:
        nonlocal is_closing
        is_closing = True
        await kind.close(client)

    async def _get_conn(
        client: Any, node_id: Any, *, group: Any = ConnectionGroup.DEFAULT, **options: Any
    ) -> Any:
        is_known = isinstance(node_id, int) and client.cluster.broker_metadata(node_id) is not None
        if is_closing:
            return None
        async with locks[node_id, group]:
            connection = await kind._get_conn(client, node_id, group=group, **options)
        if is_closing and connection is not None:
            connection.close(reason=CloseReason.SHUTDOWN)
            return None
        if is_known and connection is None:
            lost(node_id)
        elif is_known and connection not in watched:
            watched.add(connection)
            connection._on_close_cb = functools.partial(closed, connection._on_close_cb, node_id)
        return connection

    def closed(theirs: Callable[[Any, Any], None], node_id: int, connection: Any, reason: Any) -> None:
        theirs(connection, reason)
        if reason is CloseReason.CONNECTION_BROKEN and is_waited_for(node_id):
            lost(node_id)

    embed(client, _get_conn=_get_conn, close=close)
    client._get_conn_lock_value = contextlib.nullcontext()
