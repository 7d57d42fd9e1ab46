"""How far a consumer group is with some partitions, told from what brokers say of it. Pure.

*assigned* and *drained* are as brokers say. *positioned* is an offset that the group has committed; or, which
is weaker, a complete assignment that stands unchanged for a while (see `Settling`). *flowing* is a commit
beyond where the partition's log begins. A group that began elsewhere and commits that without having read
anything, as the Java client does of itself, seems to flow too soon; nobody outside can tell.

A partition is *drained* when the group has committed its end. Where transactions write, the mark of the last
one takes the last offset, and clients differ in whether they commit it.
"""

from collections.abc import Collection, Mapping
from typing import Final

from attrs import evolve, field, frozen

from kafka_partition_events.control.protocol.records import NO_PARTITIONS
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Status
from kafka_partition_events.metadata.cluster import TopicPartition

STABLE: Final = "STABLE"
DEAD: Final = "DEAD"


@frozen(kw_only=True)
class Member:
    """A member of a group.

    Attributes:
        member_id: The broker's name for it.
        host: From where it has connected.
        assigned: What it has.
        target: What it is to have (KIP-848); None: the same.
    """

    member_id: str
    host: str = ""
    assigned: frozenset[TopicPartition] = frozenset()
    target: frozenset[TopicPartition] | None = None


@frozen(kw_only=True)
class Group:
    """A group as brokers describe it.

    Attributes:
        group_id: Its name.
        protocol: ``"classic"``, or ``"consumer"`` (KIP-848).
        state: Kafka's word, in capitals: ``"STABLE"``. One that does not exist is `DEAD`.
        members: Its members.
    """

    group_id: str
    protocol: str = "classic"
    state: str = STABLE
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

    def shares(self, topic: str) -> frozenset[tuple[str, int]]:
        """Return who has which partition of a topic: member ids and partitions."""
        return frozenset(
            (m.member_id, tp.partition) for m in self.members for tp in m.assigned if tp.topic == topic
        )


@frozen(kw_only=True)
class Offsets:
    """What is known of a topic's partitions, by partition; those that are missing are not known.

    Attributes:
        committed: Where the group is.
        begin: Where logs begin.
        end: Where they end.
    """

    committed: Mapping[int, int] = field(factory=dict)
    begin: Mapping[int, int] = field(factory=dict)
    end: Mapping[int, int] = field(factory=dict)


@frozen(kw_only=True)
class Standing:
    """How far a group is with some partitions, which are among them.

    Attributes:
        members: How many members the group has.
        owned: How many partitions of the topic are assigned to them, of all.
        assigned: Those that are,
        positioned: those with a position that a restart keeps,
        flowing: those with a commit beyond their beginning,
        drained: and those that were read to their end.
    """

    members: int
    owned: int
    assigned: frozenset[int] = NO_PARTITIONS
    positioned: frozenset[int] = NO_PARTITIONS
    flowing: frozenset[int] = NO_PARTITIONS
    drained: frozenset[int] = NO_PARTITIONS

    def status(self, spec: Spec) -> Status:
        """Return the word for it: applied if the group has followed, else observed."""
        followed = self.positioned if spec.kind.grows else self.drained
        return Status.APPLIED if spec.affected and spec.affected <= followed else Status.OBSERVED


@frozen
class Settling:
    """Since when a group's complete assignment of a topic stands unchanged.

    That is as good as a position only if no member dies before its first commit: where a group begins at the
    end is looked up after the assignment, and kept in the member's memory.
    """

    shares: frozenset[tuple[str, int]] = frozenset()
    since_ms: int | None = None

    def looked(self, group: Group, topic: str, affected: Collection[int], now_ms: int) -> "Settling":
        """Return the memory after a look.

        Args:
            group: The group.
            topic: The topic.
            affected: Partitions that must all be assigned.
            now_ms: The time, which must not go back.
        """
        shares = group.shares(topic)
        if not group.stable or not set(affected) <= {partition for _, partition in shares}:
            return Settling()
        if self.since_ms is not None and shares == self.shares:
            return self
        return Settling(shares, now_ms)

    def settled(self, settle_s: float, now_ms: int) -> bool:
        """Tell whether it has stood for so many seconds; never for 0."""
        return settle_s > 0 and self.since_ms is not None and now_ms >= self.since_ms + 1_000 * settle_s


def standing(
    group: Group, topic: str, affected: Collection[int], offsets: Offsets, *, settled: bool = False
) -> Standing:
    """Return how far a group is.

    Args:
        group: The group.
        topic: The topic.
        affected: The partitions in question.
        offsets: Where the group is, and the logs are.
        settled: Whether its assignment has stood long enough to be a position.
    """
    shares = group.shares(topic)
    has = {partition for _, partition in shares}
    committed, begin, end = offsets.committed, offsets.begin, offsets.end
    levels = Standing(
        members=len(group.members),
        owned=len(has),
        assigned=frozenset(p for p in affected if p in has),
        positioned=frozenset(p for p in affected if p in committed),
        flowing=frozenset(p for p in affected if p in begin and committed.get(p, -1) > begin[p]),
        drained=frozenset(p for p in affected if p in end and _is_drained(p, offsets)),
    )
    return evolve(levels, positioned=levels.positioned | levels.assigned) if settled else levels


def _is_drained(partition: int, offsets: Offsets) -> bool:
    end = offsets.end[partition]
    return offsets.committed.get(partition, -1) >= end or offsets.begin.get(partition) == end


def reads(group: Group, topic: str, *, did: bool, commits: Collection[str]) -> bool | None:
    """Tell whether a group reads a topic, so that somebody must wait for it.

    While a classic group rebalances nobody can see who has what; then what was seen before counts, or what it
    has committed. A group without members, or whose members assign by hand, is not among the readers.

    Args:
        group: The group.
        topic: The topic.
        did: Whether it was a reader when it was last seen.
        commits: The topics that it has an offset of.

    Returns:
        None if it can't be told: its members are rebalancing, and nothing else is known of it.
    """
    if not group.members:
        return False
    if topic in group.topics:
        return True
    if group.state == STABLE:
        return False
    if did or topic in commits:
        return True
    return False if group.topics or commits else None
