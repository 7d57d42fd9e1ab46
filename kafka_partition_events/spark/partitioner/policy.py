"""What to do about partitions that are offline or beyond a cap, and what follows for each topic. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, get_args

from attrs import evolve, frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from kafka_partition_events.routing.avoidance import Avoidance
from kafka_partition_events.routing.budget import NO_ADMISSION, BufferBudget, Share
from kafka_partition_events.routing.table import compile_route
from kafka_partition_events.spark.errors import UnknownPartitionError

OfflinePolicy = Literal["pin", "reroute", "raise"]
Cap = BufferBudget | Mapping[str, Share] | Mapping[str, Collection[int]]


@frozen(kw_only=True)
class PartitionPolicy:
    """How rows find their partitions.

    Attributes:
        offline: What becomes of rows whose partition is offline. ``"reroute"``: those without a key go to
            other partitions; those with a key keep theirs, because their order comes first, and wait there.
            ``"pin"``: all rows go where they would if nothing was offline. ``"raise"``: a row with a key, or
            one that brings its partition, fails the job with `PartitionOfflineError`; others are rerouted.
        cap: The partitions that rows without a key may go to: a `BufferBudget`, what one has granted
            (``budget.admit(cluster)``), or ids by topic; topics that are not named are not capped. A budget
            has others stand in for partitions that are offline; ids do only when none of them is online.
        reach: Seconds within which a broker must accept a connection from the driver, or else rows without a
            key avoid its partitions while others remain: for as long as the broker session (9 s by default)
            metadata does not know that a broker is dead. None does not try. Applies where this package
            fetches the metadata itself.

    Raises:
        ConfigurationError: a value is not one of its choices.
    """

    offline: OfflinePolicy = "reroute"
    cap: Cap | None = None
    reach: float | None = 1.0

    def __attrs_post_init__(self) -> None:
        """Check the values."""
        if self.offline not in get_args(OfflinePolicy):
            choices = ", ".join(get_args(OfflinePolicy))
            raise ConfigurationError(f"offline must be one of {choices}, not {self.offline!r}")
        if self.reach is not None and not self.reach > 0:
            raise ConfigurationError(f"reach must be above 0 seconds, or None, not {self.reach!r}")


@frozen(kw_only=True)
class Target:
    """What choosing needs to know of a topic.

    Attributes:
        topic: Its name.
        count: How many partitions it has: the modulus.
        usable: Where rows without a key go, ascending.
        offline: Partitions without a leader, ascending.
        avoided: Partitions that rows without a key would go to if their broker could be reached.
    """

    topic: str
    count: int
    usable: tuple[int, ...]
    offline: tuple[int, ...] = ()
    avoided: tuple[int, ...] = ()

    @property
    def uses_all(self) -> bool:
        """Whether rows without a key go to every partition."""
        return len(self.usable) == self.count


def targets_of(
    cluster: Cluster,
    policy: PartitionPolicy,
    topics: Iterable[str] | None = None,
    unreachable: frozenset[int] = frozenset(),
) -> dict[str, Target]:
    """Return what choosing needs to know, by topic.

    Args:
        cluster: The snapshot.
        policy: What to do about what is offline.
        topics: The topics that are written, between which a budget is shared; None: all but Kafka's own.
        unreachable: Brokers to keep rows without a key from.

    Raises:
        UnknownPartitionError: the snapshot lacks a topic, or the cap names a partition that is not there.
    """
    written = evolve(cluster, by_topic=_written(cluster, topics))
    shares = _shares(written, policy.cap)
    avoidance = Avoidance(leaders=unreachable, down=unreachable)
    targets = {}
    for name, info in written.by_topic.items():
        route = compile_route(info, shares.get(name))
        if policy.offline == "pin":
            usable: tuple[int, ...] = route.admitted
        else:
            route = route.avoiding(avoidance)
            usable = route.usable
        targets[name] = Target(
            topic=name,
            count=route.count,
            usable=usable,
            offline=tuple(p.partition for p in info.partitions if not p.online),
            avoided=route.avoided,
        )
    return targets


def _written(cluster: Cluster, topics: Iterable[str] | None) -> list[TopicInfo]:
    if topics is None:
        return [info for info in cluster.by_topic.values() if info.partitions and not info.internal]
    found = []
    for name in sorted(set(topics)):
        info = cluster.by_topic.get(name)
        if info is None or not info.partitions:
            raise UnknownPartitionError(f"the metadata snapshot has no topic {name!r}")
        found.append(info)
    return found


def _shares(cluster: Cluster, cap: Cap | None) -> Mapping[str, Share]:
    if cap is None:
        return NO_ADMISSION
    if isinstance(cap, BufferBudget):
        return cap.admit(cluster)
    return {name: _share(info, cap[name]) for name, info in cluster.by_topic.items() if name in cap}


def _share(info: TopicInfo, granted: Share | Collection[int]) -> Share:
    count = len(info.partitions)
    chosen = tuple(sorted(set(granted.chosen if isinstance(granted, Share) else granted)))
    foreign = [partition for partition in chosen if not 0 <= partition < count]
    if foreign or not chosen:
        named = f"partitions {foreign}" if foreign else "no partition"
        raise UnknownPartitionError(f"the cap of topic {info.name} names {named}; it has 0 to {count - 1}")
    if len(chosen) == count:
        return Share(chosen)
    ranking = granted.ranking if isinstance(granted, Share) else None
    return Share(chosen, chosen if ranking is None else tuple(p for p in ranking if p < count))
