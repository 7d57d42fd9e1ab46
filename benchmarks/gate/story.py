"""What the driver sees while topics grow: the data cluster's counts, and what the tracker writes."""

import time
from collections.abc import Collection
from typing import Final

from attrs import frozen
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.gate.plan import GROWN
from kafka_partition_events.control.operate.control_log import place_of
from kafka_partition_events.control.protocol.codec import Skipped, decode_or_skip
from kafka_partition_events.control.protocol.records import Change

_LIMIT_S = 10.0
_AT_ONCE = 1_000
_MS: Final = 1_000_000


@frozen
class Opening:
    """A gate was opened: when the record was appended, in ns since 1970, and by whom."""

    at_ns: int
    by: str


class Growth:
    """When the topics of one batch were first seen to have grown."""

    def __init__(self, admin: AdminClient, topics: Collection[str]) -> None:
        self._admin = admin
        self._topics = frozenset(topics)
        self.at_ns: dict[str, int] = {}

    def look(self) -> bool:
        """Look again; tell whether all have grown."""
        found = self._admin.list_topics(timeout=_LIMIT_S).topics
        now = time.time_ns()
        for topic in self._topics - self.at_ns.keys():
            if topic in found and len(found[topic].partitions) >= GROWN:
                self.at_ns[topic] = now
        return self.at_ns.keys() == self._topics


class Changes:
    """What ``kpe.changes`` tells, as it comes. Its `look` waits for nobody."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench-gate",  # required, though nobody joins it
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(f"{prefix}changes", 0, 0)])
        self.by_topic: dict[str, Change] = {}
        self.openings: dict[str, Opening] = {}
        self._skipped = Skipped()

    def look(self) -> None:
        for message in self._consumer.consume(_AT_ONCE, timeout=0.05):
            value = message.value()
            if message.error() is not None or value is None:
                continue
            change = decode_or_skip(Change, value, self._skipped, place_of(message))
            if change is None or change.spec.topic is None:
                continue
            self.by_topic[change.spec.topic] = change
            if change.opened_by is not None:
                opening = Opening(message.timestamp()[1] * _MS, change.opened_by or "")
                self.openings.setdefault(change.spec.topic, opening)

    def close(self) -> None:
        self._consumer.close()
