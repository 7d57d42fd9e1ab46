"""What can still be written if one broker hangs. Pure.

With ``acks=all`` a write waits for every in-sync replica. A broker that hangs stays in sync until its session
ends (``broker.session.timeout.ms``, 9 s) or it lags too long (``replica.lag.time.max.ms``, 30 s). Until then
it blocks every partition that it is an in-sync replica of. Partitioners can place records on other partitions
of the topic, if there are any that it does not block: those are the *safe alternative*.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from attrs import frozen

from kafka_partition_events.metadata.cluster import EMPTY, Cluster, PartitionInfo, TopicInfo


@frozen(kw_only=True)
class BrokerOutage:
    """What of a topic can be written with ``acks=all`` if one broker fails.

    Attributes:
        broker: Its id.
        hanging: Partitions that can be written while it hangs: it is in sync and does not answer.
        out: Partitions that can be written once it is no longer in sync; None if that is unknown
            ``min.insync.replicas``.
    """

    broker: int
    hanging: int
    out: int | None


@frozen(kw_only=True)
class TopicOutages:
    """What of a topic can be written with ``acks=all``, now and if one broker fails.

    Attributes:
        topic: Its name.
        partitions: How many it has.
        writable: How many can be written now: with a leader, and ``min.insync.replicas`` or all in sync.
        min_insync_replicas: As the topic has it; None if that is unknown.
        brokers: The brokers that some partition has in sync, the worst first; no other one blocks any.
        without_safe_alternative: Partitions that a broker can block together with all others of the topic.
    """

    topic: str
    partitions: int
    writable: int
    min_insync_replicas: int | None
    brokers: tuple[BrokerOutage, ...]
    without_safe_alternative: int

    @property
    def hanging(self) -> int:
        """Partitions that can be written while the worst broker hangs."""
        return min((broker.hanging for broker in self.brokers), default=self.writable)

    @property
    def out(self) -> int | None:
        """Partitions that can be written once any one broker is out of sync; None if that is unknown."""
        if self.min_insync_replicas is None:
            return None
        return min((broker.out for broker in self.brokers if broker.out is not None), default=self.writable)


def outages_of(info: TopicInfo, min_insync_replicas: int | None = None) -> TopicOutages:
    """Return what of a topic can be written if one broker fails.

    Where ``min_insync_replicas`` is unknown (None), each partition with a leader can be written now.
    """
    known, least = min_insync_replicas is not None, min_insync_replicas or 1
    # Kafka asks for no more in sync than there are: of one replica for one, also where the setting is 2.
    asked = ((waits_for(p), min(least, len(p.replicas) or least)) for p in info.partitions)
    waits = [(brokers, needed) for brokers, needed in asked if len(brokers) >= needed]
    blocked = Counter(broker for brokers, _ in waits for broker in brokers)
    last = Counter(broker for brokers, needed in waits if len(brokers) == needed for broker in brokers)
    writable = len(waits)
    found = [
        BrokerOutage(broker=broker, hanging=writable - count, out=writable - last[broker] if known else None)
        for broker, count in blocked.items()
    ]
    return TopicOutages(
        topic=info.name,
        partitions=len(info.partitions),
        writable=writable,
        min_insync_replicas=min_insync_replicas,
        brokers=tuple(sorted(found, key=lambda outage: (outage.hanging, outage.broker))),
        without_safe_alternative=writable if any(outage.hanging == 0 for outage in found) else 0,
    )


def waits_for(partition: PartitionInfo) -> frozenset[int]:
    """Return the brokers that a write with ``acks=all`` waits for; none if the partition has no leader.

    The leader is one of them, also where a client names no in-sync replicas.
    """
    return frozenset() if partition.leader is None else frozenset((partition.leader, *partition.isr))


def blockers(info: TopicInfo) -> frozenset[int]:
    """Return the brokers each of which, if it hangs, blocks all partitions that have a leader."""
    needed = (brokers for p in info.partitions if (brokers := waits_for(p)))
    common = next(needed, frozenset())
    for brokers in needed:
        common &= brokers
        if not common:
            break  # which most topics that are spread come to soon
    return common


@frozen(kw_only=True)
class Exposure:
    """Partitions without a safe alternative in one snapshot, by topic that has some.

    ``min.insync.replicas`` is not considered: metadata does not have it.
    """

    cluster: Cluster = EMPTY
    by_topic: Mapping[str, int] = MappingProxyType({})


UNEXPOSED: Final = Exposure()
"""The exposure of no snapshot at all."""


def exposure_of(cluster: Cluster, last: Exposure = UNEXPOSED) -> Exposure:
    """Count a snapshot, given what was counted of another one: topics that both share are taken over."""
    if cluster is last.cluster:
        return last
    before, known = last.cluster.by_topic, last.by_topic
    counts = {
        name: known.get(name, 0) if before.get(name) is info else _without_safe_alternative(info)
        for name, info in cluster.by_topic.items()
    }
    return Exposure(cluster=cluster, by_topic={name: count for name, count in counts.items() if count})


def _without_safe_alternative(info: TopicInfo) -> int:
    return sum(p.leader is not None for p in info.partitions) if blockers(info) else 0


def outages(topics: Iterable[TopicInfo], min_insync_replicas: Mapping[str, int]) -> tuple[TopicOutages, ...]:
    """Return what of each topic can be written if one broker fails, the worst topic first.

    The worst is the one of which most cannot be written now, or has no safe alternative; then by share.

    ``min_insync_replicas`` is as the topics have it; one that is missing is unknown.
    """
    found = [outages_of(info, min_insync_replicas.get(info.name)) for info in topics]
    return tuple(sorted(found, key=_badness))


def _badness(topic: TopicOutages) -> tuple[int, float, str]:
    exposed = topic.partitions - topic.writable + topic.without_safe_alternative
    return -exposed, topic.hanging / max(1, topic.partitions), topic.topic
