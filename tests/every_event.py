"""One event of every name that the library tells, stamped as a poller stamps it."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, Node, TopicPartition
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.testing.scripted import PartitionSpec, TopicSpec, cluster_of

BEFORE: Final = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)
SEEN: Final = BEFORE + timedelta(seconds=10)
STAMP: Final[dict[str, Any]] = {
    "cluster_id": "c-1", "sequence": 3, "generation": 2, "wall_time": SEEN, "previous_at": BEFORE
}  # fmt: skip


def _orders(*partitions: int | PartitionSpec | None) -> Cluster:
    topics: dict[str, TopicSpec] = {"orders": {"id": "id-1", "partitions": partitions}}
    return cluster_of(topics, brokers=[1, 2, 3], cluster_id="c-1", generation=2)


def _changes(old: Cluster, new: Cluster) -> tuple[ev.Event, ...]:
    return diff(old, new, first_sequence=3, wall_time=SEEN, previous_at=BEFORE)


UP, DOWN = _orders(1, 2, 3), _orders(1, None, 3)
_ALONE = _orders({"leader": 1, "epoch": 4, "replicas": [1], "isr": [1]})
_MOVING = _orders({"leader": 1, "epoch": 4, "replicas": [1, 2], "isr": [1]})
_COPIED = _orders({"leader": 1, "epoch": 4, "replicas": [1, 2], "isr": [1, 2]})
_UP, _DOWN = UP.by_topic["orders"], DOWN.by_topic["orders"]

EVERY_EVENT: Final[tuple[ev.Event, ...]] = (
    ev.TopicAdded(topic="orders", topic_id="id-1", new=_UP, **STAMP),
    ev.TopicRemoved(topic="orders", topic_id="id-1", old=_UP, **STAMP),
    ev.TopicRecreated(topic="orders", topic_id="id-1", old=_UP, new=_DOWN, **STAMP),
    ev.TopicIdLearned(topic="orders", topic_id="id-1", old=_UP, new=_DOWN, **STAMP),
    *_changes(UP, _orders(1, 2, 3, 1)),
    *_changes(UP, DOWN),
    *_changes(DOWN, UP),
    *_changes(UP, _orders(2, 2, 3)),
    *_changes(_MOVING, _COPIED),
    *_changes(_COPIED, _MOVING),
    *_changes(_ALONE, _MOVING),
    ev.BrokerAdded(new=Node(4, "b4", 9092, "r1"), **STAMP),
    ev.BrokerRemoved(old=Node(4, "b4", 9092), **STAMP),
    ev.BrokerChanged(old=Node(4, "b4", 9092), new=Node(4, "b4", 9093), **STAMP),
    ev.CapReached(
        topic="orders", partitions=9, admitted=(0, 1, 2, 7), limit=4, partitioner="sticky", **STAMP
    ),
    ev.CapLifted(topic="orders", partitions=4, partitioner="sticky", **STAMP),
    ev.BrokerSuspected(
        broker=2, role=ev.Role.REPLICA, reason=ev.Suspicion.SILENT, outstanding=12, silence_ms=43.5,
        usual_ms=6.25, waiting=(TopicPartition("orders", 3), TopicPartition("orders", 7)),
        partitioner="sticky", **STAMP,
    ),
    ev.BrokerCleared(
        broker=2, reason=ev.Clearance.ANSWERED, suspected_ms=1300.0, probes=3, usual_ms=None,
        partitioner="sticky", **STAMP,
    ),
    ev.RecordsRescued(broker=2, copies=7, withheld=2, **STAMP),
    ev.KeysMoved(topic="orders", brokers=(2,), keys=17, **STAMP),
    ev.KeysReturned(topic="orders", keys=40, away=3, **STAMP),
    ev.MetadataUnavailable(error="timed out", **STAMP),
    ev.MetadataRecovered(attempts=3, blind_s=12.5, **STAMP),
    ev.MetadataStale(age_s=301.0, limit_s=300.0, **STAMP),
    ev.MetadataRejected(reason=ev.Rejection.SHRINK, topic="orders", kept="9", offered="3", **STAMP),
    ev.Resync(cluster=UP, dropped=12, **STAMP),
    ev.ClusterSummary(
        begin=BEFORE, end=BEFORE + timedelta(minutes=5), topics=1, partitions=3, offline=1,
        brokers=(
            ev.BrokerLoad(broker=1, rack="r1", leaders=2, replicas=3, offline_replicas=0),
            ev.BrokerLoad(broker=2, rack=None, leaders=0, replicas=3, offline_replicas=3),
        ),
        **STAMP,
    ),
)  # fmt: skip
