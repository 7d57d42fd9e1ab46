"""What a snapshot says, as readings of metric families. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kafka_partition_events.diagnose.replicas import UNEXPOSED, Exposure, exposure_of
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, PartitionInfo
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.families import Reading, Values, single

OTHER: Final = "__other__"
"""The topic label that stands for all topics beyond the limit."""


@frozen(kw_only=True)
class Tally:
    """What is counted of a snapshot.

    Attributes:
        cluster: The snapshot.
        under_replicated: Partitions with fewer in-sync replicas than replicas.
        not_preferred: Partitions that another replica than the first leads.
        offline: Partitions without a leader, by topic that has some.
        leaders: Partitions led, by broker that leads some.
        replicas: Replicas assigned, by broker that has some.
        exposure: Partitions without a safe alternative.
    """

    cluster: Cluster = EMPTY
    under_replicated: int = 0
    not_preferred: int = 0
    offline: Mapping[str, int] = MappingProxyType({})
    leaders: Mapping[int, int] = MappingProxyType({})
    replicas: Mapping[int, int] = MappingProxyType({})
    exposure: Exposure = UNEXPOSED


NOTHING: Final = Tally()
"""The tally of no snapshot at all."""


def readings_of(counts: Tally, max_topics: int) -> Iterator[Reading]:
    """Yield everything that depends on nothing but the snapshot.

    Args:
        counts: What was counted of it.
        max_topics: How many topics have series of their own in a family.
    """
    cluster = counts.cluster
    sizes = {name: len(info.partitions) for name, info in cluster.by_topic.items()}
    exposed = counts.exposure.by_topic
    yield from _cluster_readings(counts, sum(sizes.values()))
    for family, numbers in (
        (fam.TOPIC_PARTITIONS, sizes),
        (fam.TOPIC_OFFLINE, {name: counts.offline.get(name, 0) for name in sizes}),
        (fam.WITHOUT_ALTERNATIVE, {name: exposed.get(name, 0) for name in sizes}),
    ):
        yield family, limited(numbers, max_topics)


def tally(cluster: Cluster, last: Tally = NOTHING) -> Tally:
    """Count a snapshot, given what was counted of another one: what they share is not counted again.

    There may be hundreds of thousands of partitions, and the snapshots of one poller share all that did not
    change from one to the next. The result is the same whatever was counted last.
    """
    under_replicated, not_preferred = last.under_replicated, last.not_preferred
    offline, leaders, replicas = Counter(last.offline), Counter(last.leaders), Counter(last.replicas)
    for p, times in _differences(last.cluster, cluster):
        if p.leader is None:
            offline[p.topic] += times
        else:
            leaders[p.leader] += times
            not_preferred += times * (not _is_preferred(p))
        under_replicated += times * _is_under_replicated(p)
        for broker in p.replicas:
            replicas[broker] += times
    return Tally(
        cluster=cluster,
        under_replicated=under_replicated,
        not_preferred=not_preferred,
        offline=+offline,  # without those that are down to 0
        leaders=+leaders,
        replicas=+replicas,
        exposure=exposure_of(cluster, last.exposure),
    )


def _differences(before: Cluster, after: Cluster) -> Iterator[tuple[PartitionInfo, int]]:
    """Yield what to count -1 times, and what once, to get from one snapshot to the other."""
    for name in before.by_topic.keys() | after.by_topic.keys():
        old, new = before.by_topic.get(name), after.by_topic.get(name)
        if old is new:
            continue
        for gone, come in zip_longest(old.partitions if old else (), new.partitions if new else ()):
            if gone is come:
                continue
            if gone is not None:
                yield gone, -1
            if come is not None:
                yield come, 1


def limited(by_topic: Mapping[str, int], limit: int) -> Values:
    """Return all topics' values; beyond the limit only the largest that are not 0, and the others' sum."""
    if len(by_topic) <= limit:
        return {(topic,): value for topic, value in by_topic.items()}
    largest = sorted(by_topic, key=lambda topic: (-by_topic[topic], topic))[:limit]
    values: dict[tuple[str, ...], float] = {(topic,): by_topic[topic] for topic in largest if by_topic[topic]}
    rest = sum(by_topic.values()) - sum(values.values())
    values[OTHER,] = values.get((OTHER,), 0) + rest  # Kafka allows a topic of that name
    return values


def _cluster_readings(counts: Tally, partitions: int) -> Iterable[Reading]:
    listed = counts.cluster.nodes.keys()
    known = sorted(listed | counts.replicas.keys())
    yield single(fam.BROKERS, len(listed))
    yield single(fam.TOPICS, len(counts.cluster.by_topic))
    yield single(fam.PARTITIONS, partitions)
    yield single(fam.OFFLINE, sum(counts.offline.values()))
    yield single(fam.UNDER_REPLICATED, counts.under_replicated)
    yield single(fam.NOT_PREFERRED, counts.not_preferred)
    yield fam.BROKER_LEADERS, {(str(b),): counts.leaders.get(b, 0) for b in known}
    yield fam.BROKER_REPLICAS, {(str(b),): counts.replicas.get(b, 0) for b in known}
    yield fam.BROKER_OFFLINE, {(str(b),): 0 if b in listed else counts.replicas.get(b, 0) for b in known}


def _is_preferred(partition: PartitionInfo) -> bool:
    """Return whether the first replica leads; if the replicas are not known, any leader will do."""
    return partition.online and (not partition.replicas or partition.leader == partition.replicas[0])


def _is_under_replicated(partition: PartitionInfo) -> bool:
    return len(partition.isr) < len(partition.replicas)
