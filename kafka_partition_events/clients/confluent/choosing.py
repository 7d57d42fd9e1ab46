"""Asks the partitioner on behalf of one producer, once for many records where that is enough."""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import field, frozen

from kafka_partition_events.clients.confluent.settings import delivery_seconds
from kafka_partition_events.clients.confluent.turns import Pace, ShortCuts, Turn, turn_length
from kafka_partition_events.clients.flight.key_moves import KeyStats
from kafka_partition_events.clients.flight.key_order import KeyOrder
from kafka_partition_events.clients.flight.rescue import RescueStats
from kafka_partition_events.errors import PollerClosedError
from kafka_partition_events.health.tracker import TrackerStats
from kafka_partition_events.metadata.cluster import is_topic_name
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.partitioners.sticky import StickyPartitioner, UniformStickyPartitioner
from kafka_partition_events.process import OwnProcess, forget_in_children

MAX_IDLE_S = 300.0
"""A topic that was not written for so long, or up to twice as long, is forgotten (KIP-526)."""

LONGEST_SLICE = 10_000  # librdkafka's ``batch.num.messages`` by default: more would not fit one batch anyway


@frozen(kw_only=True)
class ProducerStats:
    """What became of unkeyed records whose partition was not given. Counts since the producer was made.

    Attributes:
        rerouted: Records that were placed while an admitted partition was offline.
        avoided: Records that were placed while partitions that need a suspect broker were left out.
        capped: Records that were placed while the budget left partitions out.
        fallbacks: Records whose chosen partition the producer did not know, so that librdkafka chose again.
        deliveries: What the delivery reports of all producers that share the partitioner have shown.
        rescue: What the rescue has done.
        keys: What became of keyed records while brokers were sick.
    """

    rerouted: int = 0
    avoided: int = 0
    capped: int = 0
    fallbacks: int = 0
    deliveries: TrackerStats = field(factory=TrackerStats)
    rescue: RescueStats = field(factory=RescueStats)
    keys: KeyStats = field(factory=KeyStats)


