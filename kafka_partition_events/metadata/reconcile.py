"""The staleness gate: what of an answer is believed. Pure.

Kafka's metadata is eventually consistent: a broker that lags, restarts or was moved to another cluster
answers with the past, with a part, or with somebody else's truth. Clients that believe every answer roll
leaders back and forget partitions. The rules, in the order in which they are applied:

====================  ==================================================================================
``no_brokers``        an answer without a broker is refused whole (aiokafka PR 297)
``foreign_cluster``   another cluster id than the first one known is refused whole, and never heals
``out_of_order``      an answer to a request that was sent before the last accepted one's is refused whole
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

Topic ids and epochs that the answer does not claim to prove are passed over. An unknown epoch (None) does
not undo a known one, but the rest of that partition is believed, a lost leader above all. An answer that
tells no racks takes none away. Whatever is kept is still held against the new broker list: a partition whose
leader is not listed is offline, until that broker is listed again.
"""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, field, frozen

from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.metadata.events import MetadataRejected, Rejection
from kafka_partition_events.metadata.source import Observation

CONFIRMING_ANSWERS = 3
CONFIRMING_BROKERS = 2
CONFIRMING_SECONDS = 60.0
REWIND_STRIKES = 5
PATIENCE_STRIKES = 64
MISSING_ANSWERS = 3
MISSING_SECONDS = 30.0
RETIRED_IDS_KEPT = 8
RETIRED_NAMES_KEPT = 1_000
UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"

StrikeKey = tuple[Rejection, str | None, int | None]
"""Reason, topic (None: the whole answer), partition (None: the whole topic)."""


@frozen
class Strike:
    """How often in a row something was refused, since when (monotonic s), and by whom it was offered."""

    count: int
    since: float
    offered: str
    witnesses: frozenset[int] = frozenset()


@frozen
class Memory:
    """What the gate remembers from answer to answer.

    Attributes:
        accepted_at: When the request of the last accepted answer was sent.
        strikes: Refusals that still stand, by reason, topic and partition.
        retired: Topic ids that each topic name had before, oldest first.
        unlisted: The leaders that partitions were named last, and are offline for: they are not listed.
    """

    accepted_at: float = float("-inf")
    strikes: Mapping[StrikeKey, Strike] = field(default=MappingProxyType({}))
    retired: Mapping[str, tuple[str, ...]] = field(default=MappingProxyType({}))
    unlisted: Mapping[TopicPartition, int] = field(default=MappingProxyType({}))


@frozen
class Refusal:
    """One thing that the gate did not believe."""

    reason: Rejection
    topic: str | None
    partition: int | None
    kept: str
    offered: str
    strike: int

    @property
    def worth_telling(self) -> bool:
        """Whether to tell it: at strikes 1, 2, 4, 8, ..."""
        return self.strike & (self.strike - 1) == 0

    @property
    def may_pass(self) -> bool:
        """Whether to look again soon. What stays refused for so long, a missing permission say, will stay."""
        return self.strike <= PATIENCE_STRIKES

    def as_event(self) -> MetadataRejected:
        """Return the refusal as an event, not stamped yet."""
        return MetadataRejected(
            reason=self.reason,
            topic=self.topic,
            partition=self.partition,
            kept=self.kept,
            offered=self.offered,
            strike=self.strike,
        )


@frozen
class Reconciliation:
    """The gate's answer.

    Attributes:
        cluster: The snapshot in force from now on, the same object if nothing changed.
        refusals: What was not believed.
        memory: For the next call.
        good: False when the answer was refused whole: then it is no sign of life either.
    """

    cluster: Cluster
    refusals: tuple[Refusal, ...]
    memory: Memory
    good: bool = True


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
        return Reconciliation(current, tuple(gate.refusals), gate.memory_after_refusal(), good=False)
    topics = gate.merged_topics()
    return Reconciliation(gate.next_cluster(topics), tuple(gate.refusals), gate.memory_after(topics))


