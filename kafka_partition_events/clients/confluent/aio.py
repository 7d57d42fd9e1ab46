"""A `PartitioningProducer` for asyncio, with the interface of ``confluent_kafka.aio.AIOProducer``."""

import asyncio
import contextlib
import inspect
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from confluent_kafka import Message

from kafka_partition_events.clients.confluent import settings
from kafka_partition_events.clients.confluent.choosing import ProducerStats
from kafka_partition_events.clients.confluent.delivery_thread import Callback, DeliveryThread, Reports
from kafka_partition_events.clients.confluent.handle_metadata import CLOSED, METADATA_WAIT_S
from kafka_partition_events.clients.confluent.producer import PartitioningProducer
from kafka_partition_events.clients.flight.detour import StandbyMode
from kafka_partition_events.clients.flight.key_moves import KeysMode, MoveKeys
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.process import OwnProcess

_CALLBACKS = ("error_cb", "throttle_cb", "stats_cb")
_OF_ITS_OWN_BATCHES = ("max_workers", "executor", "batch_size", "buffer_timeout")
_LAST_S = 0.05
"""How long librdkafka may take to free what it has reported last."""

P = ParamSpec("P")
T = TypeVar("T")


def _in_a_thread(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate["AsyncPartitioningProducer", P], Coroutine[Any, Any, T]]:
    """Return a method of the producer's that blocks as one that is awaited."""

    @wraps(method)
    async def call(front: "AsyncPartitioningProducer", /, *args: P.args, **kwargs: P.kwargs) -> T:
        front._check()  # noqa: SLF001 - it becomes a method
        blocking: Callable[..., T] = getattr(front._producer, method.__name__)  # noqa: SLF001
        return await front._thread.call(blocking, *args, **kwargs)  # noqa: SLF001

    return call


class _Line:
    """One at a time, in the order in which they came."""

    def __init__(self) -> None:
        self.waiting = 0  # how many are in it: between two of them the lock is free for a moment
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        self.waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self.waiting -= 1


