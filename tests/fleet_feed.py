"""What two observers tell of a fleet in trouble, for days: records as they stand in the topic of events."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from confluent_kafka import Producer

from kafka_partition_events.listeners import to_cloudevent, to_record
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.testing.scripted import PartitionSpec, TopicSpec, cluster_of

State = dict[str, list[tuple[int | None, int]]]
"""Topic -> partition -> leader, epoch."""

START = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)


class Record(NamedTuple):
    key: bytes | None
    value: bytes


class Feed:
    """The story and what must be counted of it. The same seed tells the same.

    Attributes:
        records: In the order in which they were written.
        junk: How many of them are no events.
        unknown: How many are of a version from the future.
        doubles: How many tell of an event that another one tells of.
        days: Those of which they tell.
    """

    def __init__(self, seed: int, *, topics: int = 3, partitions: int = 4, days: float = 2.2) -> None:
        self._rng = random.Random(seed)
        self._sequence = 0
        self.records: list[Record] = []
        self.junk = self.unknown = 0
        looks = self._looks(topics, partitions, days)
        self.days = Days(START.date(), looks[-1][0].date())
        for at, (old, new) in zip(
            [at for at, _ in looks], pairwise([EMPTY, *(c for _, c in looks)]), strict=True
        ):
            for observer, delay in (("a", 1.0), ("b", 4.0)):
                self._look(observer, old, new, at, delay)
            self._noise(at)
        values = [json.loads(record.value) for record in self.records if record.key is not None]
        told = [value["id"] for value in values if value["type"].endswith(".v1")]
        self.doubles = len(told) - len(set(told))

    @property
    def counts(self) -> Counts:
        """What must be counted of it when nothing came late."""
        read, bad = len(self.records), self.junk + self.unknown
        return Counts(
            read=read, good=read - bad, unparsed=self.junk, unknown=self.unknown, doubles=self.doubles
        )

    def _looks(self, topics: int, partitions: int, days: float) -> list[tuple[datetime, Cluster]]:
        """Return the cluster as it was, from change to change."""
        rng, at = self._rng, START
        state: State = {f"topic-{n}": [(n % 3 + 1, 0) for n in range(partitions)] for n in range(topics)}
        looks = [(at, _cluster(state, (1, 2, 3)))]
        while at < START + timedelta(days=days):
            at += timedelta(seconds=rng.uniform(60, 2400))
            at = at.replace(microsecond=0)
            brokers = (1, 3) if rng.random() < 0.1 else (1, 2, 3)
            for places in state.values():
                chosen = rng.randrange(len(places)) if rng.random() < 0.7 else None
                for place, (leader, epoch) in enumerate(places):
                    # A leader that is gone leads no more; as in Kafka, each change is an epoch of its own.
                    if place == chosen or (leader is not None and leader not in brokers):
                        others = [one for one in (None, None, *brokers) if one != leader]
                        places[place] = rng.choice(others), epoch + 1
                if rng.random() < 0.01:
                    places.append((1, 0))
            looks.append((at, _cluster(state, brokers)))
        return looks

    def _look(self, observer: str, old: Cluster, new: Cluster, at: datetime, delay: float) -> None:
        found = diff(
            old,
            new,
            first_sequence=self._sequence + 1,
            wall_time=at + timedelta(seconds=delay + round(self._rng.random(), 3)),
            previous_at=None if old is EMPTY else at - timedelta(seconds=5 - delay),
            initial=old is EMPTY,
        )
        for event in found:
            self._tell(event, observer)

    def _tell(self, event: ev.Event, observer: str) -> None:
        self._sequence += 1
        record = to_record(to_cloudevent(event, observer=observer))
        assert isinstance(record.key, bytes | str)
        assert record.value is not None
        key = record.key.encode() if isinstance(record.key, str) else record.key
        self.records.append(Record(key, record.value))

    def _noise(self, at: datetime) -> None:
        rng = self._rng
        if rng.random() < 0.05:  # an observer that could not look for a while
            lost: dict[str, Any] = {"cluster_id": "test", "sequence": self._sequence + 1}
            self._tell(ev.MetadataUnavailable(error="timed out", wall_time=at, previous_at=at, **lost), "b")
            back = at + timedelta(seconds=30)
            self._tell(
                ev.MetadataRecovered(attempts=3, blind_s=30.0, wall_time=back, previous_at=at, **lost), "b"
            )
        if rng.random() < 0.1:  # a producer that sends twice
            self.records.append(self.records[-1])
        if rng.random() < 0.1:
            self.records.append(Record(None, rng.choice([b"not json", b"{}", b"\xff\xfe", b'{"id": 1}'])))
            self.junk += 1
        if rng.random() < 0.05:
            newer = json.loads(next(record for record in self.records if record.key is not None).value)
            newer |= {"id": f"newer-{len(self.records)}", "type": "x.partition.offline.v3"}
            self.records.append(Record(b"newer", json.dumps(newer).encode()))
            self.unknown += 1


def _cluster(state: State, brokers: Sequence[int]) -> Cluster:
    topics: dict[str, TopicSpec] = {}
    for name, places in state.items():
        partitions: list[int | PartitionSpec | None] = [
            {"leader": leader, "epoch": epoch} for leader, epoch in places
        ]
        topics[name] = {"id": f"{name}-id", "partitions": partitions}
    return cluster_of(topics, brokers)


KEPT = {"retention.ms": "-1"}
"""Of topics with a feed: its records are old, and would go."""


def write_feed(bootstrap: str, topic: str, records: Sequence[Record]) -> None:
    """Write records to a topic as if it were the end of their days: what is told much later is set aside."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    at_ms = round((START + timedelta(days=3)).timestamp() * 1_000)
    for record in records:
        producer.produce(topic, record.value, key=record.key, timestamp=at_ms)
    assert producer.flush(60) == 0


STORY = Feed(3)
"""Two days, for tests that compare what becomes of it."""
