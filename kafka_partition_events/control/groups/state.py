"""How far a consumer group is with some partitions, by what brokers report of it. Pure.

A position is an offset that the group has committed; or, which is weaker, a complete assignment that stands
unchanged for a while (see `Settling`).
"""

from collections.abc import Collection, Mapping
from typing import Final

from attrs import field, frozen

from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.metadata.cluster import TopicPartition

STABLE: Final = "STABLE"
DEAD: Final = "DEAD"

SETTLE_S: Final = 10.0
"""How long a group's complete assignment must stand unchanged to count as a position without a commit: the
gate was measured with it."""


@frozen(kw_only=True)
class Member:
    """A member of a group.

    Attributes:
        member_id: The broker's name for it.
        assigned: What it has.
        target: What it is to have (KIP-848); None: the same.
    """

    member_id: str
    assigned: frozenset[TopicPartition] = frozenset()
    target: frozenset[TopicPartition] | None = None


@frozen(kw_only=True)
class Group:
    """A group as brokers describe it.

    Attributes:
        group_id: Its name.
        protocol: ``"classic"``, or ``"consumer"`` (KIP-848).
        state: Kafka's word, in capitals: ``"STABLE"``. One that does not exist is `DEAD`.
        assignor: The protocol by which its members share partitions; empty where the brokers choose.
        members: Its members.
    """

    group_id: str
    protocol: str = "classic"
    state: str = STABLE
    assignor: str = ""
    members: tuple[Member, ...] = ()

    @property
    def stable(self) -> bool:
        """Whether all members have what they are to have."""
        return self.state == STABLE and all(m.target in {None, m.assigned} for m in self.members)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are assigned to members, or to be."""
        every = (tp for m in self.members for tp in m.assigned | (m.target or frozenset()))
        return frozenset(tp.topic for tp in every)

    @property
    def hides(self) -> bool:
        """Whether brokers do not report who has what: so it is while members of a classic group rebalance."""
        return bool(self.members) and not self.topics and self.state != STABLE

    def shares(self, topic: str) -> frozenset[tuple[str, int]]:
        """Return who has which partition of a topic: member ids and partitions."""
        return frozenset(
            (m.member_id, tp.partition) for m in self.members for tp in m.assigned if tp.topic == topic
        )


@frozen(kw_only=True)
class Probe:
    """What brokers have reported to one probe. A topic that is missing was not asked for, or is not known.

    Attributes:
        readers: The groups with members that read a topic, by topic.
        groups: Where the groups have a position that a change waits for, by change and group.
        unseen: The groups that could not be described though they matter, or might: their coordinator is
            loading or moving, or we may not see them. One that does not exist is not among them.
        after: The ids of the changes that had happened before the probe began. A group that began to read in
            the middle may have been missed by any sooner one.
    """

    readers: Mapping[str, frozenset[str]] = field(factory=dict)
    groups: Mapping[str, Mapping[str, PartitionSet]] = field(factory=dict)
    unseen: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()


@frozen
class Settling:
    """Since when a group's complete assignment of a topic stands unchanged.

    That is as good as a position only if no member dies before its first commit: where a group begins at the
    end is fetched after the assignment, and kept in the member's memory.
    """

    shares: frozenset[tuple[str, int]] = frozenset()
    since_ms: int | None = None

    def updated(self, group: Group, topic: str, affected: Collection[int], now_ms: int) -> "Settling":
        """Return the memory after a probe.

        All of the affected partitions must be assigned; the time must not go back.
        """
        shares = group.shares(topic)
        if not group.stable or not set(affected) <= {partition for _, partition in shares}:
            return Settling()
        if self.since_ms is not None and shares == self.shares:
            return self
        return Settling(shares, now_ms)

    def settled(self, now_ms: int) -> bool:
        """Return whether it has stood for `SETTLE_S` seconds."""
        return self.since_ms is not None and now_ms >= self.since_ms + 1_000 * SETTLE_S


def reads(group: Group, topic: str, *, did: bool) -> bool | None:
    """Return whether a group reads a topic, so that it must be waited for.

    While its members rebalance, what was seen before counts. A group without members, or whose members assign
    by hand, is not among the readers.

    `did`: it read it when it was last seen, or has committed offsets of the topic.

    Returns:
        None if its members are rebalancing, and nothing else is known of it.
    """
    if not group.members or topic in group.topics:
        return bool(group.members)
    return None if group.hides and not did else group.state != STABLE and did