class Chooser:
    """One producer's turns, by topic. Thread-safe."""

    turns: dict[str, Turn]  # by topic
    cuts: ShortCuts  # how records go without being asked about; the producer's hot path reads it
    by_turns: StickyPartitioner | None  # the partitioner, if its choice without a key holds for a whole turn
    keyless: bool  # keyed records are placed and counted as if they had no key
    keys: KeyOrder | None  # keeps the order of keys over several places; None where each has one
    native_keys: bool  # librdkafka may place keyed records of some topics; see `leaves_keys`
    poller: MetadataPoller  # follows the topics that are written
    ask_for: Callable[[str], None]  # has it ask for another one

    def __init__(self, partitioner: Partitioner, config: Mapping[str, Any], *, chunks: bool) -> None:
        """Make a chooser; with ``chunks`` records may be placed without our being asked for each."""
        self.turns, self.cuts, self.keys = {}, ShortCuts(), None
        self.by_turns = _by_turns(partitioner)
        self.keyless = partitioner.ignores_keys
        self.native_keys = self.by_turns is not None and partitioner.keying.by_hash and not self.keyless
        self._partitioner, self._chunks = partitioner, chunks
        self._length, self._pace = turn_length(config), Pace()
        self._fallbacks = 0
        self._before: dict[str, Turn] = {}  # of topics that were not written since the last sweep
        self._swept_at = time.monotonic()
        self._idle_s = max(MAX_IDLE_S, delivery_seconds(config))  # its log says what is outstanding of a key
        self.process = OwnProcess("PartitioningProducer")
        forget_in_children(self, Chooser._forget)

    def _forget(self) -> None:
        """Begin without turns in a forked child, so that `turn` raises there."""
        self.turns.clear()
        self.cuts.unkeyed.clear()
        self.cuts.log_keys.clear()
        self._before.clear()

    def choose(self, topic: str, key: str | bytes | None, value: str | bytes | None) -> int:
        """Return the partition of one record, `UNASSIGNED` if librdkafka shall choose."""
        partitioner, turn, is_keyed = self._partitioner, self.turn(topic), self.is_keyed(key)
        if is_keyed:
            are_placed = self.keys is not None and self.keys.places_all(partitioner.route(topic))
            if key and not are_placed and self.leaves_keys(topic):
                turn.open_short_cut(self.keys)
                # A limit is first set, then drops what is here. If it did both before we put something
                # here, we see it now.
                if not self.leaves_keys(topic):
                    turn.close_short_cut()
        elif self.by_turns is not None:
            return turn.partition if not self._chunks and turn.asked() else turn.renew()
        elif not turn.asked():
            turn.renew()
        return partitioner.partition(topic, key, _encoded(key), value, _encoded(value), None)

    def begin_chunk(self, topic: str, key: str | bytes | None, next_sample: float) -> tuple[int | None, bool]:
        """Begin a topic's next chunk with a record that need not be tracked, if all is well.

        Return its partition, None if it was not chosen; and whether the producer may use it as it is. The
        next record of all topics together is tracked at ``next_sample``.
        """
        deliveries = self._partitioner.deliveries
        if not self._chunks or self.by_turns is None or not (key is None or self.keyless):
            return None, False
        if deliveries.avoiding or time.monotonic() >= next_sample or self._partitioner.route(topic) is None:
            return None, False
        # If a suspicion comes before the choice, that may be a probe, which is tracked: we see the flag now.
        return self.turn(topic).renew(), not deliveries.avoiding

    def close_short_cut(self, topic: str) -> None:
        """Have the next keyed record of a topic ask; see `KeyOrder`."""
        if (turn := self.turns.get(topic)) is not None:
            turn.close_short_cut()

    def is_keyed(self, key: str | bytes | None) -> bool:
        """Return whether a record with this key is placed by it."""
        return not self.keyless and self._partitioner.keying.is_key(key)

    def must_place(self, topic: str, key: str | bytes | None) -> bool:
        """Return whether librdkafka must not place a record, as it would put its key elsewhere."""
        return key is not None and self._partitioner.requires_metadata(topic) and self.is_keyed(key)

    def knows(self, topic: str) -> bool:
        """Return whether the partitioner knows a topic."""
        return self._partitioner.route(topic) is not None

    def leaves_keys(self, topic: str) -> bool:
        """Return whether a topic's keyed records are left to librdkafka: not where partitions are limited."""
        if not self.native_keys or self._partitioner.requires_metadata(topic):
            return False
        return topic not in self._partitioner.routing.limits

    def choose_for(self, topic: str, count: int) -> tuple[int, int]:
        """Return a partition for unkeyed records, and how many of ``count`` may go there: a probe is one."""
        turn = self.turn(topic)
        partition = turn.renew(count)
        if count >= LONGEST_SLICE:
            turn.end()
        route = self._partitioner.route(topic)
        return partition, 1 if route is not None and route.avoids(partition) else count

    def turn(self, topic: str) -> Turn:
        """Return the topic's turn. At first sight of the topic, the poller asks for it."""
        if (turn := self.turns.get(topic)) is not None:
            return turn
        if (turn := self._before.get(topic)) is not None:
            self.cuts.unkeyed.setdefault(topic, ())
            return self.turns.setdefault(topic, turn)
        new = Turn(
            topic, self._partitioner, self._length, self._pace, self.cuts,
            stay_with=self.by_turns, chunks=self._chunks,
        )  # fmt: skip
        if not is_topic_name(topic):
            # confluent-kafka or a broker refuses it. A metadata request that named it would fail for all.
            return new
        self.process.check()
        self.cuts.unkeyed.setdefault(topic, ())
        turn = self.turns.setdefault(topic, new)  # in one step: two threads get the same
        self.ask_for(topic)
        return turn

    def __contains__(self, topic: object) -> bool:
        """Return whether a topic is written; see `written`."""
        return topic in self.turns or topic in self._before

    def written(self) -> Collection[str]:
        """Return the topics that are written; one that was not for so long, or longer, is forgotten first.

        So often all turns are set aside; a record takes its topic's one back.
        """
        if (now := time.monotonic()) >= self._swept_at + self._idle_s:
            self._swept_at = now
            idle = self._before.keys() - self.turns.keys()
            if self.keys is not None:
                for topic in idle:
                    self.keys.forget(topic)
            self._before = dict(self.turns)
            for topic, turn in self._before.items():
                del self.turns[topic]
                turn.drop()
                self.cuts.forget(topic)  # a record takes no short cut past its turn
        return (*self.turns, *(self._before.keys() - self.turns.keys()))

    def fall_back(self, topic: str) -> None:
        """Note that librdkafka places a record since it did not know our partition: a poller may be ahead."""
        self._fallbacks += 1
        self.turn(topic).end()
        with contextlib.suppress(PollerClosedError):
            self.poller.refresh()

    @property
    def stats(self) -> ProducerStats:
        """What became of the records so far."""
        turns = {**self._before, **self.turns}
        counted = [turn.counted() for turn in turns.values()]
        rerouted, avoided, capped = map(sum, zip((0, 0, 0), *counted, strict=True))
        return ProducerStats(
            rerouted=rerouted,
            avoided=avoided,
            capped=capped,
            fallbacks=self._fallbacks,
            deliveries=self._partitioner.deliveries.stats,
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