class AsyncPartitioningProducer:
    """`PartitioningProducer` for asyncio: its choice, its second handle, its rescue; futures of the loop.

    A record is handed to librdkafka at once, whose ``linger.ms`` fills the batches; so headers and timestamps
    are sent, and a future is done as soon as the broker has answered. A thread of its own serves librdkafka:
    while the application blocks its loop, the failure detector and rescue go on. No method blocks the loop.

    Make it on the loop, and close it there (``async with``). One that is dropped, or whose loop ends, sends
    what is queued and closes by itself, unless the process ends before. Not thread-safe, as asyncio is not.

    Attributes:
        partitioner: Who chooses.
        poller: Who follows the cluster; register listeners there.
    """

    partitioner: Partitioner
    poller: MetadataPoller

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        partitioner: Partitioner | str | None = None,
        poller: MetadataPoller | None = None,
        *,
        rescue: RescueMode | None = None,
        standby: StandbyMode = "auto",
        keys: KeysMode | MoveKeys = "stay",
        poller_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make a producer, with the arguments of `PartitioningProducer`.

        Callbacks in the settings run on the loop, and may be ``async``, but for ``oauth_cb``, which runs in a
        thread. AIOProducer's ``max_workers``, ``executor``, ``batch_size`` and ``buffer_timeout`` have no
        effect.

        Raises:
            RuntimeError: no loop runs in this thread.
            ConfigurationError: as of `PartitioningProducer`, or ``oauth_cb`` is ``async``.
            KafkaException: confluent-kafka refuses a setting.
        """
        self._reports = reports = Reports(asyncio.get_running_loop())
        self._process = OwnProcess("AsyncPartitioningProducer")
        given = settings.merged(config, kwargs)
        for name in _OF_ITS_OWN_BATCHES:
            given.pop(name, None)
        if inspect.iscoroutinefunction(given.get("oauth_cb")):
            raise ConfigurationError("oauth_cb must be a plain function: it is called in a thread")
        for name in _CALLBACKS:
            if callable(theirs := given.get(name)):
                given[name] = partial(reports.call, theirs)
        self._default: Callback | None = given.pop("on_delivery", None)
        self._producer = producer = PartitioningProducer(
            given, partitioner, poller, rescue=rescue, standby=standby,
            keys=keys, poller_options=poller_options,
        )  # fmt: skip
        self.partitioner, self.poller = producer.partitioner, producer.poller
        self._thread = DeliveryThread(producer, reports)
        self._closing = False
        self._room = _Line()  # of records that wait for room in the queue
        self._unknown: dict[str, _Line] = {}  # of those that wait for their topic
        weakref.finalize(self, self._thread.stop).atexit = False

    # -- producing -----------------------------------------------------------------------------------

    async def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = UNASSIGNED,
        callback: Callback | None = None,
        on_delivery: Callback | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> "asyncio.Future[Message]":
        """Queue a record, and return the future of its delivery.

        It waits only where the queue is full, or where the topic must be known to place a key, for 10 s at
        most. Cancelled while it waits, it has queued nothing. A future that is cancelled takes nothing back.

        Arguments are those of ``confluent_kafka.Producer.produce``. The partitioner chooses where no
        ``partition`` is given; the callback is called on the loop, and may be ``async``.

        Returns:
            The future: of the `Message` that was delivered, or with a `KafkaException`.

        Raises:
            BufferError: the queue has no room for a record of this size even if it is empty.
            KafkaException: librdkafka refuses the record; ``_UNKNOWN_TOPIC`` as of `PartitioningProducer`.
            RuntimeError: the producer is closed.
        """
        reports, producer = self._reports, self._producer
        if partition == UNASSIGNED and key is not None:
            await self._wait_until_known(topic, key, value)
        future: asyncio.Future[Message] = reports.loop.create_future()
        report = partial(reports.put, future, callback or on_delivery or self._default)
        send = partial(producer.produce, topic, value, key, partition, report, None, timestamp, headers)
        if self._room.waiting or not self._sent(send):
            async with self._room.turn():
                was_alone = False
                while not self._sent(send, is_alone=was_alone):
                    was_alone = not reports.outstanding
                    await (asyncio.sleep(_LAST_S) if was_alone else reports.news.wait())
        return future

    async def _wait_until_known(self, topic: str, key: str | bytes, value: Any) -> None:
        """Wait until a topic is known, if the key can't be placed else, and behind those that wait for that.

        One that returns goes on without a pause, so that none overtakes another.
        """
        must_wait, now = self._producer._adapter.must_wait, self._reports.loop.time  # noqa: SLF001 - ours
        if topic not in self._unknown and not must_wait(topic, key, value):
            return
        deadline = now() + METADATA_WAIT_S
        line = self._unknown.setdefault(topic, _Line())
        try:
            async with line.turn():
                if must_wait(topic, key, value):
                    await self.wait_for_topic(topic, max(0.0, deadline - now()))
        finally:
            if not line.waiting:
                self._unknown.pop(topic, None)

    def _sent(self, send: Callable[[], object], *, is_alone: bool = False) -> bool:
        """Send a record; return whether there was room for it, which one that is alone must find."""
        if self._closing:
            raise RuntimeError(CLOSED)
        try:
            send()
        except BufferError:
            if is_alone:
                raise
            return False
        self._reports.outstanding += 1  # its report is heard on this loop, so later
        return True

    async def send(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> Message:
        """Send a record, and wait until it is delivered. Arguments and errors of `produce` and its future."""
        return await (await self.produce(topic, value, key, **more))

    wait_for_topic = _in_a_thread(PartitioningProducer.wait_for_topic)

    @property
    def stats(self) -> ProducerStats:
        """What became of records whose partition was not given."""
        return self._producer.stats

    def __len__(self) -> int:
        """Return how many records have no outcome yet."""
        return self._reports.outstanding

    # -- serving -------------------------------------------------------------------------------------

    async def poll(self, timeout: float = 0) -> int:  # noqa: ASYNC109 - AIOProducer's
        """Wait until deliveries are reported, for so many seconds (-1: no limit); return how many were.

        Reports are served without it.
        """
        self._check()
        before = self._reports.settled
        await asyncio.sleep(0)
        await self._wait_while(lambda: self._reports.settled == before, timeout)
        return self._reports.settled - before

    async def flush(self, timeout: float = -1) -> int:  # noqa: ASYNC109 - AIOProducer's
        """Have batches sent at once, wait until each record has its outcome; return how many have none.

        Args:
            timeout: Seconds to wait at most; -1: no limit.
        """
        self._check()
        self._thread.flushing += 1
        try:
            await self._wait_while(lambda: self._reports.outstanding > 0, timeout)
        finally:
            self._thread.flushing -= 1
        return self._reports.outstanding

    async def _wait_while(self, holds: Callable[[], bool], limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if limit_s < 0 else limit_s):
                while holds():
                    await self._reports.news.wait()

    # -- calls that block `PartitioningProducer`, which documents them --------------------------------

    purge = _in_a_thread(PartitioningProducer.purge)
    list_topics = _in_a_thread(PartitioningProducer.list_topics)
    cluster_id = _in_a_thread(PartitioningProducer.cluster_id)
    set_sasl_credentials = _in_a_thread(PartitioningProducer.set_sasl_credentials)
    init_transactions = _in_a_thread(PartitioningProducer.init_transactions)
    begin_transaction = _in_a_thread(PartitioningProducer.begin_transaction)
    send_offsets_to_transaction = _in_a_thread(PartitioningProducer.send_offsets_to_transaction)
    commit_transaction = _in_a_thread(PartitioningProducer.commit_transaction)
    abort_transaction = _in_a_thread(PartitioningProducer.abort_transaction)

    # -- life ----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Send what is queued, and close. Idempotent; cancelled, it goes on by itself.

        Raises:
            ForkedError: the producer was made before a fork.
        """
        self._process.check()
        self._closing = True
        self._thread.stop()
        await self._thread.ended()
        await self._reports.finish()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def _check(self) -> None:
        self._process.check()
        if self._closing:
            raise RuntimeError(CLOSED)
