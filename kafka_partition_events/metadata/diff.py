"""The difference of two snapshots as events. Pure.

For any snapshots ``apply(old, diff(old, new)) == new`` and ``diff(x, x) == ()`` (``tests/replay.py``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo, TopicPartition

_Unstamped = Callable[..., ev.Event]


def diff(old: Cluster, new: Cluster, *, first_sequence: int = 1, **common: Any) -> tuple[ev.Event, ...]:
    """Return what happened between two snapshots, in an order that can be replayed.

    Brokers that joined or changed come first; then topics removed, what happened to those that stayed, topics
    added, each by name; brokers that left come last. A partition that is offline when it is first seen yields
    a `PartitionOffline` of its own, so that every outage has a beginning.

    Args:
        old: The earlier snapshot.
        new: The later snapshot; the events carry its generation and cluster id.
        first_sequence: The sequence number of the first event.
        **common: Other fields that all of them have, such as ``wall_time`` and ``initial``; see `Event`.
    """
    if old is new:
        return ()
    common |= {"cluster_id": new.cluster_id, "generation": new.generation}
    return tuple(make(sequence=n, **common) for n, make in enumerate(_changes(old, new), first_sequence))


def _changes(old: Cluster, new: Cluster) -> Iterator[_Unstamped]:
    for node in new.nodes.values():
        known = old.nodes.get(node.id)
        if known is None:
            yield partial(ev.BrokerAdded, new=node)
        elif known != node:
            yield partial(ev.BrokerChanged, old=known, new=node)

    # Unchanged topics keep their object: most are skipped here.
    changed = sorted(name for name, info in new.by_topic.items() if old.by_topic.get(name) is not info)
    for name in sorted(old.by_topic.keys() - new.by_topic.keys()):
        gone = old.by_topic[name]
        yield partial(ev.TopicRemoved, topic=name, topic_id=gone.topic_id, old=gone)
    for name in changed:
        if (before := old.by_topic.get(name)) is not None:
            yield from _topic_changes(before, new.by_topic[name])
    for name in changed:
        if name not in old.by_topic:
            added = new.by_topic[name]
            yield partial(ev.TopicAdded, topic=name, topic_id=added.topic_id, new=added)
            yield from _born_offline(added)

    for id_ in sorted(old.nodes.keys() - new.nodes.keys()):
        yield partial(ev.BrokerRemoved, old=old.nodes[id_])


def _topic_changes(old: TopicInfo, new: TopicInfo) -> Iterator[_Unstamped]:
    about: dict[str, Any] = {"topic": new.name, "topic_id": new.topic_id}
    shrunk = len(new.partitions) < len(old.partitions)
    if shrunk or (old.topic_id != new.topic_id and old.topic_id is not None):
        yield partial(ev.TopicRecreated, **about, old=old, new=new)
        yield from _born_offline(new)
        return
    if old.topic_id != new.topic_id:
        yield partial(ev.TopicIdLearned, **about, old=old, new=new)
    if len(new.partitions) > len(old.partitions):
        yield partial(ev.PartitionsAdded, **about, old=old, new=new)
        yield from _born_offline(new, first=len(old.partitions))
    for before, after in zip(old.partitions, new.partitions, strict=False):
        if before is not after and before != after:
            for kind in _partition_changes(before, after):
                yield partial(kind, **about, partition=after.partition, old=before, new=after)


def _born_offline(topic: TopicInfo, first: int = 0) -> Iterator[_Unstamped]:
    about: dict[str, Any] = {"topic": topic.name, "topic_id": topic.topic_id}
    for p in topic.partitions[first:]:
        if not p.online:
            yield partial(ev.PartitionOffline, **about, partition=p.partition, old=p, new=p)


def _partition_changes(old: PartitionInfo, new: PartitionInfo) -> Iterator[type[ev.PartitionEvent]]:
    if old.online and not new.online:
        yield ev.PartitionOffline
    elif new.online and not old.online:
        yield ev.PartitionOnline
    elif (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch):
        yield ev.LeaderChanged
    if old.isr != new.isr:
        yield ev.IsrChanged
    if old.replicas != new.replicas:
        yield ev.ReplicasChanged


def changed_partitions(events: Iterable[ev.Event]) -> Mapping[TopicPartition, PartitionInfo]:
    """Return the partitions that the events add or alter, with what they are now (KIP-34's map)."""
    changed: dict[TopicPartition, PartitionInfo] = {}
    for event in events:
        match event:
            case ev.TopicAdded(new=info) | ev.TopicRecreated(new=info):
                changed.update((p.tp, p) for p in info.partitions)
            case ev.PartitionsAdded():
                changed.update((p.tp, p) for p in event.added)
            case ev.PartitionEvent(new=partition):
                changed[partition.tp] = partition
            case ev.Resync(cluster=cluster):
                changed = {p.tp: p for info in cluster.by_topic.values() for p in info.partitions}
            case _:
                pass
    return MappingProxyType(changed)
