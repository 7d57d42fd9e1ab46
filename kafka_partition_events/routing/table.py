"""Ready-to-use routes, compiled from a snapshot, a budget and limits. Pure.

Choosing a partition reads tuples that were computed when the metadata changed, so a choice costs the same at
3 and at 10,000 partitions.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from attrs import evolve, field, frozen

from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from kafka_partition_events.routing.budget import BufferBudget, Share


@frozen
class Avoidance:
    """What to keep unkeyed records from. Where only this is left it is used nevertheless.

    Attributes:
        leaders: Brokers that do not answer for partitions that they lead.
        replicas: Brokers that hold up partitions that they follow.
        blocked: Brokers whose connection is held up by a record that waits for another broker (head-of-line
            blocking).
        down: Those of ``leaders`` that the client cannot even connect to.
        partitions: Topics and partitions that take nothing although their brokers answer for others.
    """

    leaders: frozenset[int] = frozenset()
    replicas: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    down: frozenset[int] = frozenset()
    partitions: frozenset[tuple[str, int]] = frozenset()

    @property
    def suspect(self) -> frozenset[int]:
        """The brokers that are to blame, as leaders or as replicas."""
        return self.leaders | self.replicas

    def __bool__(self) -> bool:
        return bool(self.leaders or self.replicas or self.blocked or self.partitions)


NOTHING = Avoidance()
"""Where every broker is trusted."""


@frozen(eq=False)
class Route:
    """One topic's partitions, sorted by id in every tuple. The tuples are one object where they are equal.

    Attributes:
        info: What the route was compiled from.
        share: What the budget granted; None: all.
        all: Every partition.
        online: Those with a leader.
        admitted: Those that the budget chose; all without a budget.
        admitted_online: Admitted ones that are online, and stand-ins for admitted ones that are not.
        usable: Where unkeyed records go: the first of ``admitted_online``, ``online``, ``admitted`` and
            ``all`` that is not empty. A topic without an online partition still takes records (fail open).
            Partitions that need a suspect are left out where others remain; see `avoiding`.
        usable_set: The same as a set.
        avoided: Partitions that would be usable if no broker that they need were suspect.
    """

    info: TopicInfo
    share: Share | None
    all: tuple[int, ...]
    online: tuple[int, ...]
    admitted: tuple[int, ...]
    admitted_online: tuple[int, ...]
    trusted: tuple[int, ...] | None = None
    """What `avoiding` leaves of the usable ones; None when nothing is avoided."""
    safe: frozenset[int] | None = None
    """The online ones that need none that is avoided; None when nothing is avoided."""
    held_up: frozenset[int] = frozenset()
    """Those that wait for a suspect replica: a record there is in the way of all that its leader gets. And
    those whose leader can't be connected to: that is no mistake which an answer could show."""
    usable: tuple[int, ...] = field(init=False)
    usable_set: frozenset[int] = field(init=False)
    avoided: tuple[int, ...] = field(init=False, default=())
    _avoided_set: frozenset[int] = field(init=False, default=frozenset())
    count: int = field(init=False)
    """How many partitions the topic has: the modulus of key hashes."""

    def __attrs_post_init__(self) -> None:
        usable = self.admitted_online or self.online or self.admitted or self.all
        if self.trusted is not None:
            usable, known = self.trusted, usable
            object.__setattr__(self, "_avoided_set", _as_set(known) - _as_set(usable))
            object.__setattr__(self, "avoided", tuple(p for p in known if p in self._avoided_set))
        object.__setattr__(self, "usable", usable)
        object.__setattr__(self, "usable_set", _as_set(usable))
        object.__setattr__(self, "count", len(self.all))

    @property
    def capped(self) -> bool:
        """Whether the budget leaves partitions out."""
        return len(self.admitted) < len(self.all)

    @property
    def rerouted(self) -> bool:
        """Whether an admitted partition is offline, so that its unkeyed records go elsewhere."""
        return self.admitted_online is not self.admitted

    def is_online(self, partition: int) -> bool:
        """Return whether a partition of this topic has a leader."""
        return self.info.partitions[partition].leader is not None

    def leader(self, partition: int) -> int | None:
        """Return the broker that leads a partition of this topic; None when it is offline."""
        return self.info.partitions[partition].leader

    def avoids(self, partition: int) -> bool:
        """Return whether a partition is among the ``avoided`` ones, in constant time."""
        return partition in self._avoided_set

    def is_safe(self, partition: int) -> bool:
        """Return whether a partition needs none that is avoided, as far as is known."""
        return self.safe is None or partition in self.safe

    def avoiding(self, avoidance: Avoidance) -> "Route":
        """Return the route without the partitions that need a suspect, as far as others remain.

        Nothing stands in for them as long as some of the cap's choice remains: a suspicion may be over in a
        moment, and a partition more takes a batch of the budget. Where every partition needs a suspect, those
        are left whose leader is none; then those whose broker can be connected to; else all.
        """
        name, partitions = self.info.name, self.info.partitions
        led_well = [
            p
            for p in self.online
            if (leader := partitions[p].leader) not in avoidance.leaders
            and leader not in avoidance.blocked
            and (name, p) not in avoidance.partitions
        ]
        held_up, replicas, down = frozenset[int](), avoidance.replicas, avoidance.down
        if replicas or down:
            held_up = frozenset(
                p for p in self.online
                if partitions[p].leader in down or not replicas.isdisjoint(partitions[p].followers)
            )  # fmt: skip
        safe = [p for p in led_well if p not in held_up]
        if len(safe) == len(self.online):
            return self
        spared = safe or led_well or [p for p in self.online if partitions[p].leader not in avoidance.down]
        known = frozenset(safe)
        if not spared:
            return evolve(self, safe=known, held_up=held_up)
        left = frozenset(spared)
        admitted = tuple(p for p in self.admitted_online if p in left)
        trusted = admitted or (tuple(spared) if self.share is None else self.share.among(spared))
        return evolve(self, trusted=trusted, safe=known, held_up=held_up)


