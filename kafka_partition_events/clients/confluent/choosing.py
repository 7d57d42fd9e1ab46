"""Asks the partitioner on behalf of one producer, once for many records where that is enough."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from kafka_partition_events.clients.confluent.batches import LONGEST_SLICE
from kafka_partition_events.clients.confluent.stats import ProducerStats
from kafka_partition_events.clients.confluent.turns import Turn, turn_length
from kafka_partition_events.errors import PollerClosedError
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.metadata.events import TopicCounts
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner, TurnStats
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.partitioners.sticky import StickyPartitioner
from kafka_partition_events.partitioners.uniform_sticky import UniformStickyPartitioner
from kafka_partition_events.routing.table import Route

MAX_IDLE_S = 300.0
"""How long a topic that is not written is followed: Java's ``metadata.max.idle.ms`` (KIP-526)."""


class Chooser:
    """One producer's turns, by topic. Thread-safe.

    Attributes:
        turns: By topic; the producer's hot path reads it.
        by_turns: The partitioner, if its choice for unkeyed records holds for a whole turn.
        keyless: Whether keyed records are placed and counted as if they had no key.
        native_keys: Whether librdkafka places keyed records as the partitioner would; see `places_keys`.
        poller: Follows the topics that are written.
        look_for: Lets it look for another one.
    """

    poller: MetadataPoller
    look_for: Callable[[str], None]

    def __init__(self, partitioner: Partitioner, config: Mapping[str, Any], *, chunks: bool) -> None:
        """Make a chooser.

        Args:
            partitioner: Who is asked.
            config: The producer's settings.
            chunks: Whether records may be placed without our being asked for each.
        """
        self.turns: dict[str, Turn] = {}
        self.by_turns = _by_turns(partitioner)
        self.keyless = partitioner.ignores_keys
        self.native_keys = self.by_turns is not None and partitioner.keying.by_hash and not self.keyless
        self._partitioner = partitioner
        self._chunks = chunks
        self._length = turn_length(config)
        self._adding = threading.RLock()  # a signal handler may produce in there
        self._fallbacks = 0
        self._swept_at = time.monotonic()

    def choose(self, topic: str, key: str | bytes | None, value: str | bytes | None) -> int:
        """Return the partition of one record, `UNASSIGNED` if librdkafka shall choose."""
        partitioner, turn = self._partitioner, self.turn(topic)
        if self.is_keyed(key):
            turn.written_past = True
            if key and self.places_keys(topic):
                turn.sample_keyed(partitioner.deliveries)
                # A limit is first set, then drops what is here. If it did both before we put something
                # here, we see it now.
                if not self.places_keys(topic):
                    turn.keyed = ()
            return partitioner.partition(topic, key, _encoded(key), value, _encoded(value), None)
        if self.by_turns is not None:
            return turn.look(topic, partitioner, self._length, stay_with=self.by_turns)
        if not turn.asked(partitioner):
            turn.look(topic, partitioner, self._length, stay_with=None)
        partition = partitioner.partition(topic, key, _encoded(key), value, _encoded(value), None)
        turn.placed(partition)
        return partition

    def is_keyed(self, key: str | bytes | None) -> bool:
        """Tell whether a record with this key is placed by it."""
        keys = self._partitioner.keying
        return not self.keyless and bool(key or (key is not None and not keys.empty_is_no_key))

    def places_keys(self, topic: str) -> bool:
        """Tell whether librdkafka shall place a topic's keyed records: not if it would use too many."""
        return self.native_keys and topic not in self._partitioner.routing.limits.counts

    def choose_for(self, topic: str, count: int) -> tuple[int, int]:
        """Return a partition for unkeyed records, and how many of ``count`` may go there: a probe is one."""
        turn = self.turn(topic)
        partition = turn.look(topic, self._partitioner, self._length, stay_with=self.by_turns, count=count)
        if count >= LONGEST_SLICE:
            turn.end()
        route = self._partitioner.route(topic)
        return partition, 1 if route is not None and route.avoids(partition) else count

    def followed(self, topic: str, partition: int) -> Route | None:
        """Return the topic's route if account is to be kept of a record for this partition, else None.

        That is so for one record in 1 ms, and for every probe.
        """
        route = self._partitioner.route(topic)
        if route is None or not 0 <= partition < route.count:
            return None
        return route if self.turn(topic).due() or route.avoids(partition) else None

    def any_offline(self, topic: str) -> bool:
        """Tell whether a partition of the topic is known to be offline."""
        route = self._partitioner.route(topic)
        return route is not None and len(route.online) < route.count

    def turn(self, topic: str) -> Turn:
        """Return the topic's turn. At first sight of the topic, the poller looks for it."""
        turn = self.turns.get(topic)
        if turn is not None:
            return turn
        if not isinstance(topic, str):
            return Turn(self._partitioner)  # confluent-kafka is about to raise TypeError
        with self._adding:
            turn = Turn(self._partitioner, chunks=self._chunks, keyless=self.keyless)
            turn = self.turns.setdefault(topic, turn)
        self.look_for(topic)
        return turn

    def written(self) -> Collection[str]:
        """Return the topics that are written; one that was not for `MAX_IDLE_S` is forgotten first."""
        now = time.monotonic()
        if now >= self._swept_at + MAX_IDLE_S / 10:
            self._swept_at = now
            for topic, turn in tuple(self.turns.items()):
                if turn.idle(now) >= MAX_IDLE_S:
                    del self.turns[topic]  # whoever has just got it places one record more
        return tuple(self.turns)

    def fall_back(self, topic: str, records: int = 1) -> None:
        """Note that the producer did not know a partition of ours: a shared poller may be ahead of it.

        Args:
            topic: The topic.
            records: How many records librdkafka is to place instead.
        """
        self._fallbacks += records
        self.turn(topic).end()
        with contextlib.suppress(PollerClosedError):
            self.poller.refresh("the producer does not know a partition")

    def counted(self) -> dict[str, TopicCounts]:
        """Return what was counted so far, by topic. A record that is being placed may be missing."""
        counts = {}
        for topic, turn in dict(self.turns).items():
            rerouted, avoided, capped = turn.counted()
            counts[topic] = TopicCounts(
                topic=topic,
                sent=turn.records.total(),
                rerouted=rerouted,
                avoided=avoided,
                capped=capped,
            )
        return counts

    @property
    def stats(self) -> ProducerStats:
        """What became of the records so far."""
        turns = dict(self.turns)
        counted = [turn.counted() for turn in turns.values()]
        rerouted, avoided, capped = (sum(counts) for counts in zip((0, 0, 0), *counted, strict=True))
        records = {
            TopicPartition(topic, partition): count
            for topic, turn in turns.items()
            for partition, count in sorted(turn.records.items())
        }
        partitioner = self._partitioner
        return ProducerStats(
            rerouted=rerouted,
            avoided=avoided,
            capped=capped,
            fallbacks=self._fallbacks,
            records=MappingProxyType(records),
            turns=partitioner.turn_stats if isinstance(partitioner, AdaptivePartitioner) else TurnStats(),
            deliveries=partitioner.deliveries.stats,
        )


def _by_turns(partitioner: Partitioner) -> StickyPartitioner | None:
    """Return a partitioner that chooses as a built-in one does, so that we know what it would answer."""
    kind = type(partitioner)
    as_built_in = any(
        kind.partition is built_in.partition and kind.choose is built_in.choose
        for built_in in (StickyPartitioner, AdaptivePartitioner, UniformStickyPartitioner)
    )
    return partitioner if as_built_in and isinstance(partitioner, StickyPartitioner) else None


def _encoded(data: str | bytes | None) -> bytes | None:
    """Encode text as confluent-kafka does, so that it is hashed as it is sent."""
    return data.encode() if isinstance(data, str) else data
