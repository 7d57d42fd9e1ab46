"""The records of change control. Frozen values; `codec` makes JSON of them.

Moments are Kafka's: milliseconds since 1970 by the clock of the *broker* that appended a record
(``message.timestamp.type=LogAppendTime``), so that the clocks of instances do not matter.
"""

from typing import Annotated, Final

from attrs import frozen

from kafka_partition_events.control.protocol.bounds import Count, Id, Items, Moment, Prose, TimeToLive
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import (
    Gate,
    LeaseState,
    Reason,
    Role,
    State,
    Status,
    Verb,
)

GROUP_PREFIX = "group:"
"""What the instance id of an answer for a whole consumer group begins with."""

MOST_TOPICS = 50
"""How many topics a lease lists: it stays well below 8 KiB."""

NO_PARTITIONS: frozenset[int] = frozenset()


@frozen(kw_only=True)
class Command:
    """What somebody asks of the tracker (``kpe.commands``).

    Attributes:
        change_id: Which change; made by whoever requests it (a ULID).
        verb: What is asked for.
        actor: Who asks.
        reason: Why.
        spec: The change, for a request.
        ttl_s: For how many seconds after it was appended the command may be carried out.
    """

    change_id: Id
    verb: Verb
    actor: str
    reason: Prose = ""
    spec: Spec | None = None
    ttl_s: float = 900.0


@frozen(kw_only=True)
class Approval:
    """That somebody allows a change (``kpe.approvals``, a topic that only those may write to who may allow).

    Attributes:
        change_id: Which change.
        spec: The change as they have seen it: another one under that id is not what they allow.
        actor: Who.
        reason: Why.
    """

    change_id: Id
    spec: Spec
    actor: str
    reason: Prose = ""


@frozen
class Given:
    """A command as it stands in ``kpe.commands``, a topic of one partition.

    Its offset says which one it is, and in which order they were given. Its time can't: a broker stamps many
    records with one millisecond, and the next leader's clock may be behind.

    Attributes:
        command: The command.
        offset: Where it is.
        at_ms: When the broker appended it.
    """

    command: Command
    offset: int
    at_ms: int


@frozen
class Allowed:
    """An approval as it stands in ``kpe.approvals``: where it is, and when the broker appended it."""

    approval: Approval
    offset: int
    at_ms: int


@frozen(kw_only=True)
class Order:
    """What producers are to do about one subject. It outlasts its change, until the next one.

    Attributes:
        limit: Use the partitions below this number; None: all.
        offline: Partitions to be left, as if they were offline.
        broker_offline: Whether to leave the partitions that the broker leads.
    """

    limit: Count | None = None
    offline: frozenset[int] = NO_PARTITIONS
    broker_offline: bool = False


@frozen(kw_only=True)
class Totals:
    """How many producers of the cohort are live and say what, and who is counted apart.

    Attributes:
        applied: All partitions are used, or left.
        capped: As many as the budget affords.
        held: Ready, and waiting for the gate.
        observed: Seen, not applied.
        rejected: Refused, by a policy.
        failed: Tried in vain.
        rolled_back: Back to what was before.
        pending: Nothing heard.
        departed: Stopped or lost since the change was requested; not among those above.
        late_joined: Born after the change had happened, live, and not among those above either.
        duplicates: Instance ids that two processes use.
        uncovered: Writers that have no lease, at least; None: not known.
    """

    applied: int = 0
    capped: int = 0
    held: int = 0
    observed: int = 0
    rejected: int = 0
    failed: int = 0
    rolled_back: int = 0
    pending: int = 0
    departed: int = 0
    late_joined: int = 0
    duplicates: int = 0
    uncovered: int | None = None

    @property
    def live(self) -> int:
        """How many of the cohort are there."""
        waiting = self.held + self.observed + self.pending
        return self.applied + self.capped + self.rejected + self.failed + self.rolled_back + waiting


@frozen(kw_only=True)
class Counted:
    """What totals were counted from: whoever has the same records can count the same.

    Attributes:
        at_ms: At which moment.
        state: In which state the change was then. A transition is written with the totals that led to it.
        leases: The offset of the first lease that was not read yet, by partition,
        acks: and that of the first ack.
        writers: How many producers brokers knew to be writing; None: not known.
    """

    at_ms: Moment
    state: State
    leases: tuple[int, ...]
    acks: tuple[int, ...]
    writers: int | None = None


