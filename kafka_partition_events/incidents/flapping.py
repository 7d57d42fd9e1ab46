"""What goes down and comes up again and again is told once, not each time. Pure.

Judged by cause, as incidents are: a broker that flaps with its 2,000 partitions flaps once.
"""

from datetime import datetime
from itertools import pairwise

from attrs import define, field, frozen

from kafka_partition_events.incidents.causes import Member
from kafka_partition_events.incidents.rules import Rules


@frozen
class Transition:
    """The cause went down, or came up."""

    at: datetime
    down: bool


@define(kw_only=True)
class Flapping:
    """How often one cause went down and came up of late.

    Attributes:
        transitions: Those within the window, ascending; of one that is flapping, the last one.
        since: The first transition of those that made it flapping; None while it is not.
        count: How many transitions there were since then.
        offline: Seconds that it was down since then, up to the last transition.
        concerned: What was down when it began.
        pending: From when on somebody should be told.
        muted_by: The silence that prevented that.
    """

    transitions: list[Transition] = field(factory=list)
    since: datetime | None = None
    count: int = 0
    offline: float = 0.0
    concerned: set[Member] = field(factory=set)
    pending: datetime | None = None
    muted_by: str | None = None

    @property
    def active(self) -> bool:
        """Whether it is flapping."""
        return self.since is not None

    @property
    def told(self) -> bool:
        """Whether somebody was told that it began."""
        return self.active and self.pending is None and self.muted_by is None

    def note(self, transition: Transition, concerned: set[Member], rules: Rules) -> None:
        """Note a transition."""
        self.transitions.append(transition)
        if self.active:
            self.count += 1
            self.offline += _offline(self.transitions)
            del self.transitions[:-1]
            return
        self.transitions = [t for t in self.transitions if t.at > transition.at - rules.flap_span]
        if len(self.transitions) >= rules.flap_transitions:
            self.since, self.count = self.transitions[0].at, len(self.transitions)
            self.offline = _offline(self.transitions)
            self.concerned = set(concerned)
            self.pending = transition.at
            del self.transitions[:-1]

    def stable_at(self, rules: Rules) -> datetime | None:
        """Return when it will have been stable for a window; None if it has been so for long."""
        return self.transitions[-1].at + rules.flap_span if self.transitions else None

    def offline_until(self, moment: datetime) -> float:
        """Return how many seconds it was down since it began to flap."""
        return self.offline + _offline([*self.transitions[-1:], Transition(moment, down=False)])


def _offline(transitions: list[Transition]) -> float:
    return sum(
        (after.at - before.at).total_seconds() for before, after in pairwise(transitions) if before.down
    )
