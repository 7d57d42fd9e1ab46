"""Change control through kafka-python: the control topics, and the rebalance hook of a consumer.

kafka-python 3 calls listeners on the thread that does its I/O, where its blocking methods refuse to work; so
the hook is asynchronous, and awaits what those methods would run.
"""

import inspect
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from kafka import (
    AsyncConsumerRebalanceListener,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
)
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.kafka_python.properties import in_librdkafkas_words
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.control.agents.agent_thread import Report
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.control.agents.new_partitions import LIMIT_S, Assignments
from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.process import OwnProcess

_CONNECTING: Final = ("bootstrap_servers", "client_id", "security_protocol", "api_version", "proxy_url")
_READING: Final = {
    "group_id": None,
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
    "allow_auto_create_topics": False,
    "fetch_max_wait_ms": 10,
}
_WRITING: Final = {
    "acks": "all",
    "linger_ms": 50,
    "enable_idempotence": False,
    "allow_auto_create_topics": False,
    "max_block_ms": 1_000,
}
_CLOSING_S: Final = 1.0
_ANEW_S: Final = 3_600.0
"""How often ``kpe.changes`` is read from its beginning, which is short: a topic that was created anew and has
grown longer than the former one since then looks like the former one, as this client reports no topic ids."""


class ControlLink:
    """Reads and writes with clients of its own: the application's producer serializes in its own way.

    One thread at a time uses it.
    """

    def __init__(self, config: Mapping[str, Any], *, prefix: str = PREFIX) -> None:
        """Make a link; it connects when it is used.

        Args:
            config: The settings of any kafka-python client; those that say how to connect are used.
            prefix: What the names of the control topics begin with.
        """
        self._settings = {
            name: value
            for name, value in config.items()
            if name in _CONNECTING or name.startswith(("ssl_", "sasl_"))
        }
        self._partition = KafkaPartition(f"{prefix}changes", 0)
        self._prefix = prefix
        self._process = OwnProcess("link of change control")
        self._consumer: Any = None
        self._producer: Any = None
        self._refused: set[str] = set()
        self._position = 0
        self._anew_at = time.monotonic() + _ANEW_S
        self._found: list[tuple[bytes, bytes | None]] = []

    # -- reading -------------------------------------------------------------------------------------

    def read_changes(self, timeout: float) -> Sequence[tuple[bytes, bytes | None]]:
        """Return what was appended since the last call; see `Link`."""
        self._process.check()
        deadline = time.monotonic() + timeout
        if time.monotonic() >= self._anew_at:
            self._position, self._anew_at = 0, time.monotonic() + _ANEW_S
        try:
            if self._consumer is None:
                settings = {**self._settings, **_READING, "bootstrap_timeout_ms": _left_ms(deadline)}
                self._consumer = KafkaConsumer(**settings)
            self._read_to_end(self._consumer, deadline)
        except (KafkaError, TimeoutError) as error:
            raise self._failure(error) from error
        found, self._found = self._found, []
        return found

    def _read_to_end(self, consumer: Any, deadline: float) -> None:
        """Read on; what is found stays until the end is reached, because half a log tells of old times."""
        partition = self._partition
        end = consumer.end_offsets([partition], timeout_ms=_left_ms(deadline))[partition]
        if end < self._position:  # the topic was created anew
            self._position = 0
        if self._position >= end:
            return
        consumer.assign([partition])
        consumer.seek(partition, self._position)
        # The mark at the end of a transaction takes an offset and is no record: the position tells the end.
        while self._position < end:
            if time.monotonic() > deadline:
                raise TimeoutError("it was not read to the end in time")
            for records in consumer.poll(timeout_ms=_left_ms(deadline, 500)).values():
                self._found += [(record.key or b"", record.value) for record in records]
            self._position = consumer.position(partition, timeout_ms=_left_ms(deadline)) or self._position
        consumer.unsubscribe()  # else it would fetch on, of what was compacted meanwhile

    def _failure(self, error: Exception) -> ControlTopicError:
        topic = self._partition.topic
        if (refused := self._lacking("Read", topic, error)) is not None:
            return ControlTopicError(f"can't read topic {topic}: {refused}")
        return ControlTopicError(f"can't read topic {topic}: {error!r}; `kpe tracker init` creates it")

    def _lacking(self, operation: str, topic: str, error: object) -> str | None:
        name = str(getattr(error, "message", error))  # of kafka-python's class: Kafka's name
        return lacking(name, [Right((operation,), "topic", topic)], in_librdkafkas_words(self._settings))

    # -- writing -------------------------------------------------------------------------------------

    def publish(self, topic: Report, key: str, value: bytes, on_done: Callable[[int | None], None]) -> None:
        """Hand a record over; see `Link`. The first time it may take a second.

        That it must not be written is logged once.
        """
        name = f"{self._prefix}{topic}"

        def failed(error: object) -> None:
            refused = self._lacking("Write", name, error)
            if refused is not None and name not in self._refused:
                self._refused.add(name)
                _log.warning("control_record_refused", error=refused)
            on_done(None)

        try:
            if self._producer is None:
                self._producer = KafkaProducer(**self._settings, **_WRITING)
            future = self._producer.send(name, value, key.encode())
        except KafkaError as error:
            failed(error)
            return
        future.add_callback(lambda metadata: on_done(metadata.timestamp))
        future.add_errback(failed)

    def close(self) -> None:
        """Close the connections."""
        consumer, producer = self._consumer, self._producer
        self._consumer = self._producer = None
        if producer is not None:
            producer.close(timeout=_CLOSING_S)
        if consumer is not None:
            consumer.close(autocommit=False)


