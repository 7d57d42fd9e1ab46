"""The staleness gate: what of an answer is believed. Pure.

Kafka's metadata is eventually consistent: a broker that lags, restarts or was moved to another cluster
answers with the past, with a part, or with another cluster's truth. Clients that believe every answer roll
leaders back and forget partitions. The rules, in the order in which they are applied:

====================  ==================================================================================
``no_brokers``        an answer without a broker is refused whole (aiokafka PR 297)
``foreign_cluster``   another cluster id than the first one known is refused whole, and never heals
``topic_error``       a topic that comes with an error keeps what is known of it
``incomplete``        partition ids that are not 0..n-1 are refused (franz-go)
``retired_topic_id``  an id that the topic had before is refused, for Kafka never uses one twice, until 3
                      answers agree and they came from 2 brokers or over 60 s: then the id that replaced it
                      was the old one, or the topic had only been hidden
(a new topic id)      is believed at once: the topic was re-created; epochs start again (KIP-516, KIP-320)
``shrink``            fewer partitions are refused: for ever if topic ids prove it is the same topic, else
                      until 3 answers agree and they came from 2 brokers or over 60 s
``epoch_rewind``      a lower leader epoch keeps the partition as it is, for 4 answers; the 5th is believed,
                      because an unclean election can really go back (franz-go; Java never believes it)
``missing_topic``     an absent topic is kept until 3 answers over 30 s agree; an answer to a request for
                      some topics says nothing about the others
====================  ==================================================================================

An unknown topic id, epoch or rack (None) does not undo a known one, for it may just not be proved. The rest
of a partition whose epoch is unknown is believed, a lost leader above all. Whatever is kept is still held
against the new broker list: a partition whose leader is not listed is offline, until that broker is listed
again.
"""

from collections.abc import Mapping
from typing import Final

from attrs import Factory, define, evolve, field, frozen

from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.metadata.events import MetadataRejected, Rejection
from kafka_partition_events.metadata.source import Observation


@frozen
class Limit:
    """A refusal ends with so many equal answers, over so many seconds at least or from so many brokers."""

    answers: float
    seconds: float = 0.0
    brokers: float = float("inf")


NEVER: Final = Limit(float("inf"))
CONFIRMED: Final = Limit(3, 60.0, 2)
REWOUND: Final = Limit(5)
MISSING: Final = Limit(3, 30.0)
RETIRED_IDS_KEPT: Final = 8
RETIRED_NAMES_KEPT: Final = 1_000
UNKNOWN_TOPIC: Final = "UNKNOWN_TOPIC_OR_PARTITION"

StrikeKey = tuple[Rejection, str | None, int | None]
"""Reason, topic (None: the whole answer), partition (None: the whole topic)."""


@frozen
class Strike:
    """How often in a row something was refused, since when (monotonic s), and which brokers offered it."""

    count: int
    since: float
    offered: str
    witnesses: frozenset[int] = frozenset()


@frozen
class Memory:
    """What the gate remembers from answer to answer."""

    strikes: Mapping[StrikeKey, Strike] = field(factory=dict)  # refusals that still stand
    retired: Mapping[str, tuple[str, ...]] = field(
        factory=dict
    )  # ids that each topic had before, oldest first
    unlisted: Mapping[TopicPartition, int] = field(factory=dict)
    """The leaders that partitions were named last, and are offline for: they are not listed."""


@frozen
class Reconciliation:
    """The gate's answer."""

    cluster: Cluster  # the snapshot in force from now on, the same object if nothing changed
    refusals: tuple[MetadataRejected, ...]  # what was not believed; not stamped yet
    memory: Memory  # for the next call
    good: bool = True  # False if the answer was refused whole: then it is no sign of life either


def reconcile(current: Cluster, observation: Observation, memory: Memory, now: float) -> Reconciliation:
    """Decide what of an answer is believed.

    Args:
        current: The snapshot in force; `EMPTY` before the first answer.
        observation: The answer.
        memory: What the last call returned; ``Memory()`` at first.
        now: Monotonic seconds.
    """
    gate = _Gate(current, observation, memory, now)
    if gate.refused_whole():
        after = evolve(memory, strikes={**memory.strikes, **gate.strikes})  # all that stand
        return Reconciliation(current, tuple(gate.refusals), after, good=False)
    topics = gate.merged_topics()
    return Reconciliation(gate.next_cluster(topics), tuple(gate.refusals), gate.memory_after())