@frozen(kw_only=True)
class Refusal:
    """A command that was not carried out, and why; ``offset`` and ``at_ms`` say which one."""

    verb: Verb
    actor: str
    offset: int = 0
    at_ms: Moment
    reason: Reason
    detail: Prose


@frozen(kw_only=True)
class Change:
    """The whole state of a change (``kpe.changes``, by the tracker only).

    Attributes:
        change_id: Its id.
        number: Counts all changes; of those of one subject the highest number gives orders. 0 for one that
            was refused at once: it never gives any.
        tracker_epoch: Which tracker wrote this.
        revision: Which version it is; each record has a higher one.
        state: Where it is.
        spec: What was asked for.
        requested_by: Who asked.
        why: What for.
        needs_approval: Whether a second person must approve: the request or the tracker's policy says so.
        approved_by: Who did.
        requested_ms: When.
        observed_ms: When it had happened; the cohort is who was there then.
        deadline_ms: When everybody must have followed.
        finished_ms: When its state became final.
        before: What producers had to do before it.
        order: What they have to do now.
        gate: Whether they wait.
        unarmed: How many live producers were not known to hold the gate when the topic had grown.
        opened_by: Who or what opened the gate: ``"evidence"``, ``"deadline"`` or the actor of a command.
        becomes: Where rolling back leads to.
        late: Whether the deadline had passed before the change was finished.
        blind: Whether the observers could not see the cluster for some of the time.
        reason: Why it was rejected, or rolled back.
        detail: The same in words, with what to do.
        totals: How far producers are.
        counted: What the totals were counted from; None: nothing was counted yet, or nobody knows.
        uncovered_groups: Required groups that have no position on, or have not drained, what is affected.
        unverified: Why the numbers do not tell everything; empty if they do.
        obeyed_to: The offset behind the last command that was carried out, or refused,
        obeyed_ms: and the latest time at which one of them was appended. A command that comes again is known
            by both; another one may come first at that offset where ``kpe.commands`` was created anew.
        refusals: The last refused commands, oldest first.
    """

    change_id: Id
    number: int
    tracker_epoch: int
    revision: int
    state: State
    spec: Spec
    requested_by: str
    why: Prose = ""
    needs_approval: bool = False
    approved_by: str | None = None
    requested_ms: Moment
    observed_ms: Moment | None = None
    deadline_ms: Moment | None = None
    finished_ms: Moment | None = None
    before: Order = Order()
    order: Order = Order()
    gate: Gate = Gate.NONE
    unarmed: int = 0
    opened_by: str | None = None
    becomes: State | None = None
    late: bool = False
    blind: bool = False
    reason: Reason | None = None
    detail: Prose = ""
    totals: Totals = Totals()
    counted: Counted | None = None
    uncovered_groups: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    obeyed_to: int = 0
    obeyed_ms: Moment = 0
    refusals: tuple[Refusal, ...] = ()

    def was_given(self, given: Given) -> bool:
        """Tell whether a command was carried out, or refused, before."""
        return given.offset < self.obeyed_to and given.at_ms <= self.obeyed_ms

    @property
    def released(self) -> bool:
        """Whether producers may be told: nobody's approval is missing, or it has happened without one."""
        approved = not self.needs_approval or self.approved_by is not None
        return approved or self.state.happened

    @property
    def holds(self) -> bool:
        """Whether producers wait for consumers now, or will from the moment on when the topic grows."""
        over = self.state.final or self.state is State.ROLLING_BACK
        return self.gate is Gate.HELD and self.released and not over


@frozen(kw_only=True)
class Capacity:
    """What an instance can afford (KIP-34). None: no such limit.

    Attributes:
        buffer_memory: Bytes for batches, over all topics.
        batch_size: Bytes of one batch.
        max_partitions: Of the topic that an ack is about. A lease tells it by topic: `TopicUse`.
    """

    buffer_memory: int | None = None
    batch_size: int | None = None
    max_partitions: Count | None = None


@frozen(kw_only=True)
class TopicUse:
    """What an instance has to do with a topic.

    Attributes:
        topic: Its name.
        topic_id: Its id.
        seen: How many partitions the instance sees,
        used: how many of them it uses,
        max_partitions: and how many it would use at most, whatever memory affords; None: no such limit.
    """

    topic: str
    topic_id: str | None = None
    seen: Count
    used: Count
    max_partitions: Count | None = None