class _Gate:
    """The working state of one `reconcile` call; nothing of it outlives the call."""

    def __init__(self, current: Cluster, observation: Observation, memory: Memory, now: float) -> None:
        self.current = current
        self.seen = observation
        self.memory = memory
        self.now = now
        self.alive = {node.id for node in observation.nodes}
        self.refusals: list[Refusal] = []
        self.strikes: dict[StrikeKey, Strike] = {}
        self.retired = dict(memory.retired)
        self.unlisted = dict(memory.unlisted)

    # -- refusals ------------------------------------------------------------------------------------

    def strike(
        self, reason: Rejection, offered: str, topic: str | None = None, part: int | None = None
    ) -> Strike:
        """Count one more refusal; answers that offer something else start the count again."""
        key = (reason, topic, part)
        last = self.memory.strikes.get(key)
        if last is None or last.offered != offered:
            last = Strike(0, self.now, offered)
        by = self.seen.answered_by
        struck = Strike(
            last.count + 1, last.since, offered, last.witnesses if by is None else last.witnesses | {by}
        )
        self.strikes[key] = struck
        return struck

    def refuse(
        self, reason: Rejection, kept: str, offered: str, topic: str | None = None, part: int | None = None
    ) -> None:
        """Note a refusal for whoever listens."""
        struck = self.strikes.get((reason, topic, part)) or self.strike(reason, offered, topic, part)
        self.refusals.append(Refusal(reason, topic, part, kept, offered, struck.count))

    def refused_for_now(self, reason: Rejection, kept: str, offered: str, topic: str) -> bool:
        """Refuse until enough answers agree; tell whether the refusal stands."""
        struck = self.strike(reason, offered, topic)
        witnessed = len(struck.witnesses) >= CONFIRMING_BROKERS
        if struck.count >= CONFIRMING_ANSWERS and (
            witnessed or self.now - struck.since >= CONFIRMING_SECONDS
        ):
            self.pardon(reason, topic)
            return False
        self.refuse(reason, kept, offered, topic)
        return True

    def pardon(self, reason: Rejection, topic: str, part: int | None = None) -> None:
        """Forget the strikes: the limit is reached and the answer is believed."""
        del self.strikes[reason, topic, part]

    # -- the whole answer ----------------------------------------------------------------------------

    def refused_whole(self) -> bool:
        """Apply the rules that refuse an answer as a whole."""
        known_id, seen_id = self.current.cluster_id, self.seen.cluster_id
        if not self.seen.nodes:
            self.refuse(Rejection.NO_BROKERS, f"{len(self.current.nodes)} brokers", "no brokers")
        elif known_id is not None and seen_id is not None and known_id != seen_id:
            self.refuse(Rejection.FOREIGN_CLUSTER, f"cluster {known_id}", f"cluster {seen_id}")
        elif self.seen.started_at < self.memory.accepted_at:
            self.refuse(Rejection.OUT_OF_ORDER, "a later answer", "an answer to an earlier request")
        return bool(self.refusals)

    def memory_after_refusal(self) -> Memory:
        """Keep every standing strike and add the new one."""
        return evolve(self.memory, strikes=MappingProxyType({**self.memory.strikes, **self.strikes}))

    # -- topic by topic ------------------------------------------------------------------------------

    def merged_topics(self) -> dict[str, TopicInfo]:
        """Return every topic that is in force after this answer."""
        topics: dict[str, TopicInfo] = {}
        for name, known in self.current.by_topic.items():
            if name not in self.seen.topics and (kept := self.kept_topic(name, known)) is not None:
                topics[name] = kept
        for name, seen in self.seen.topics.items():
            if (merged := self.merged_topic(self.current.by_topic.get(name), self.proved(seen))) is not None:
                topics[name] = merged
        for name, error in self.seen.errors.items():
            if name not in self.current.by_topic and error != UNKNOWN_TOPIC:
                self.refuse(Rejection.TOPIC_ERROR, "nothing", error, name)
        return topics

    def kept_topic(self, name: str, known: TopicInfo) -> TopicInfo | None:
        """Decide on a known topic that did not come, or came with an error; None removes it."""
        error = self.seen.errors.get(name)
        kept = f"{len(known.partitions)} partitions"
        if error is not None and error != UNKNOWN_TOPIC:
            self.refuse(Rejection.TOPIC_ERROR, kept, error, name)
        elif error == UNKNOWN_TOPIC or self.seen.requested is None:
            struck = self.strike(Rejection.MISSING_TOPIC, "no such topic", name)
            if struck.count >= MISSING_ANSWERS and self.now - struck.since >= MISSING_SECONDS:
                self.pardon(Rejection.MISSING_TOPIC, name)
                self.retire(known)
                return None
            self.refuse(Rejection.MISSING_TOPIC, kept, "no such topic", name)
        else:  # not asked for, or not answered: standing strikes of this topic stay
            self.strikes.update({k: s for k, s in self.memory.strikes.items() if k[1] == name})
        return self.checked_leaders(known)

    def proved(self, offered: TopicInfo) -> TopicInfo:
        """Return the topic without the ids and epochs that the answer does not claim to prove."""
        if not self.seen.proof.topic_ids and offered.topic_id is not None:
            offered = evolve(offered, topic_id=None)
        if self.seen.proof.leader_epochs or all(p.leader_epoch is None for p in offered.partitions):
            return offered
        return evolve(offered, partitions=tuple(evolve(p, leader_epoch=None) for p in offered.partitions))

    def merged_topic(self, known: TopicInfo | None, offered: TopicInfo) -> TopicInfo | None:
        """Decide on a topic that came; None when it is not known and not believed either."""
        if known is not None and offered == known:
            return self.checked_leaders(known, believed=True)
        kept = "nothing" if known is None else f"{len(known.partitions)} partitions"
        if self.gap_refused(kept, offered) or self.retired_id_refused(kept, offered):
            return None if known is None else self.checked_leaders(known)
        if known is None or self.recreated(known, offered):
            return self.checked_leaders(offered, believed=True)
        if self.shrink_refused(known, offered):
            return self.checked_leaders(known)
        return self.merged_partitions(known, offered)

    def gap_refused(self, kept: str, offered: TopicInfo) -> bool:
        """Apply the rule of partition ids that are not 0..n-1."""
        if offered.partitions and all(p.partition == i for i, p in enumerate(offered.partitions)):
            return False
        ids = ", ".join(str(p.partition) for p in offered.partitions[:16])
        self.refuse(Rejection.INCOMPLETE, kept, f"partition ids [{ids}]", offered.name)
        return True

    def retired_id_refused(self, kept: str, offered: TopicInfo) -> bool:
        """Apply the rule of ids that were replaced."""
        ids = self.retired.get(offered.name, ())
        if offered.topic_id not in ids:
            return False
        text = f"topic id {offered.topic_id}"
        if self.refused_for_now(Rejection.RETIRED_TOPIC_ID, kept, text, offered.name):
            return True
        self.retired[offered.name] = tuple(id_ for id_ in ids if id_ != offered.topic_id)
        return False

    def recreated(self, known: TopicInfo, offered: TopicInfo) -> bool:
        """Tell whether topic ids prove a re-creation, and retire the old id if so."""
        if known.topic_id is None or offered.topic_id is None or known.topic_id == offered.topic_id:
            return False
        self.retire(known)
        return True

    def retire(self, topic: TopicInfo) -> None:
        """Remember an id that this name had: offered again, it is held back by `retired_id_refused`."""
        if topic.topic_id is not None:
            ids = (*self.retired.pop(topic.name, ()), topic.topic_id)  # the latest name comes last
            self.retired[topic.name] = ids[-RETIRED_IDS_KEPT:]

    def shrink_refused(self, known: TopicInfo, offered: TopicInfo) -> bool:
        """Apply the rule of fewer partitions."""
        if len(offered.partitions) >= len(known.partitions):
            return False
        kept, text = f"{len(known.partitions)} partitions", f"{len(offered.partitions)} partitions"
        if known.topic_id is None or known.topic_id != offered.topic_id:
            return self.refused_for_now(Rejection.SHRINK, kept, text, offered.name)
        self.refuse(Rejection.SHRINK, kept, text, offered.name)  # the ids prove that it is the same topic
        return True

    # -- partition by partition ----------------------------------------------------------------------

    def merged_partitions(self, known: TopicInfo, offered: TopicInfo) -> TopicInfo:
        """Merge a topic that is the same one as before (or an inferred re-creation, which is shorter)."""
        inferred_recreation = len(offered.partitions) < len(known.partitions)
        if inferred_recreation:
            return self.checked_leaders(offered, believed=True)
        partitions = tuple(
            self.merged_partition(known.partitions[i] if i < len(known.partitions) else None, p)
            for i, p in enumerate(offered.partitions)
        )
        merged = TopicInfo(offered.name, partitions, offered.topic_id or known.topic_id)
        return known if merged == known else merged

    def merged_partition(self, known: PartitionInfo | None, offered: PartitionInfo) -> PartitionInfo:
        """Apply the epoch rule and the node look-up to one partition."""
        if known is None or known == offered:
            return self.checked_leader(offered if known is None else known, believed=True)
        if known.leader_epoch is not None and offered.leader_epoch is None:
            offered = evolve(offered, leader_epoch=known.leader_epoch)
        elif (known.leader_epoch or 0) > (offered.leader_epoch or 0):
            text = f"leader epoch {offered.leader_epoch}"
            struck = self.strike(Rejection.EPOCH_REWIND, text, offered.topic, offered.partition)
            if struck.count < REWIND_STRIKES:
                kept = f"leader epoch {known.leader_epoch}"
                self.refuse(Rejection.EPOCH_REWIND, kept, text, offered.topic, offered.partition)
                return self.checked_leader(known)
            self.pardon(Rejection.EPOCH_REWIND, offered.topic, offered.partition)
        if offered.isr != known.isr and set(offered.isr) == set(known.isr):
            offered = evolve(offered, isr=known.isr)  # a set: its order means nothing
        checked = self.checked_leader(offered, believed=True)
        return known if checked == known else checked

    def checked_leader(self, partition: PartitionInfo, *, believed: bool = False) -> PartitionInfo:
        """Return the partition, offline if its leader is not listed.

        Args:
            partition: What is kept of it, or what the answer says.
            believed: Whether the answer says so. Else the leader may be one that was not listed before.
        """
        if not self.unlisted and (partition.leader is None or partition.leader in self.alive):
            return partition
        before = self.unlisted.pop(partition.tp, None)
        leader = before if partition.leader is None and not believed else partition.leader
        if leader is not None and leader not in self.alive:
            self.unlisted[partition.tp] = leader
            leader = None
        return partition if leader == partition.leader else evolve(partition, leader=leader)

    def checked_leaders(self, topic: TopicInfo, *, believed: bool = False) -> TopicInfo:
        """Return the topic with each partition checked, the same object if that changes nothing."""
        checked = tuple(self.checked_leader(p, believed=believed) for p in topic.partitions)
        if all(after is before for after, before in zip(checked, topic.partitions, strict=True)):
            return topic
        return evolve(topic, partitions=checked)

    # -- the outcome ---------------------------------------------------------------------------------

    def checked_rack(self, node: Node) -> Node:
        """Return the node with the rack that is known, if the answer can't tell racks."""
        known = self.current.nodes.get(node.id)
        if self.seen.proof.racks or known is None or node.rack is not None:
            return node
        return evolve(node, rack=known.rack)

    def next_cluster(self, topics: Mapping[str, TopicInfo]) -> Cluster:
        """Return the snapshot in force: the current object unless something differs."""
        nodes = {node.id: self.checked_rack(node) for node in self.seen.nodes}
        cluster_id = self.current.cluster_id or self.seen.cluster_id
        same_topics = len(topics) == len(self.current.by_topic) and all(
            self.current.by_topic.get(name) is info for name, info in topics.items()
        )
        first = self.current.generation == 0
        if (
            not first
            and same_topics
            and nodes == self.current.nodes
            and cluster_id == self.current.cluster_id
        ):
            return self.current
        return Cluster(
            nodes=nodes, by_topic=topics, cluster_id=cluster_id, generation=self.current.generation + 1
        )

    def memory_after(self, topics: Mapping[str, TopicInfo]) -> Memory:
        """Keep the strikes of this answer, and the retired ids of the names that lost one last."""
        retired = dict(list(self.retired.items())[-RETIRED_NAMES_KEPT:])
        unlisted = {tp: leader for tp, leader in self.unlisted.items() if tp.topic in topics}
        return Memory(
            accepted_at=self.seen.started_at,
            strikes=MappingProxyType(self.strikes),
            retired=MappingProxyType(retired),
            unlisted=MappingProxyType(unlisted),
        )
