"""What is down for one cause, and what has been told of it."""

from datetime import datetime

from attrs import define, field

from kafka_partition_events.events.moments import Bounds
from kafka_partition_events.incidents.causes import Cause, Kind, Member
from kafka_partition_events.incidents.decisions import Decision
from kafka_partition_events.incidents.flapping import Flapping, Transition
from kafka_partition_events.incidents.inputs import Happening
from kafka_partition_events.incidents.rules import Rules


@define(kw_only=True)
class Incident:
    """From the moment that something of a cause is down until nothing is. Held down first, then open.

    Attributes:
        id: The same for whoever sees the same first event.
        latest: The id of the latest event.
        due: Not later than when the hold-down is over.
        events: How many there were.
        worst: The highest severity among them.
        concerned: What is or was down.
        inferred: Whether none of the events has said what its cause is.
        began: When what opened it went down.
        opened_at: When it was opened; None while it is held down.
        told_at: When it was told last; None if it never was.
        told_of: How many things it concerned then.
        ended: When nothing was down any more; it stays open as long as it flaps.
        pending: Since when there is something that was not told.
        muted_by: The silence that prevented telling it.
        silenced: Whether a silence ever did.
        closed_by: Who closed it although it is not over; None if nobody did. Nothing more is told of it then.
        closed_for: Why; also of one that ended by itself in another way than that all of it came back.
        acked_by: Who has said that he looks after it; None if nobody has. There are no reminders then.
        acked_for: What he said.
        acked_at: When.
    """

    id: str
    latest: str
    due: datetime
    events: int = 0
    worst: int = 0
    concerned: set[Member] = field(factory=set)
    inferred: bool = True
    began: Bounds | None = None
    opened_at: datetime | None = None
    told_at: datetime | None = None
    told_of: int = 0
    ended: Bounds | None = None
    pending: datetime | None = None
    muted_by: str | None = None
    silenced: bool = False
    closed_by: str | None = None
    closed_for: str | None = None
    acked_by: str | None = None
    acked_for: str | None = None
    acked_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether it was opened, and nobody has closed it."""
        return self.opened_at is not None and self.closed_by is None

    def heed(self, decision: Decision) -> str | None:
        """Note what somebody has decided; return the name of what is to be told, None for nothing new."""
        if decision.verb == "close":
            self.closed_by, self.closed_for, self.muted_by = decision.author, decision.reason, None
            return "incident.closed"
        if self.acked_at is not None and decision.at <= self.acked_at:
            return None
        self.acked_by, self.acked_for, self.acked_at = decision.author, decision.reason, decision.at
        return "incident.acknowledged"

    def note(self, happening: Happening) -> None:
        """Note an event that belongs to it."""
        self.latest = happening.id
        self.events += 1
        self.worst = max(self.worst, happening.severity)
        if self.opened_at is not None and self.pending is None:
            self.pending = happening.at

    def deadline(self, rules: Rules) -> datetime | None:
        """Return when it may have to be opened or told next; None if only an event can change that."""
        if self.opened_at is None:
            return self.due
        if self.closed_by is not None:
            return None
        if self.told_at is None:
            return self.pending
        if self.pending is not None:
            return max(self.pending, self.told_at + rules.update_span)
        quiet = self.acked_by or self.muted_by or self.ended or not rules.reminder_interval
        return None if quiet else self.told_at + rules.reminder_span


@define
class Trouble:
    """What is down for one cause.

    Attributes:
        cause: The cause.
        members: What is down, and when it went down.
        planned: Those of them that a change had asked for.
        flapping: How often it went down and came up of late.
        incident: None when nothing is down, and nothing flaps that was told.
    """

    cause: Cause
    members: dict[Member, Bounds] = field(factory=dict)
    planned: set[Member] = field(factory=set)
    flapping: Flapping = field(factory=Flapping)
    incident: Incident | None = None

    def forget_the_future(self, now: datetime, limit: datetime) -> None:
        """Bring to ``now`` what lies after ``limit``."""
        incident, flapping, since = self.incident, self.flapping, Bounds(None, now)

        def known(moment: datetime) -> datetime:
            return now if moment > limit else moment

        late = [member for member, found in self.members.items() if found.by > limit]
        self.members.update(dict.fromkeys(late, since))
        flapping.transitions = [Transition(known(each.at), each.down) for each in flapping.transitions]
        for owner in filter(None, (flapping, incident)):
            for name in ("since", "pending", "opened_at", "told_at"):
                if (moment := getattr(owner, name, None)) is not None:
                    setattr(owner, name, known(moment))
        if incident is not None and incident.began is not None and incident.began.by > limit:
            incident.began = since
        if late and incident is not None and incident.opened_at is None:
            incident.opened_at = incident.pending = now
            incident.began = since

    @property
    def down(self) -> bool:
        """Whether anything is down for certain: suspicions of producers come and go within seconds."""
        return any(member.kind is not Kind.SUSPICION for member in self.members)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to remember."""
        return self.incident is None and not self.flapping.transitions

    def due(self, rules: Rules) -> datetime | None:
        """Return when its incident may have to be opened or told next; None: only an event can change it."""
        incident = self.incident
        if incident is None or (due := incident.deadline(rules)) is None:
            return None
        if incident.told_at is None or not self.flapping.active or incident.told_of < len(incident.concerned):
            return due
        # It is open, and that it comes and goes was told. That it stays away this time is news.
        return max(due, self.flapping.transitions[-1].at + rules.update_span) if self.members else None

    def deadline(self, rules: Rules) -> datetime | None:
        """Return when time alone may change something; None if it can't."""
        moments = [self.flapping.pending, self.flapping.stable_at(rules), self.due(rules)]
        return min((moment for moment in moments if moment is not None), default=None)
