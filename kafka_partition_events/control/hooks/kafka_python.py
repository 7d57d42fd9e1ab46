"""The rebalance hook of kafka-python.

kafka-python 3 calls listeners on the thread that does its I/O, where its blocking methods refuse to work; so
the hook is asynchronous, and awaits what those methods would run.
"""

import inspect
import time
from collections.abc import Collection, Iterable
from typing import Any, Final

from kafka import (
    AsyncConsumerRebalanceListener,
    KafkaConsumer,
    OffsetAndMetadata,
)
from kafka import TopicPartition as KafkaPartition
from kafka.errors import KafkaError

from kafka_partition_events.control.consumer_agent import ConsumerAgent
from kafka_partition_events.control.hooks.assignments import LIMIT_S, Assignments
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import TopicPartition

_EARLIEST: Final = -2
"""The time that ListOffsets takes for "where the log begins"."""

_log = get_logger(__name__)


class RebalanceHook(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Lets a consumer begin new partitions at their beginning, whatever ``auto_offset_reset`` says.

    ::

        hook = RebalanceHook(consumer, agent)
        hook.subscribe(["orders"])  # in place of consumer.subscribe(["orders"])

    When the consumer is given partitions that are new to its group (`control.pinning` tells which), the
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


def _left_ms(deadline: float) -> int:
    return max(50, round(1_000 * (deadline - time.monotonic())))
