"""Events applied to a snapshot: what a listener believes that has them and nothing else."""

from collections.abc import Iterable

from attrs import evolve

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, Node, TopicInfo


def apply(cluster: Cluster, events: Iterable[ev.Event]) -> Cluster:
    """Return the snapshot after the events. Events that say nothing about the cluster are passed over."""
    nodes = dict(cluster.nodes)
    topics = dict(cluster.by_topic)
    cluster_id, generation = cluster.cluster_id, cluster.generation
    for event in events:
        cluster_id, generation = event.cluster_id, event.generation
        _apply_one(nodes, topics, event)
    return Cluster(nodes=nodes, by_topic=topics, cluster_id=cluster_id, generation=generation)


def _apply_one(nodes: dict[int, Node], topics: dict[str, TopicInfo], event: ev.Event) -> None:
    match event:
        case ev.BrokerAdded(new=node) | ev.BrokerChanged(new=node):
            nodes[node.id] = node
        case ev.BrokerRemoved(old=node):
            nodes.pop(node.id, None)
        case ev.TopicRemoved(topic=name):
            topics.pop(name, None)
        case ev.TopicAdded(new=info) | ev.TopicRecreated(new=info):
            topics[info.name] = info
        case ev.TopicIdLearned(new=info) | ev.PartitionsAdded(new=info):
            topics[info.name] = info
        case ev.PartitionEvent(topic=name, new=partition):
            partitions = list(topics[name].partitions)
            partitions[partition.partition] = partition
            topics[name] = evolve(topics[name], partitions=tuple(partitions))
        case ev.Resync(cluster=current):
            nodes.clear()
            nodes.update(current.nodes)
            topics.clear()
            topics.update(current.by_topic)
