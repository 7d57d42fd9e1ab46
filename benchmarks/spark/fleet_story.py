"""What a topic of events says while pairs of brokers go and come back. Real events as real records.

Two clusters, each watched by two observers, so half of all transitions are told twice. All partitions of a
topic have two replicas, on the two brokers of a pair. One goes: leaders move and in-sync replicas shrink; the
other one goes: the partitions are offline; then both come back. That makes six transitions of each partition,
a third of which tell of outages. It goes on over three days. Of a hundred records one is none, and one look
in a hundred comes three hours late.
"""

import heapq
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final, NamedTuple

from kafka_partition_events import EMPTY, Cluster, Event, Node, PartitionInfo, TopicInfo, diff
from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.listeners import to_cloudevent, to_record

PARTITIONS, PAIRS = 10, 10
"""Partitions of each topic, pairs of brokers."""
EVENTS_A_LOSS: Final = 6
"""Of each partition of a pair, besides four of the brokers."""
CLUSTERS: Final = ("Yk3bQ0x7T5mVb1c2d3e4fg", "Zl4cR1y8U6nWc2d3e4f5gh")
OBSERVERS: Final = {"a": timedelta(0), "b": timedelta(seconds=2)}
"""Each looks so much later."""
DAYS: Final = 3
BAD: Final = 0.01
LATE: Final = timedelta(hours=3)

_BEGIN = datetime(2026, 11, 20, 0, 5, tzinfo=UTC)
_LOOKS_EVERY = timedelta(seconds=5)
_LOSS = ((False, True), (False, False), (False, True), (True, True))
"""Which of a pair is there, look by look."""


class Told(NamedTuple):
    """A record, when it is written, and how many transitions it tells."""

    at: datetime
    number: int
    key: bytes
    value: bytes
    transitions: int


def records(keys: int, wanted: int, *, packed: bool) -> Iterator[Told]:
    """Return records in the order in which they are written.

    Args:
        keys: How many partitions the two clusters have together; a multiple of 200.
        wanted: How many transitions they tell, at the least.
        packed: Whether what one look found for one cause is one record.
    """
    losses = wanted / len(CLUSTERS) / len(OBSERVERS) / (EVENTS_A_LOSS * keys / len(CLUSTERS) / PAIRS)
    between = timedelta(days=DAYS) / max(1.0, losses)
    dice, numbers, told = random.Random(1), count(), 0
    waiting: list[Told] = []
    looks = zip(
        *(_looks(cluster, keys // len(CLUSTERS) // PARTITIONS, between) for cluster in CLUSTERS), strict=True
    )
    for pair in looks:
        for at, before, after, look in pair:
            for observer, later in OBSERVERS.items():
                written = at + later + (LATE if dice.random() < BAD else timedelta(0))
                found = _seen(before, after, look, at + later)
                for key, value, transitions in _written(found, observer, packed=packed):
                    if dice.random() < BAD:
                        heapq.heappush(waiting, Told(written, next(numbers), key, b"not json", 0))
                    heapq.heappush(waiting, Told(written, next(numbers), key, value, transitions))
                    told += transitions
        while waiting and waiting[0].at < max(at for at, *_ in pair):
            yield heapq.heappop(waiting)
        if told >= wanted:
            break
    while waiting:
        yield heapq.heappop(waiting)


def _seen(before: Cluster, after: Cluster, sequence: int, at: datetime) -> Sequence[Event]:
    return diff(
        before,
        after,
        first_sequence=sequence,
        wall_time=at,
        previous_at=None if before is EMPTY else at - _LOOKS_EVERY,
        initial=before is EMPTY,
    )


def _written(found: Sequence[Event], observer: str, *, packed: bool) -> Iterator[tuple[bytes, bytes, int]]:
    if packed:
        looked = [Observed(event=event, recorded_at=event.wall_time) for event in found]
        for entry in fold(looked, observer=observer):
            yield (entry.key or "").encode(), entry.body, max(1, entry.body.count(b'"partition":'))
        return
    for event in found:
        record = to_record(to_cloudevent(event, observer=observer))
        if record.key is None or record.value is None:
            raise ValueError(f"an event without a key or a value: {event}")
        yield str(record.key).encode(), record.value, 1


def _looks(cluster: str, topics: int, between: timedelta) -> Iterator[tuple[datetime, Cluster, Cluster, int]]:
    """Return when a cluster was looked at, how it was before and then, and the number of the look."""
    whole = {number: _topic(number, 0, (True, True)) for number in range(topics)}
    before, sequence = EMPTY, 1
    after = _cluster(cluster, whole, set(), 1)
    yield _BEGIN, before, after, sequence
    for loss in count():
        pair = loss % PAIRS
        for step, there in enumerate(_LOSS):
            before, sequence = after, sequence + 10 * PARTITIONS * topics
            for number in range(pair, topics, PAIRS):
                whole[number] = _topic(number, 4 * loss + step + 1, there)
            gone = {2 * pair + place for place in (0, 1) if not there[place]}
            after = _cluster(cluster, whole, gone, before.generation + 1)
            yield _BEGIN + between * (loss + (step + 1) / 5), before, after, sequence


def _cluster(name: str, whole: dict[int, TopicInfo], gone: set[int], generation: int) -> Cluster:
    return Cluster(
        nodes=[Node(number, f"broker-{number}", 9092) for number in range(2 * PAIRS) if number not in gone],
        by_topic=whole.values(),
        cluster_id=name,
        generation=generation,
    )


def _topic(number: int, epoch: int, there: tuple[bool, bool]) -> TopicInfo:
    replicas = 2 * (number % PAIRS), 2 * (number % PAIRS) + 1
    alive = tuple(broker for broker, is_there in zip(replicas, there, strict=True) if is_there)
    name = f"topic-{number:05d}"
    partitions = tuple(
        PartitionInfo(
            topic=name,
            partition=partition,
            leader=alive[0] if alive else None,
            replicas=replicas,
            isr=alive or replicas[1:],  # as Kafka does, the last in-sync replica stays one
            leader_epoch=epoch,
        )
        for partition in range(PARTITIONS)
    )
    return TopicInfo(name, partitions, f"AAAAAAAAAAAAAAAAA{number:05d}")
