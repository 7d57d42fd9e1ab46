"""What a tracker tells about itself and its changes, for metrics and health. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from attrs import evolve, field, frozen

from kafka_partition_events.control.changes.controller import Decision
from kafka_partition_events.control.changes.evidence import has_departed
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import Reason, Role, State
from kafka_partition_events.durations import NO_WORK, Durations

SKIPPED: Final = ("malformed", "version")
"""Why a record of a control topic was passed over."""

NO_CHANGES: Final = Durations((5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0))
"""None was finished yet."""

_FOLLOWED: Final = frozenset({State.CONVERGED, State.PARTIALLY_CONVERGED})


@frozen(kw_only=True)
class TrackerStatus:
    """How a tracker and its changes stand. Counts are since the process began.

    Attributes:
        elected: Whether it is the tracker; else it stands by, and knows of no changes.
        trouble: Why it does not work now; None: it does, or stands by.
        setbacks: How often it had to begin again.
        now_ms: The brokers' time at the last round; None before the first.
        changes: All that are kept, by id.
        instances: How many there are, by role.
        moves: How often changes came to a state.
        took: How long changes took to converge, in full or in part, from when they had happened.
        refused: Commands that were refused.
        skipped: Records that were not understood, by `SKIPPED`.
        rounds: How long rounds took.
    """

    elected: bool = False
    trouble: str | None = None
    setbacks: int = 0
    now_ms: int | None = None
    changes: Mapping[str, Change] = field(factory=dict)
    instances: Mapping[Role, int] = field(factory=dict)
    moves: Mapping[State, int] = field(factory=dict)
    took: Durations = NO_CHANGES
    refused: Mapping[Reason, int] = field(factory=dict)
    skipped: Mapping[str, int] = field(factory=dict)
    rounds: Durations = NO_WORK

    def counted(self, decision: Decision, seconds: float) -> "TrackerStatus":
        """Return it after a round that was written, and that took so many seconds."""
        took = self.took
        for change in decision.moved:
            if change.state in _FOLLOWED and None not in {change.finished_ms, change.observed_ms}:
                took = took.plus((change.finished_ms - change.observed_ms) / 1_000)  # type: ignore[operator]
        refused = (refusal.refused for refusal in decision.refusals if refusal.refused)
        return evolve(
            self,
            moves=Counter(self.moves) + Counter(change.state for change in decision.moved),
            took=took,
            refused=Counter(self.refused) + Counter(refused),
            rounds=self.rounds.plus(seconds),
        )

    def leading(self, ledger: Ledger, now_ms: int) -> "TrackerStatus":
        """Return how an elected tracker stands."""
        leases = [each.record for each in ledger.leases.values() if not has_departed(each, now_ms)]
        here = Counter(lease.role for lease in leases if lease.view or lease.group)  # not the tracker's own
        return evolve(
            self,
            elected=True,
            trouble=None,
            now_ms=now_ms,
            changes=dict(ledger.changes),
            instances={role: here[role] for role in Role},
        )

    def standing_by(self, trouble: str | None = None) -> "TrackerStatus":
        """Return how a tracker stands that is not elected, or can't work."""
        return evolve(self, elected=False, trouble=trouble, now_ms=None, changes={}, instances={})
