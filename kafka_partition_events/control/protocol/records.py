"""The records of change control. Frozen values; `codec` makes JSON of them.

Moments are Kafka's: milliseconds since 1970 by the clock of the *broker* that appended a record
(``message.timestamp.type=LogAppendTime``), so that the clocks of instances do not matter.
"""

import hashlib
from typing import Final

from attrs import evolve, field, frozen
from attrs.validators import le

from kafka_partition_events.control.protocol.bounds import MOST_TEXT
from kafka_partition_events.control.protocol.partition_set import NO_PARTITIONS, PartitionSet
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from kafka_partition_events.legible import legible


@frozen(kw_only=True)
class Command:
    """What a person asks of the tracker (``kpe.commands``).

    Attributes:
        change_id: Which change; made by the one who requests it.
        verb: What is asked for.
        actor: Who asks, as typed; Kafka's ACLs say who may.
        reason: Why.
        spec: The change, for a request.
    """

    change_id: str
    verb: Verb
    actor: str
    reason: str = ""
    spec: Spec | None = None


@frozen(kw_only=True)
class Totals:
    """How many live producers use the topic, by what they say of the change.

    Attributes:
        applied: All partitions are used.
        capped: As many as the budget affords.
        held: Ready, and waiting for the gate.
        pending: They do not see all partitions yet.
        unarmed: Not known to hold the gate; from the growth on: when the topic grew.
    """

    applied: int = 0
    capped: int = 0
    held: int = 0
    pending: int = 0
    unarmed: int = 0

    @property
    def live(self) -> int:
        """How many there are."""
        return self.applied + self.capped + self.held + self.pending


@frozen(kw_only=True)
class GroupProgress:
    """A consumer group that a change waits for; ``followed``: it has a position on all new partitions."""

    group: str
    followed: bool = False


@frozen(kw_only=True)
class Answer:
    """What became of a command.

    Attributes:
        offset: Which command, by its place in ``kpe.commands``,
        at_ms: and by the time at which it was appended: the topic may have been recreated.
        verb: What was asked for.
        actor: Who asked.
        refused: Whether it was not carried out,
        detail: and why, with what to do.
    """

    offset: int
    at_ms: int
    verb: Verb
    actor: str
    refused: bool = False
    detail: str = ""


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

    def answer(self, refusal: str | None = None) -> Answer:
        """Return what became of it: it was carried out, or why it was not."""
        return Answer(
            offset=self.offset,
            at_ms=self.at_ms,
            verb=self.command.verb,
            actor=self.command.actor,
            refused=refusal is not None,
            detail=legible(refusal or "", MOST_TEXT),
        )


@frozen(kw_only=True)
class Change:
    """The whole state of a change (``kpe.changes``, by the tracker only).

    Attributes:
        change_id: Its id.
        tracker_epoch: Which tracker wrote this.
        revision: Which version it is; each record has a higher one.
        state: Where it is.
        spec: What was asked for.
        requested_by: Who asked.
        why: What for.
        requested_ms: When.
        observed_ms: When the tracker saw that the topic had grown.
        finished_ms: When its state became final.
        opened_by: What opened the gate: ``"evidence"`` or ``"deadline"``.
        detail: Why it is rejected, cancelled or can't go on, in words.
        totals: How far producers are.
        groups: The groups that it waits for: all that read the topic since the request.
        unverified: Why the numbers do not show everything; empty if they do.
        answers: What became of the last commands, oldest first.
    """

    change_id: str
    tracker_epoch: int
    revision: int
    state: State
    spec: Spec
    requested_by: str
    why: str = ""
    requested_ms: int
    observed_ms: int | None = None
    finished_ms: int | None = None
    opened_by: str | None = None
    detail: str = ""
    totals: Totals = Totals()
    groups: tuple[GroupProgress, ...] = ()
    unverified: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether producers keep to the old partitions."""
        return self.spec.gate and self.opened_by is None and not self.state.final

    @property
    def deadline_ms(self) -> int | None:
        """When all must have followed; None before the topic has grown."""
        return None if self.observed_ms is None else self.observed_ms + round(1_000 * self.spec.deadline_s)

    @property
    def uncovered_groups(self) -> tuple[str, ...]:
        """The groups that have not followed."""
        return tuple(one.group for one in self.groups if not one.followed)

    @property
    def refused_at_once(self) -> bool:
        """Whether the request came to nothing when it was taken up."""
        return self.revision == 1 and self.state is State.REJECTED

    def answer_to(self, given: Given) -> Answer | None:
        """Return what became of a command; None: nothing yet, or it was long ago."""
        at = given.offset, given.at_ms
        return next((one for one in self.answers if (one.offset, one.at_ms) == at), None)

    def was_given(self, given: Given) -> bool:
        """Return whether a command was carried out, or refused, before."""
        return any(given.offset <= one.offset and given.at_ms <= one.at_ms for one in self.answers)

    def with_answer(self, answer: Answer) -> "Change":
        """Return the change with an answer more; `MOST_ANSWERS` are kept."""
        return evolve(self, answers=(*self.answers, answer)[-MOST_ANSWERS:])


MOST_ANSWERS: Final = 10
MOST_TOPICS: Final = 50
"""How many topics a lease lists: it stays well below 10 KiB."""


@frozen(kw_only=True)
class TopicUse:
    """What an instance has to do with a topic.

    Attributes:
        topic: Its name.
        topic_id: Its id.
        seen: How many partitions the instance sees (0: it does not use the topic),
        used: and how many of them it uses.
        holds: The change at whose gate a producer waits.
        armed: Whether it did before it saw new partitions: then it has written to none of them.
        positioned: The new partitions of an open change with a committed offset of a consumer's group.
    """

    topic: str
    topic_id: str | None = None
    seen: int
    used: int
    holds: str | None = None
    armed: bool = False
    positioned: PartitionSet = NO_PARTITIONS


@frozen(kw_only=True)
class Lease:
    """An instance's sign of life (``kpe.leases``), and its acknowledgement of changes.

    Each one says all there is to say, so none that is lost matters after the next one.

    Attributes:
        instance_id: The agent's name over restarts; of two agents with one name the later one counts.
        incarnation: A random id of this process.
        lease_seq: Counts this process's leases.
        born_ms: When its first lease was appended, as the delivery report says; None in the first one.
        group: A consumer's group; None: it is a producer.
        ttl_s: After how many seconds without a lease the instance counts as lost; 0: it has stopped.
        view: The topics that it uses, those with open changes first; at most `MOST_TOPICS`. A producer names
            those at whose gates it waits though it does not use them, too.
    """

    instance_id: str
    incarnation: str
    lease_seq: int
    born_ms: int | None = None
    group: str | None = None
    ttl_s: float = field(default=90.0, validator=le(3_600.0))
    view: tuple[TopicUse, ...] = ()

    def use_of(self, topic: str, topic_id: str | None) -> TopicUse | None:
        """Return what the instance has to do with a topic; None: nothing, or with another of that name."""
        for use in self.view:
            if use.topic == topic and (topic_id is None or use.topic_id is None or use.topic_id == topic_id):
                return use
        return None


_MOST_NAME: Final = 246


def group_name(name: str) -> str:
    """Return a group's name as it may stand in a record: Kafka lets it be anything, of any length."""
    shown = legible(name, _MOST_NAME)
    if shown == name:
        return name
    return f"{shown}#{hashlib.blake2b(name.encode(errors='surrogatepass'), digest_size=4).hexdigest()}"
