"""What a producer leaves alone although it is there: new partitions for the time being, planned work. Pure.

Limits are applied to a snapshot *before* routes are compiled from it. So where none is in force nothing is
done, and choosing a partition costs the same with and without: a route under a limit is that of a topic with
fewer partitions, for keys too, and what is planned to go offline is offline already.
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, field, frozen

from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo
from kafka_partition_events.routing.table import Route, compile_route


def _frozen(mapping: Mapping[str, object]) -> Mapping[str, object]:
    return MappingProxyType(dict(mapping))


@frozen(kw_only=True)
class Limits:
    """What to leave alone.

    Attributes:
        counts: Topics of which the partitions below a number are used only. Their keys go to their hash
            modulo that number.
        offline: Partitions of topics that are taken to be offline.
        brokers: Brokers whose partitions are.
    """

    counts: Mapping[str, int] = field(default=MappingProxyType({}), converter=_frozen)
    offline: Mapping[str, frozenset[int]] = field(default=MappingProxyType({}), converter=_frozen)
    brokers: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.counts or self.offline or self.brokers)

    def applied(self, info: TopicInfo) -> TopicInfo:
        """Return the topic as producers are to see it; the same object if no limit concerns it."""
        partitions = info.partitions[: self.counts.get(info.name)]
        leave = self.offline.get(info.name, frozenset())
        left = tuple(
            evolve(p, leader=None) if p.partition in leave or p.leader in self.brokers else p
            for p in partitions
        )
        return info if left == info.partitions else evolve(info, partitions=left)


NO_LIMITS = Limits()


def limited(cluster: Cluster, limits: Limits, known: Mapping[str, Route]) -> Cluster:
    """Return the cluster as producers are to see it.

    A topic that is as it was when its known route was compiled keeps its object, and so its route.
    """
    if not limits:
        return cluster
    topics = {}
    for name, info in cluster.by_topic.items():
        left, before = limits.applied(info), known.get(name)
        topics[name] = before.info if before is not None and before.info == left else left
    return evolve(cluster, by_topic=topics)


def unseen_routes(limits: Limits) -> dict[str, Route]:
    """Return routes of the topics with a limited count, that no snapshot has.

    Who set the limit knew that there are as many partitions. A client that chose itself might know more.
    """
    assumed = {  # online, and led by no broker that there is
        topic: TopicInfo(topic, tuple(PartitionInfo(topic, n, leader=-1) for n in range(count)))
        for topic, count in limits.counts.items()
    }
    return {topic: compile_route(limits.applied(info)) for topic, info in assumed.items()}
