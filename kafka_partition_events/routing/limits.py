"""What a producer leaves alone although it is there: new partitions, for the time being. Pure.

Limits say of how many partitions of a topic only the first are used. They are applied to a snapshot *before*
routes are compiled from it. So where none is in force nothing is done, and choosing a partition costs the
same with and without: a route under a limit is that of a topic with fewer partitions, for keys too.
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve

from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo
from kafka_partition_events.routing.table import Route, compile_route

Limits = Mapping[str, int]
"""Topics of which only the partitions below a number are used. Their keys go to their hash modulo that."""

NO_LIMITS: Limits = MappingProxyType({})


def limited_topic(info: TopicInfo, limits: Limits) -> TopicInfo:
    """Return the topic as producers are to see it; the same object if no limit concerns it."""
    count = limits.get(info.name, len(info.partitions))
    return info if count >= len(info.partitions) else evolve(info, partitions=info.partitions[:count])


def limited(cluster: Cluster, limits: Limits, known: Mapping[str, Route]) -> Cluster:
    """Return the cluster as producers are to see it.

    A topic that is as it was when its known route was compiled keeps its object, and so its route.
    """
    if not limits:
        return cluster
    topics = {}
    for name, info in cluster.by_topic.items():
        left, before = limited_topic(info, limits), known.get(name)
        topics[name] = before.info if before is not None and before.info == left else left
    return evolve(cluster, by_topic=topics)


def unseen_routes(limits: Limits) -> dict[str, Route]:
    """Return routes of the limited topics, that no snapshot has.

    Who set the limit knew that there are as many partitions. A client that chose itself might know more.
    """
    assumed = {  # online, and led by no broker that there is
        topic: TopicInfo(topic, tuple(PartitionInfo(topic, n, leader=-1) for n in range(count)))
        for topic, count in limits.items()
    }
    return {topic: compile_route(info) for topic, info in assumed.items()}