@define(eq=False)
class _Gate:
    """The working state of one `reconcile` call; nothing of it outlives the call."""

    current: Cluster
    seen: Observation
    memory: Memory
    now: float
    refusals: list[MetadataRejected] = field(init=False, factory=list)
    strikes: dict[StrikeKey, Strike] = field(init=False, factory=dict)
    retired: dict[str, tuple[str, ...]] = Factory(lambda gate: dict(gate.memory.retired), takes_self=True)
    unlisted: dict[TopicPartition, int] = field(init=False, factory=dict)
    alive: set[int] = Factory(lambda gate: {node.id for node in gate.seen.nodes}, takes_self=True)

    def refused(
        self,
        reason: Rejection,
        kept: str,
        offered: str,
        topic: str | None = None,
        part: int | None = None,
        until: Limit = NEVER,
    ) -> bool:
        """Refuse what is offered, and count that; False: it is believed, for the limit is reached."""
        key = (reason, topic, part)
        last = self.memory.strikes.get(key)
        if last is None or last.offered != offered:  # something else starts the count again
            last = Strike(0, self.now, offered)
        by = self.seen.answered_by
        witnesses = last.witnesses if by is None else last.witnesses | {by}
        struck = Strike(last.count + 1, last.since, offered, witnesses)
        lasts = self.now - struck.since < until.seconds and len(witnesses) < until.brokers
        if struck.count >= until.answers and not lasts:
            return False
        self.strikes[key] = struck
        self.refusals.append(
            MetadataRejected(
                reason=reason, topic=topic, partition=part, kept=kept, offered=offered, strike=struck.count
            )
        )
        return True

    def refused_whole(self) -> bool:
        """Apply the rules that refuse an answer as a whole."""
        known_id, seen_id = self.current.cluster_id, self.seen.cluster_id
        if not self.seen.nodes:
            return self.refused(Rejection.NO_BROKERS, f"{len(self.current.nodes)} brokers", "no brokers")
        if known_id is not None and seen_id is not None and known_id != seen_id:
            return self.refused(Rejection.FOREIGN_CLUSTER, f"cluster {known_id}", f"cluster {seen_id}")
        return False

    # -- topic by topic ------------------------------------------------------------------------------

    def merged_topics(self) -> dict[str, TopicInfo]:
        """Return every topic that is in force after this answer: first what is named, then who is listed."""
        before, topics = self.current.by_topic, dict[str, TopicInfo | None]()
        for name, known in before.items():
            if name not in self.seen.topics:
                topics[name] = self.kept_topic(name, self.named(known))
        for name, seen in self.seen.topics.items():
            topics[name] = self.merged_topic(self.named(before[name]) if name in before else None, seen)
        for name, error in self.seen.errors.items():
            if name not in before and error != UNKNOWN_TOPIC:
                self.refused(Rejection.TOPIC_ERROR, "nothing", error, name)
        return {name: self.listed(info) for name, info in topics.items() if info is not None}

    def kept_topic(self, name: str, known: TopicInfo) -> TopicInfo | None:
        """Decide on a known topic that did not come, or came with an error; None removes it."""
        error = self.seen.errors.get(name)
        kept = f"{len(known.partitions)} partitions"
        if error is not None and error != UNKNOWN_TOPIC:
            self.refused(Rejection.TOPIC_ERROR, kept, error, name)
        elif error == UNKNOWN_TOPIC or self.seen.requested is None:
            if not self.refused(Rejection.MISSING_TOPIC, kept, "no such topic", name, until=MISSING):
                self.retire(known)
                return None
        else:  # not asked for, or not answered: standing strikes of this topic stay
            self.strikes.update({k: s for k, s in self.memory.strikes.items() if k[1] == name})
        return known

    def merged_topic(self, known: TopicInfo | None, offered: TopicInfo) -> TopicInfo | None:
        """Decide on a topic that came; None when it is not known and not believed either."""
        if known is not None and offered == known:
            return known
        kept = "nothing" if known is None else f"{len(known.partitions)} partitions"
        if self.gap_refused(kept, offered) or self.retired_id_refused(kept, offered):
            return known
        if known is not None and len({known.topic_id, offered.topic_id} - {None}) == 2:
            self.retire(known)  # the ids prove that it was re-created
            known = None
        if known is None:
            return offered
        if len(offered.partitions) >= len(known.partitions):
            return self.merged_partitions(known, offered)
        text = f"{len(offered.partitions)} partitions"
        same = known.topic_id is not None and known.topic_id == offered.topic_id  # the ids prove it
        refused = self.refused(Rejection.SHRINK, kept, text, offered.name, until=NEVER if same else CONFIRMED)
        return known if refused else offered

    def gap_refused(self, kept: str, offered: TopicInfo) -> bool:
        """Apply the rule of partition ids that are not 0..n-1."""
        if offered.partitions and all(p.partition == i for i, p in enumerate(offered.partitions)):
            return False
        ids = ", ".join(str(p.partition) for p in offered.partitions[:16])
        return self.refused(Rejection.INCOMPLETE, kept, f"partition ids [{ids}]", offered.name)

    def retired_id_refused(self, kept: str, offered: TopicInfo) -> bool:
        """Apply the rule of ids that were replaced."""
        ids = self.retired.get(offered.name, ())
        if offered.topic_id not in ids:
            return False
        text = f"topic id {offered.topic_id}"
        if self.refused(Rejection.RETIRED_TOPIC_ID, kept, text, offered.name, until=CONFIRMED):
            return True
        self.retired[offered.name] = tuple(id_ for id_ in ids if id_ != offered.topic_id)
        return False

    def retire(self, topic: TopicInfo) -> None:
        """Remember an id that this name had: offered again, it is held back by `retired_id_refused`."""
        if topic.topic_id is not None:
            ids = (*self.retired.pop(topic.name, ()), topic.topic_id)  # the latest name comes last
            self.retired[topic.name] = ids[-RETIRED_IDS_KEPT:]

    # -- partition by partition ----------------------------------------------------------------------

    def merged_partitions(self, known: TopicInfo, offered: TopicInfo) -> TopicInfo:
        """Merge a topic that is the same one as before, and has grown perhaps."""
        before = (*known.partitions, *[None] * (len(offered.partitions) - len(known.partitions)))
        merged = tuple(map(self.merged_partition, before, offered.partitions))
        return TopicInfo(offered.name, merged, offered.topic_id or known.topic_id)

    def merged_partition(self, known: PartitionInfo | None, offered: PartitionInfo) -> PartitionInfo:
        """Apply the epoch rule to one partition."""
        if known is None or known == offered:
            return offered
        if known.leader_epoch is not None and offered.leader_epoch is None:
            offered = evolve(offered, leader_epoch=known.leader_epoch)
        elif (known.leader_epoch or 0) > (offered.leader_epoch or 0):
            kept, text = f"leader epoch {known.leader_epoch}", f"leader epoch {offered.leader_epoch}"
            topic, part = offered.tp
            if self.refused(Rejection.EPOCH_REWIND, kept, text, topic, part, until=REWOUND):
                return known
        if offered.isr != known.isr and set(offered.isr) == set(known.isr):
            offered = evolve(offered, isr=known.isr)  # a set: its order means nothing
        return offered

    # -- the node look-up ----------------------------------------------------------------------------

    def named(self, topic: TopicInfo) -> TopicInfo:
        """Return a known topic with the leaders that were named last, also those that were not listed."""
        if not (unlisted := self.memory.unlisted):
            return topic
        parts = (evolve(p, leader=unlisted[p.tp]) if p.tp in unlisted else p for p in topic.partitions)
        return evolve(topic, partitions=tuple(parts))

    def listed(self, topic: TopicInfo) -> TopicInfo:
        """Return a topic, offline where its leader is not listed; what does not differ keeps its object."""
        before = self.current.by_topic.get(topic.name)
        gone = {
            p.tp: p.leader for p in topic.partitions if p.leader is not None and p.leader not in self.alive
        }
        if topic is before and not gone:
            return topic
        self.unlisted |= gone
        shown = [evolve(p, leader=None) if p.tp in gone else p for p in topic.partitions]
        for n, old in enumerate(() if before is None else before.partitions[: len(shown)]):
            shown[n] = old if old == shown[n] else shown[n]
        topic = evolve(topic, partitions=tuple(shown))
        return before if before is not None and topic == before else topic

    def checked_rack(self, node: Node) -> Node:
        """Return the node with the rack that is known, if the answer has none."""
        known = self.current.nodes.get(node.id)
        return node if known is None or node.rack is not None else evolve(node, rack=known.rack)

    def next_cluster(self, topics: Mapping[str, TopicInfo]) -> Cluster:
        """Return the snapshot in force: the current object unless something differs."""
        before = self.current
        nodes = {node.id: self.checked_rack(node) for node in self.seen.nodes}
        cluster_id = before.cluster_id or self.seen.cluster_id
        same_topics = len(topics) == len(before.by_topic) and all(
            before.by_topic.get(name) is info for name, info in topics.items()
        )
        same = same_topics and nodes == before.nodes and cluster_id == before.cluster_id
        if same and before.generation > 0:
            return before
        return Cluster(nodes=nodes, by_topic=topics, cluster_id=cluster_id, generation=before.generation + 1)

    def memory_after(self) -> Memory:
        """Keep the strikes of this answer, and the retired ids of the names that lost one last."""
        retired = dict(list(self.retired.items())[-RETIRED_NAMES_KEPT:])
        return Memory(self.strikes, retired, self.unlisted)
