"""What happened goes in, what is worth attention comes out: the second lane.

It does no I/O and reads no clock; what it says depends on what it was told, and when that was. Everything
that time brings about (a hold-down is over, an update is due, something is stable again, a silence ends)
bears the moment at which it was due, however late it is asked. So a journal that is read again gives
the same notices under the same ids, and so does a reducer that was encoded and decoded in between.

It changes in place, for 20,000 partitions of one broker are 20,000 steps.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from attrs import define, field, frozen

from kafka_partition_events.events.moments import Bounds
from kafka_partition_events.incidents.causes import (
    MANY_TOPICS,
    Cause,
    Kind,
    Member,
    inferred_cause_of,
    members_of,
    seen_cause_of,
)
from kafka_partition_events.incidents.decisions import Decision
from kafka_partition_events.incidents.flapping import Flapping, Transition
from kafka_partition_events.incidents.handover import Opened
from kafka_partition_events.incidents.hold_down import due, hold_down
from kafka_partition_events.incidents.inputs import DOWN, PASSING, UP, Happening
from kafka_partition_events.incidents.model import Incident, Trouble
from kafka_partition_events.incidents.outputs import (
    Notice,
    flapping_notice,
    identified,
    incident_notice,
    silence_notice,
)
from kafka_partition_events.incidents.rules import Rules
from kafka_partition_events.incidents.silences import Silence
from kafka_partition_events.metadata.codec import encode_time

REMEMBERED: Final = 512
"""How many ids are remembered, so that an event that comes twice counts once."""

_OF_THE_PROCESS: Final = frozenset({Kind.SUSPICION, Kind.METADATA})


class Suppressed(StrEnum):
    """Why something was not told."""

    DEBOUNCED = "debounced"
    """It was back before its hold-down was over."""
    FLAPPING = "flapping"
    """The same, of something that is flapping."""
    SILENCED = "silenced"
    """A silence muted it."""
    RATE_LIMITED = "rate_limited"
    """The incident had been told a short while ago; the next update includes it."""


@define
class Mute:
    """A silence while it mutes.

    Attributes:
        silence: The silence.
        until: When it ends, or this occurrence of it.
        muted: How much it has muted, by name.
    """

    silence: Silence
    until: datetime
    muted: Counter[str] = field(factory=Counter)


@frozen(kw_only=True)
class Standing:
    """How many incidents are open, how many of those are muted, what is held down, and what is flapping."""

    open: int = 0
    silenced: int = 0
    held: int = 0
    flapping: int = 0


@define(kw_only=True)
class Reducer:
    """The reducer. Not thread-safe.

    Attributes:
        rules: What the operator has set.
        silences: Those that exist now, running or not; to be kept up to date by the caller.
        cluster: Kafka's cluster id, as soon as it is known.
        troubles: What is down, or was of late, by cause.
        mutes: The silences that mute, by id.
        recent: The ids of the latest happenings, oldest first.
        suppressed: How much was not told, and why.
    """

    rules: Rules = field(factory=Rules)
    silences: Sequence[Silence] = ()
    cluster: str | None = None
    troubles: dict[Cause, Trouble] = field(factory=dict)
    mutes: dict[str, Mute] = field(factory=dict)
    recent: dict[str, None] = field(factory=dict)
    suppressed: Counter[Suppressed] = field(factory=Counter)
    _causes: dict[Member, Cause] = field(init=False)
    _wake: datetime | None = field(init=False)
    _told: list[Notice] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        """Find what can be derived."""
        self._causes = {member: t.cause for t in self.troubles.values() for member in t.members}
        self._wake = min(self._deadlines(), default=None)

    # -- what goes in --------------------------------------------------------------------------------

    def hear(self, happening: Happening) -> tuple[Sequence[Notice], bool]:
        """Take in what happened.

        Returns:
            What is to be told now, and whether after that what happened is, too: as it is, under its own id.
        """
        self._advance(happening.at, happening.known_to)
        passes = False
        if happening.id not in self.recent:
            self.recent[happening.id] = None
            if len(self.recent) > REMEMBERED:
                del self.recent[next(iter(self.recent))]
            self.cluster = happening.cluster
            self._take(happening)
            passes = self._passes(happening)
        return self._collected(), passes

    def tick(self, now: datetime) -> Sequence[Notice]:
        """Take in that it is so late, and that everything that happened before has been heard."""
        self._follow_silences(now)
        self._advance(now + timedelta.resolution)  # what is due now is due
        return self._collected()

    def observer_restarted(self, now: datetime) -> Sequence[Notice]:
        """Take back what the observing process knew of itself and of its producers: it is another one now.

        What the new one finds it tells by itself; the old one's blindness would never end.
        """
        for trouble in [*self.troubles.values()]:
            own = [member for member in trouble.members if member.kind in _OF_THE_PROCESS]
            if own and (incident := trouble.incident) is not None:
                self._came_up(own, Happening(id=incident.latest, name="", at=now, initial=True))
        return self._collected()

    def decide(self, decision: Decision, now: datetime) -> Sequence[Notice]:
        """Acknowledge or close what is open for a cause, on somebody's word. The same one twice does nothing.

        Of what is closed nothing more is told; when all of it has been up, what goes down is a new incident.
        A decision about something that was over, or went down later, is about nothing.
        """
        for trouble in self.troubles.values():
            incident = trouble.incident
            if incident is None or not incident.open or (trouble.cause.subject or "") != decision.cause:
                continue
            began = incident.began
            if began is not None and (began.after or began.by) > decision.at:
                continue
            name = incident.heed(decision)
            if name is not None and incident.told_at is not None:
                self._told.append(incident_notice(name, trouble, incident, now))
        return self._collected()

    @property
    def told_open(self) -> Sequence[Opened]:
        """What was told as opened, and not as closed."""
        incidents = ((t.cause, t.incident) for t in self.troubles.values())
        return [
            Opened(cause=cause, id=incident.id, opened_at=incident.opened_at)
            for cause, incident in incidents
            if incident and incident.open and incident.opened_at and incident.told_at
        ]

    def adopt(self, theirs: Iterable[Opened]) -> None:
        """Go on under their ids with what is down here, too, and was not told here: see `handover`."""
        for opened in theirs:
            trouble = self.troubles.get(opened.cause)
            if (
                trouble is not None
                and (incident := trouble.incident) is not None
                and incident.told_at is None
            ):
                self._adopt(trouble, incident, opened)

    def take_over(
        self, theirs: Iterable[Opened], reaches: Collection[str], now: datetime
    ) -> Sequence[Notice]:
        """Make one's own what a former leader has told: see `handover`.

        Args:
            theirs: What is open for who was told by the former leader.
            reaches: The ids of incidents of which something that was told here reaches somebody, or has.
            now: The moment.
        """
        told = {opened.cause: opened for opened in theirs}
        for trouble in [*self.troubles.values()]:
            if (incident := trouble.incident) is None or incident.closed_by is not None:
                continue
            known = told.get(trouble.cause)
            reached = incident.told_at is None or incident.id in reaches
            if known is not None and (incident.told_at is None or not reached or incident.id == known.id):
                del told[trouble.cause]
                self._adopt(trouble, incident, known)
            elif known is None and not reached:
                self._begin_anew(trouble, incident, now)
        for opened in told.values():
            over = Incident(id=opened.id, latest=opened.id, due=now, opened_at=opened.opened_at)
            over.closed_for = "over when another observer took over"
            over.began = Bounds(None, opened.opened_at)
            self._told.append(incident_notice("incident.closed", Trouble(opened.cause), over, now))
        return self._collected()

    def _adopt(self, trouble: Trouble, incident: Incident, known: Opened) -> None:
        incident.id = known.id
        if incident.told_at is None:
            incident.told_at, incident.told_of = known.opened_at, len(incident.concerned)
            incident.opened_at = incident.opened_at or known.opened_at
            first = min(trouble.members.values(), key=lambda since: since.order, default=None)
            incident.began = incident.began or first
            self._wake_at(trouble.deadline(self.rules))

    def _begin_anew(self, trouble: Trouble, incident: Incident, now: datetime) -> None:
        """Make what is down now an incident of its own: of the one that was told here nobody has heard.

        It is held down as any other: the first one may have been open for long only because it flapped. And
        it has another id, or who was told that the first one is over would take this for it.
        """
        trouble.incident = None
        if trouble.members:
            trouble.incident = Incident(
                id=identified(incident.id, encode_time(now)),
                latest=incident.latest,
                due=max(now, due(trouble.members, trouble.planned, self.rules)),
                events=incident.events,
                worst=incident.worst,
                concerned=set(trouble.members),
                inferred=incident.inferred,
            )
        elif trouble.over:
            del self.troubles[trouble.cause]
            return
        self._wake_at(trouble.deadline(self.rules))

    def unassigned(self, is_unassigned: Callable[[int], bool], now: datetime) -> Sequence[Notice]:
        """End what waits for brokers that no partition is assigned to: they were taken away, or held nothing.

        Args:
            is_unassigned: Tells it of a broker, by what the cluster looks like now.
            now: The moment of that.
        """
        for trouble in [*self.troubles.values()]:
            gone = [member for member in trouble.members if member.kind is Kind.BROKER]
            if gone and (incident := trouble.incident) is not None and is_unassigned(gone[0].id):
                incident.closed_for = "no partition is assigned to it"
                self._came_up(gone, Happening(id=incident.latest, name="", at=now, initial=True))
        return self._collected()

    def forget_the_future(self, now: datetime, limit: datetime) -> None:
        """Bring to ``now`` what lies after ``limit``: a clock said so that nobody goes by any more.

        Else updates, and whether it flaps, would wait until that time comes. What is held down is open now:
        nobody knows how long it has been down.
        """
        for trouble in self.troubles.values():
            trouble.forget_the_future(now, limit)
            if (incident := trouble.incident) is not None and incident.opened_at is None and trouble.members:
                found = due(trouble.members, trouble.planned, self.rules)
                incident.due = min(incident.due, max(now, found))
        self._wake = min(self._deadlines(), default=None)

    @property
    def standing(self) -> Standing:
        """How things stand."""
        incidents = [t.incident for t in self.troubles.values() if t.incident is not None]
        opened = [incident for incident in incidents if incident.opened_at is not None]
        return Standing(
            open=sum(incident.open for incident in opened),
            silenced=sum(incident.open and incident.muted_by is not None for incident in opened),
            held=len(incidents) - len(opened),
            flapping=sum(trouble.flapping.active for trouble in self.troubles.values()),
        )

    def _collected(self) -> Sequence[Notice]:
        told, self._told = self._told, []
        return told

    # -- what happened -------------------------------------------------------------------------------

    def _take(self, happening: Happening) -> None:
        if happening.name in DOWN:
            self._went_down(happening)
        elif happening.name in UP:
            self._came_up(members_of(happening), happening)
        elif happening.name in {"topic.deleted", "topic.recreated"}:
            topic = happening.data["topic"]
            gone = [m for m in self._causes if m.kind is Kind.PARTITION and m.name == topic]
            self._came_up(sorted(gone), happening)

    def _passes(self, happening: Happening) -> bool:
        if happening.name not in PASSING or happening.initial:
            return False
        topic = happening.data.get("topic")
        topics = frozenset() if topic is None else frozenset((topic,))
        return self._mute_for(happening.name, None, topics, happening.at) is None

    def _went_down(self, happening: Happening) -> None:
        (member,) = members_of(happening)
        if member in self._causes:  # told before the observer's restart, or by another producer
            return
        seen = seen_cause_of(happening)
        cause = self._causes[member] = self._bounded(inferred_cause_of(happening) if seen is None else seen)
        trouble = self.troubles.setdefault(cause, Trouble(cause))
        if not trouble.members and trouble.incident is not None and trouble.incident.closed_by is not None:
            # It stayed for it flapped; what goes down after somebody closed it is a new one.
            trouble.incident = None
        was_down = trouble.down
        trouble.members[member] = happening.bounds
        if happening.planned:
            trouble.planned.add(member)
        held_until = happening.at + hold_down(member, self.rules, planned=happening.planned)
        if (incident := trouble.incident) is None:
            id_ = identified(self.cluster, cause.as_json(), happening.id)
            incident = trouble.incident = Incident(id=id_, latest=happening.id, due=held_until)
        incident.due, incident.ended = min(incident.due, held_until), None
        incident.concerned.add(member)
        incident.inferred = incident.inferred and seen is None
        self._changed(trouble, incident, happening, was_down=was_down)

    def _bounded(self, cause: Cause) -> Cause:
        """Return a cause; `MANY_TOPICS` if it is one topic too many: nobody reads 10,000 pages."""
        if cause.topic is None or cause in self.troubles:
            return cause
        topics = sum(known.topic is not None for known in self.troubles)
        return cause if topics < self.rules.max_topics else MANY_TOPICS

    def _came_up(self, members: Iterable[Member], happening: Happening) -> None:
        up: dict[Cause, list[Member]] = {}
        for member in members:
            if (cause := self._causes.pop(member, None)) is not None:
                up.setdefault(cause, []).append(member)
        for cause, those in up.items():
            trouble = self.troubles[cause]
            incident, was_down = trouble.incident, trouble.down
            assert incident is not None  # noqa: S101 - there is one as long as there are members
            for member in those:
                del trouble.members[member]
                trouble.planned.discard(member)
            if incident.opened_at is None:
                reason = Suppressed.FLAPPING if trouble.flapping.active else Suppressed.DEBOUNCED
                self.suppressed[reason] += len(those)
            self._changed(trouble, incident, happening, was_down=was_down)

    def _changed(self, trouble: Trouble, incident: Incident, happening: Happening, *, was_down: bool) -> None:
        incident.note(happening)
        told_at = incident.told_at
        if told_at is not None and trouble.members and happening.at < told_at + self.rules.update_span:
            self.suppressed[Suppressed.RATE_LIMITED] += 1
        if trouble.down is not was_down and not happening.initial:
            transition = Transition(happening.at, trouble.down)
            trouble.flapping.note(transition, incident.concerned, self.rules)
        if not trouble.members:
            incident.ended = happening.bounds
            if told_at is None or not trouble.flapping.active:  # else it would be opened again soon
                self._close(trouble, incident, happening.at)
        if trouble.over:
            del self.troubles[trouble.cause]
        else:
            self._wake_at(trouble.deadline(self.rules))

    def _close(self, trouble: Trouble, incident: Incident, at: datetime) -> None:
        trouble.incident = None
        # Who was told of the beginning is told of the end, silence or not.
        if incident.closed_by is None and incident.told_at is not None:
            self._told.append(incident_notice("incident.closed", trouble, incident, at))

    # -- what time brings ----------------------------------------------------------------------------

    def _deadlines(self) -> Iterator[datetime]:
        yield from (mute.until for mute in self.mutes.values())
        for trouble in self.troubles.values():
            if (moment := trouble.deadline(self.rules)) is not None:
                yield moment

    def _wake_at(self, moment: datetime | None) -> None:
        if moment is not None:
            self._wake = moment if self._wake is None else min(self._wake, moment)

    def _advance(self, before: datetime, known_to: datetime | None = None) -> None:
        """Do what is due before a moment. What is due at it waits: an event of that moment may undo it.

        What is held down is not opened after ``known_to``, which an event may undo, too.
        """
        wake = self._wake
        if wake is None or wake >= before:  # as for nearly all of the thousands of events of one look
            return
        while wake is not None and wake < before:
            moment = wake
            for mute in [*self.mutes.values()]:
                if mute.until <= moment:
                    self._unmute(mute)
            for trouble in [*self.troubles.values()]:
                self._look_at_flapping(trouble, moment)
                if trouble.incident is not None and (
                    known_to is None or moment <= known_to or trouble.incident.opened_at is not None
                ):
                    self._look_at_incident(trouble, trouble.incident, moment)
                if trouble.over:
                    del self.troubles[trouble.cause]
            wake = min((due for due in self._deadlines() if due > moment), default=None)
        self._wake = min(self._deadlines(), default=None)

    def _look_at_incident(self, trouble: Trouble, incident: Incident, moment: datetime) -> None:
        if incident.opened_at is None and incident.due <= moment:
            incident.due = due(
                trouble.members, trouble.planned, self.rules
            )  # what was down first may have come up since
            if incident.due <= moment:
                incident.opened_at = incident.pending = moment
                incident.began = min(trouble.members.values(), key=lambda since: since.order)
        deadline = trouble.due(self.rules)
        if incident.opened_at is None or deadline is None or deadline > moment:
            return
        name = "incident.opened" if incident.told_at is None else "incident.updated"
        reminds, incident.pending = incident.pending is None, None
        incident.muted_by = self._mute_for(name, trouble.cause.broker, _topics(incident.concerned), moment)
        if incident.muted_by is None:
            self._told.append(incident_notice(name, trouble, incident, moment, reminds=reminds))
            incident.told_at, incident.told_of = moment, len(incident.concerned)
        else:
            incident.silenced = True

    def _look_at_flapping(self, trouble: Trouble, moment: datetime) -> None:
        flapping, name = trouble.flapping, "flapping.started"
        if flapping.pending is not None and flapping.pending <= moment:
            flapping.pending = None
            topics = _topics(flapping.concerned)
            flapping.muted_by = self._mute_for(name, trouble.cause.broker, topics, moment)
            if flapping.told:
                self._told.append(flapping_notice(name, trouble, moment))
        stable_at = flapping.stable_at(self.rules)
        if stable_at is not None and stable_at <= moment:
            if flapping.told:
                self._told.append(flapping_notice("flapping.stopped", trouble, moment))
            trouble.flapping = Flapping()
            if not trouble.members and trouble.incident is not None:
                self._close(trouble, trouble.incident, moment)

    # -- silences ------------------------------------------------------------------------------------

    def _mute_for(
        self, name: str, broker: int | None, topics: frozenset[str], moment: datetime
    ) -> str | None:
        """Return the id of the silence that mutes this, which counts it; None if none does."""
        for silence in self.silences:
            end = silence.end_after(moment)
            if end is not None and silence.mutes(name, self.cluster, broker, topics):
                self._running(silence, end).muted[name] += 1
                self.suppressed[Suppressed.SILENCED] += 1
                return silence.id
        return None

    def _running(self, silence: Silence, end: datetime) -> Mute:
        self._wake_at(end)
        return self.mutes.setdefault(silence.id, Mute(silence, end))

    def _follow_silences(self, now: datetime) -> None:
        """Let those begin that began, and those end sooner or later that were changed or removed."""
        existing = {silence.id: silence for silence in self.silences}
        for id_, mute in self.mutes.items():
            mute.silence = existing.get(id_, mute.silence)
            end = mute.silence.end_after(now) if id_ in existing else None
            mute.until = min(mute.until, now) if end is None else end
            self._wake_at(mute.until)
        for silence in self.silences:
            if (end := silence.end_after(now)) is not None:
                self._running(silence, end)

    def _unmute(self, mute: Mute) -> None:
        """Tell that a silence has ended; what it muted and is still so is to be told from now on."""
        id_ = mute.silence.id
        del self.mutes[id_]
        still_open: list[str] = []
        for trouble in self.troubles.values():
            flapping, incident = trouble.flapping, trouble.incident
            if flapping.muted_by == id_:
                flapping.pending, flapping.muted_by = mute.until, None
            if incident is not None and incident.muted_by == id_:
                incident.pending, incident.muted_by = mute.until, None
                still_open.append(incident.id)
        self._told.append(silence_notice(mute.silence, mute.until, mute.muted, still_open))


def _topics(members: Iterable[Member]) -> frozenset[str]:
    """Return the topics concerned; none if a broker is, too: that is more than a silence of topics is for."""
    concerned = {(member.kind, member.name) for member in members}
    if any(kind is not Kind.PARTITION for kind, _ in concerned):
        return frozenset()
    return frozenset(name for _, name in concerned)