@frozen(kw_only=True)
class Lease:
    """An instance's sign of life (``kpe.leases``). With what it sees, it tells even if every ack is lost.

    Attributes:
        instance_id: What the instance is called over restarts.
        incarnation: A random id of this process.
        lease_seq: Counts this process's leases.
        born_ms: When its first lease was appended, as the delivery report told; None in the first one.
        role: What it is.
        cluster_id: The cluster that it writes to or reads from.
        group: A consumer's group.
        app: The application.
        app_version: Its version.
        client: The Kafka client and its version.
        host_hash: A hash of the host's name.
        ttl_s: After how many seconds without a lease the instance counts as lost.
        state: Whether it has stopped.
        idempotent: Whether it is an idempotent producer, which brokers know by an id.
        capacity: What it can afford.
        view: The topics that it uses, those with open changes first; at most `MOST_TOPICS`.
        topics_left_out: How many more there are.
    """

    instance_id: str
    incarnation: str
    lease_seq: int
    born_ms: Moment | None = None
    role: Role
    cluster_id: str | None = None
    group: str | None = None
    app: str = ""
    app_version: str = ""
    client: str = ""
    host_hash: str = ""
    ttl_s: TimeToLive = 90.0
    state: LeaseState = LeaseState.UP
    idempotent: bool = False
    capacity: Capacity = Capacity()
    view: Annotated[tuple[TopicUse, ...], Items(MOST_TOPICS)] = ()
    topics_left_out: int = 0

    def use_of(self, topic: str | None, topic_id: str | None) -> TopicUse | None:
        """Return what the instance does with a topic; None if it does not say."""
        for use in self.view:
            if use.topic == topic and (topic_id is None or use.topic_id in {None, topic_id}):
                return use
        return None


@frozen(kw_only=True)
class Ack:
    """What an instance, or the prober for a group, says of a change (``kpe.acks``).

    Attributes:
        change_id: Which change.
        revision: Which version of it is answered.
        instance_id: Who; `GROUP_PREFIX` and the group's id if it is the prober.
        incarnation: Which process.
        ack_seq: Counts this process's acks.
        born_ms: When its first lease was appended; None if it does not know yet.
        role: What it is.
        group: A consumer's group.
        status: What it says.
        reason: Why it is capped, rejected or failed: ``"buffer_limit"``, say.
        limit: What it can afford, if it is capped.
        seen_count: How many partitions of the topic it sees,
        used_count: and how many it uses.
        armed_count: How many it saw when it began to hold the gate; None: it has not. If those were the old
            ones, it has written to none of the new ones.
        members: How many members a group has, where the prober tells.
        assigned: The affected partitions that are assigned to the consumer, or to members of the group,
        positioned: those with a position that a restart keeps (a committed offset, or `Spec.settle_s`),
        flowing: those on which the group has committed beyond the position that it began with,
        drained: and those on which it has read everything.
    """

    change_id: Id
    revision: int
    instance_id: str
    incarnation: str
    ack_seq: int
    born_ms: Moment | None = None
    role: Role = Role.PRODUCER
    group: str | None = None
    status: Status
    reason: str = ""
    limit: Capacity | None = None
    seen_count: Count = 0
    used_count: Count = 0
    armed_count: Count | None = None
    members: int | None = None
    assigned: frozenset[int] = NO_PARTITIONS
    positioned: frozenset[int] = NO_PARTITIONS
    flowing: frozenset[int] = NO_PARTITIONS
    drained: frozenset[int] = NO_PARTITIONS


_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH: Final = 26
RANDOM_BYTES: Final = 10


def ulid(now_ms: int, randomness: bytes) -> str:
    """Return a ULID: 26 characters of Crockford's base 32, 48 bits of time and then 80 bits of chance.

    Args:
        now_ms: Milliseconds since 1970.
        randomness: `RANDOM_BYTES` bytes that nobody else has.

    Raises:
        ValueError: the time or the randomness has another size.
    """
    if not 0 <= now_ms < 1 << 48 or len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a ULID takes 48 bits of time and {RANDOM_BYTES} bytes of randomness")
    number = now_ms << 80 | int.from_bytes(randomness)
    return "".join(_CROCKFORD[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))
