"""Topics by their replicas, all of them in sync, and brokers with racks."""

from collections.abc import Mapping, Sequence

from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo

Rows = Sequence[Sequence[int]]


def topic(rows: Rows, name: str = "orders", *, isr: Mapping[int, Sequence[int]] | None = None) -> TopicInfo:
    """Return a topic; ``isr`` names the in-sync replicas of partitions that have not all of them.

    Whoever is in sync and comes first leads.
    """
    partitions = []
    for number, replicas in enumerate(rows):
        synced = tuple((isr or {}).get(number, replicas))
        leader = synced[0] if synced else None
        partitions.append(PartitionInfo(name, number, leader, tuple(replicas), synced))
    return TopicInfo(name, tuple(partitions))


def around(count: int, brokers: int, factor: int) -> Rows:
    """Place replicas as round robin does."""
    return [[1 + (number + shift) % brokers for shift in range(factor)] for number in range(count)]


def world(*topics: TopicInfo, brokers: int, racks: str | None = None) -> Cluster:
    """Return a snapshot with brokers from 1; of ``racks`` each letter is a broker's."""
    nodes = [Node(id_, f"b{id_}", 9092, racks[id_ - 1] if racks else None) for id_ in range(1, brokers + 1)]
    return Cluster(nodes=nodes, by_topic=topics, cluster_id="c-1", generation=1)