def _left_ms(deadline: float, most: int = 60_000) -> int:
    return max(50, min(most, round(1_000 * (deadline - time.monotonic()))))


_EARLIEST: Final = -2
"""The time that ListOffsets takes for "where the log begins"."""

_log = get_logger(__name__)


class RebalanceHook(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Lets a consumer begin new partitions at their beginning, whatever ``auto_offset_reset`` says.

    ::

        hook = RebalanceHook(consumer, agent)
        hook.subscribe(["orders"])  # in place of consumer.subscribe(["orders"])

    When the consumer is given partitions that are new to its group (`new_partitions` tells which), the
    beginning of each is committed before the callback returns, so that a restart keeps it, and the agent
    tells the tracker. If something fails, that is logged, the consumer begins where it would without a hook,
    and the next assignment tries again. It takes `LIMIT_S` seconds at most; heartbeats go on.

    It is a listener, for ``consumer.subscribe(..., listener=hook)`` where somebody else calls that. Not
    thread-safe: for one consumer.
    """

    def __init__(
        self, consumer: KafkaConsumer, agent: ConsumerAgent | None = None, *, listener: Any = None
    ) -> None:
        """Make a hook for one consumer.

        Args:
            consumer: The consumer.
            agent: Tells what is being changed, and is told what the consumer has. None: only what is added
                while this consumer runs is known to be new.
            listener: The application's own, of either kind; called after the hook's part.
        """
        self._consumer = consumer
        self._mine = Assignments(agent)
        self._listener = listener

    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe with this hook, after a look at how many partitions the topics have now.

        Args:
            topics: As for ``KafkaConsumer.subscribe``.

        Raises:
            KafkaError: as ``KafkaConsumer.subscribe``.
        """
        self._look(topics)
        self._consumer.subscribe(list(topics), listener=self)

    async def on_partitions_assigned(self, assigned: Iterable[KafkaPartition]) -> None:
        """Pin what is new, tell the agent, call the application's listener."""
        partitions = [TopicPartition(*tp) for tp in assigned]
        positioned: set[TopicPartition] = set()
        try:
            self._look(self._mine.unknown_topics(partitions))
            if candidates := self._mine.to_pin(partitions, ()):
                positioned = await self._pin(candidates, time.monotonic() + LIMIT_S)
        except Exception as error:  # noqa: BLE001 - a rebalance must go on, whatever we got wrong
            _log.warning("new_partitions_not_pinned", error=repr(error))
        self._mine.gained(partitions, positioned)
        await self._pass_on("on_partitions_assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[KafkaPartition]) -> None:
        """Tell the agent, call the application's listener."""
        self._mine.lost(TopicPartition(*tp) for tp in revoked)
        await self._pass_on("on_partitions_revoked", revoked)

    async def on_partitions_lost(self, lost: Iterable[KafkaPartition]) -> None:
        """Tell the agent, call the application's listener."""
        self._mine.lost(TopicPartition(*tp) for tp in lost)
        await self._pass_on("on_partitions_lost", lost)

    async def _pass_on(self, method: str, partitions: Iterable[KafkaPartition]) -> None:
        if self._listener is not None:
            result = getattr(self._listener, method)(partitions)
            if inspect.isawaitable(result):
                await result

    # -- asking --------------------------------------------------------------------------------------

    def _look(self, topics: Iterable[str]) -> None:
        """Count partitions; an assigned topic is in the consumer's metadata, so nothing is asked then."""
        cluster_id = getattr(self._consumer._cluster, "cluster_id", None)  # noqa: SLF001
        for topic in topics:
            try:
                partitions = self._consumer.partitions_for_topic(topic)
            except (KafkaError, RuntimeError) as error:
                _log.warning("partitions_not_counted", topic=topic, error=repr(error))
                return
            if partitions:
                self._mine.knows(topic, len(partitions), cluster_id)

    async def _pin(self, new: list[TopicPartition], deadline: float) -> set[TopicPartition]:
        """Commit the beginning of those without a commit; return all that have one now."""
        coordinator: Any = self._consumer._coordinator  # noqa: SLF001
        fetcher: Any = self._consumer._fetcher  # noqa: SLF001
        partitions = [KafkaPartition(*tp) for tp in new]
        known = await coordinator.fetch_committed_offsets_async(partitions, _left_ms(deadline))
        committed = {TopicPartition(*tp) for tp, at in known.items() if at.offset >= 0}
        pinned = [KafkaPartition(*tp) for tp in self._mine.to_pin(new, committed)]
        if not pinned:
            return committed
        times = dict.fromkeys(pinned, _EARLIEST)
        begins = await fetcher._fetch_offsets_by_times_async(times, _left_ms(deadline))  # noqa: SLF001
        offsets = {tp: OffsetAndMetadata(begins[tp].offset, "", -1) for tp in pinned}
        await coordinator._commit_offsets_sync_async(offsets, _left_ms(deadline))  # noqa: SLF001
        return committed.union(self._mine.to_pin(new, committed))
