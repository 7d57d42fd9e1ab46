"""The rebalance hook of confluent-kafka."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_partition_events.control.consumer_agent import ConsumerAgent
from kafka_partition_events.control.hooks.assignments import LIMIT_S, Assignments
from kafka_partition_events.metadata.cluster import TopicPartition

Callback = Callable[[Consumer, list[ConfluentPartition]], Any]

_EARLIEST: Final = -2
"""The time that ListOffsets takes for "where the log begins"."""

_log = structlog.get_logger(__name__)


class RebalanceHook:
    """Lets a consumer begin new partitions at their beginning, whatever ``auto.offset.reset`` says.

    ::

        hook = RebalanceHook(agent)
        hook.subscribe(consumer, ["orders"])  # in place of consumer.subscribe(["orders"])

    When the consumer is given partitions that are new to its group (`control.pinning` tells which), the
    beginning of each is committed before the callback returns, so that a restart keeps it, and the agent
    tells the tracker. Classic groups, eager or cooperative, and those of KIP-848. If something fails, that is
    logged, the consumer begins where it would without a hook, and the next assignment tries again.

    The callbacks are for ``Consumer.subscribe`` where somebody else calls it. They ask brokers only about
    partitions that may be new, for `LIMIT_S` seconds in all; the commit, which librdkafka gives no limit of
    time, comes after the group's coordinator and the partitions' leaders have answered.

    Not thread-safe: for one consumer, which calls it within ``poll`` and ``close``.
    """

    def __init__(
        self,
        agent: ConsumerAgent | None = None,
        *,
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Make a hook for one consumer.

        Args:
            agent: Tells what is being changed, and is told what the consumer has. None: only what is added
                while this consumer runs is known to be new.
            on_assign: The application's own callback, called after the hook's part.
            on_revoke: Likewise.
            on_lost: Likewise; None: ``on_revoke`` is called, as confluent-kafka does.
        """
        self._mine = Assignments(agent)
        self._on_assign = on_assign
        self._on_revoke = on_revoke
        self._on_lost = on_lost or on_revoke

    def subscribe(self, consumer: Consumer, topics: Sequence[str]) -> None:
        """Subscribe with this hook, after a look at how many partitions the topics have now.

        Args:
            consumer: The consumer.
            topics: As for ``Consumer.subscribe``; patterns ("^...") are looked at when they are assigned.

        Raises:
            KafkaException: as ``Consumer.subscribe``.
        """
        named = [topic for topic in topics if not topic.startswith("^")]
        self._look(consumer, named, time.monotonic() + LIMIT_S)
        consumer.subscribe(
            list(topics), on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost
        )

    def on_assign(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        """Pin what is new, tell the agent, call the application's callback."""
        assigned = _plain(partitions)
        deadline = time.monotonic() + LIMIT_S
        positioned: set[TopicPartition] = set()
        try:
            self._look(consumer, self._mine.unknown_topics(assigned), deadline)
            if candidates := self._mine.to_pin(assigned, ()):
                positioned = self._pin(consumer, candidates, deadline)
        except Exception as error:  # noqa: BLE001 - a rebalance must go on, whatever we got wrong
            _log.warning("new_partitions_not_pinned", error=repr(error))
        self._mine.gained(assigned, positioned)
        if self._on_assign is not None:
            self._on_assign(consumer, partitions)

    def on_revoke(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        """Tell the agent, call the application's callback."""
        self._mine.lost(_plain(partitions))
        if self._on_revoke is not None:
            self._on_revoke(consumer, partitions)

    def on_lost(self, consumer: Consumer, partitions: list[ConfluentPartition]) -> None:
        """Tell the agent, call the application's callback."""
        self._mine.lost(_plain(partitions))
        if self._on_lost is not None:
            self._on_lost(consumer, partitions)

    # -- asking --------------------------------------------------------------------------------------

    def _look(self, consumer: Consumer, topics: Iterable[str], deadline: float) -> None:
        for topic in topics:
            try:
                found = consumer.list_topics(topic, timeout=_left(deadline))
            except KafkaException as error:
                _log.warning("partitions_not_counted", topic=topic, error=repr(error))
                return
            metadata = found.topics.get(topic)
            if metadata is not None and metadata.error is None:
                self._mine.knows(topic, len(metadata.partitions), found.cluster_id)

    def _pin(self, consumer: Consumer, new: list[TopicPartition], deadline: float) -> set[TopicPartition]:
        """Commit the beginning of those without a commit; return all that have one now."""
        known = consumer.committed(_of_confluent(new), timeout=_left(deadline))
        committed = {TopicPartition(tp.topic, tp.partition) for tp in known if tp.offset >= 0}
        pinned = self._mine.to_pin(new, committed)
        if not pinned:
            return committed
        begins = consumer.offsets_for_times(_of_confluent(pinned, _EARLIEST), timeout=_left(deadline))
        found = [tp for tp in begins if not tp.error and tp.offset >= 0]
        done = consumer.commit(offsets=found, asynchronous=False) if found else []
        good = {TopicPartition(tp.topic, tp.partition) for tp in done or () if not tp.error}
        if missing := set(pinned) - good:
            errors = ", ".join({str(tp.error) for tp in (*begins, *(done or ())) if tp.error})
            _log.warning("new_partitions_not_pinned", partitions=sorted(missing), error=errors)
        return committed | good


def _plain(partitions: Iterable[ConfluentPartition]) -> list[TopicPartition]:
    return [TopicPartition(tp.topic, tp.partition) for tp in partitions]


def _of_confluent(partitions: Iterable[TopicPartition], offset: int = -1001) -> list[ConfluentPartition]:
    return [ConfluentPartition(tp.topic, tp.partition, offset) for tp in partitions]


def _left(deadline: float) -> float:
    return max(0.05, deadline - time.monotonic())
