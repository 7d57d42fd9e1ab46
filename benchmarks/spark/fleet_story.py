"""What a topic of events says while pairs of brokers go and come back. Real events as real records.

All partitions of a topic have two replicas, on the two brokers of a pair. One goes: leaders move and in-sync
replicas shrink; the other one goes: the partitions are offline; then both come back. That makes six events of
each partition, a third of which tell of outages.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

from kafka_partition_events import EMPTY, Cluster, Event, Node, PartitionInfo, TopicInfo, diff
from kafka_partition_events.listeners import to_cloudevent, to_record

PARTITIONS, PAIRS = 10, 10
"""Partitions of each topic, pairs of brokers."""
EVENTS_A_LOSS = 6
"""Of each partition of a pair, besides four of the brokers."""
CLUSTER_ID = "Yk3bQ0x7T5mVb1c2d3e4fg"

_BEGIN = datetime(2026, 11, 20, 0, 5, tzinfo=UTC)
_LASTS_S = 20 * 3600.0
_LOOKS_EVERY = timedelta(seconds=5)
_LOSS = ((False, True), (False, False), (False, True), (True, True))
"""Which of a pair is there, look by look."""


def records(keys: int, wanted: int) -> Iterator[tuple[bytes, bytes]]:
    """Return keys and values of records, all on one day.

    Args:
        keys: How many partitions the cluster has; a multiple of 100.
        wanted: How many records.
    """
    losses = max(1.0, wanted / (EVENTS_A_LOSS * keys / PAIRS))
    told = (event for look in _looks(keys // PARTITIONS, _LASTS_S / losses) for event in look)
    for _, event in zip(range(wanted), told, strict=False):
        record = to_record(to_cloudevent(event, observer="a"))
        if record.key is None or record.value is None:
            raise ValueError(f"an event without a key or a value: {event}")
        yield str(record.key).encode(), record.value


def _looks(topics: int, between_s: float) -> Iterator[tuple[Event, ...]]:
    """Return what each look of an observer finds."""
    told = _Told()
    whole = {number: _topic(number, 0, (True, True)) for number in range(topics)}
    yield told.look(whole, set(), _BEGIN)
    for loss in count():
        pair = loss % PAIRS
        for step, there in enumerate(_LOSS):
            for number in range(pair, topics, PAIRS):
                whole[number] = _topic(number, 4 * loss + step + 1, there)
            gone = {2 * pair + place for place in (0, 1) if not there[place]}
            at = _BEGIN + timedelta(seconds=between_s * (loss + (step + 1) / 5))
            yield told.look(whole, gone, at)


class _Told:
    """Remembers the last look."""

    def __init__(self) -> None:
        self._cluster = EMPTY
        self._sequence = 1

    def look(self, whole: dict[int, TopicInfo], gone: set[int], at: datetime) -> tuple[Event, ...]:
        before = self._cluster
        self._cluster = Cluster(
            nodes=[
                Node(number, f"broker-{number}", 9092) for number in range(2 * PAIRS) if number not in gone
            ],
            by_topic=whole.values(),
            cluster_id=CLUSTER_ID,
            generation=before.generation + 1,
        )
        found = diff(
            before,
            self._cluster,
            first_sequence=self._sequence,
            wall_time=at,
            previous_at=None if before is EMPTY else at - _LOOKS_EVERY,
            initial=before is EMPTY,
        )
        self._sequence += len(found)
        return found


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