@lru_cache(maxsize=256)
def _ids(count: int) -> tuple[int, ...]:
    return tuple(range(count))


@lru_cache(maxsize=256)
def _as_set(ids: tuple[int, ...]) -> frozenset[int]:
    return frozenset(ids)


def compile_route(info: TopicInfo, share: Share | None = None, limit: int | None = None) -> Route:
    """Compile one topic's route, as if it had no partitions from the limit on; None: of all."""
    partitions = info.partitions[:limit]
    every = _ids(len(partitions))
    online = tuple(p.partition for p in partitions if p.leader is not None)
    if len(online) == len(every):
        online = every
    if share is None:
        return Route(info, share, every, online, every, online)
    admitted, present = share.among(every), share.among(online)
    return Route(info, share, every, online, admitted, admitted if present == admitted else present)


def compile_routes(
    cluster: Cluster,
    budget: BufferBudget | None = None,
    before: Mapping[str, Route] = MappingProxyType({}),
    limits: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Route]:
    """Compile every route; topics that did not change keep their `Route` object.

    Args:
        cluster: The snapshot.
        budget: The cap; None admits every partition.
        before: The routes to be replaced.
        limits: Topics of which only the partitions below a number are used, by unkeyed records and by keys.
            Choosing a partition costs the same with and without.
    """
    shares, routes = dict[str, Share](), dict[str, Route]()
    if budget is not None:
        ours = (info for info in cluster.by_topic.values() if not info.internal)
        shares |= budget.admit({info.name: len(info.partitions[: limits.get(info.name)]) for info in ours})
    for name, info in cluster.by_topic.items():
        limit, share, route = limits.get(name), shares.get(name), before.get(name)
        count = len(info.partitions[:limit])
        if route is None or route.info is not info or route.share != share or route.count != count:
            route = compile_route(info, share, limit)
        routes[name] = route
    return routes
