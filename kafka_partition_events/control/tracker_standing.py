"""What a tracker tells about itself and its changes, for metrics and health. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from attrs import define, field, frozen

from kafka_partition_events.control.census import has_departed
from kafka_partition_events.control.codec import Skipped
from kafka_partition_events.control.merge import Ledger
from kafka_partition_events.control.records import Change
from kafka_partition_events.control.rounds import Outcome
from kafka_partition_events.control.words import Kind, Reason, Role, State
from kafka_partition_events.metadata.durations import NO_WORK, Durations

SKIPPED: Final = ("malformed", "version")
"""Why a record of a control topic was passed over."""


@frozen(kw_only=True)
class TrackerStanding:
    """How a tracker and its changes stand. Counts are since the process began.

    Attributes:
        elected: Whether it is the tracker; else it stands by, and knows of no changes.
        trouble: Why it does not work now; None: it does, or stands by.
        setbacks: How often it had to begin again.
        now_ms: The brokers' time at the last round; None before the first.
        changes: All that are kept, by id.
        instances: How many there are, by role.
        moves: How often changes came to a state.
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
    moves: Mapping[tuple[Kind, State], int] = field(factory=dict)
    refused: Mapping[Reason, int] = field(factory=dict)
    skipped: Mapping[str, int] = field(factory=dict)
    rounds: Durations = NO_WORK


@define
class Tally:
    """What is counted as long as the process lives. One thread at a time."""

    setbacks: int = 0
    moves: Counter[tuple[Kind, State]] = field(factory=Counter)
    refused: Counter[Reason] = field(factory=Counter)
    skipped: Skipped = field(factory=Skipped)
    rounds: Durations = NO_WORK

    def count(self, outcome: Outcome, seconds: float) -> None:
        """Count a round that was written."""
        self.moves.update((change.spec.kind, change.state) for change in outcome.moved)
        self.refused.update(refusal.reason for refusal in outcome.refusals)
        self.rounds = self.rounds.plus(seconds)

    def standing(self, ledger: Ledger, now_ms: int) -> TrackerStanding:
        """Return how an elected tracker stands."""
        here = Counter(
            tenancy.holder.record.role
            for tenancy in ledger.tenancies.values()
            if not has_departed(tenancy, now_ms)
        )
        return TrackerStanding(
            elected=True,
            setbacks=self.setbacks,
            now_ms=now_ms,
            changes=dict(ledger.changes),
            instances={role: here[role] for role in Role},
            moves=dict(self.moves),
            refused=dict(self.refused),
            skipped=dict(self.skipped),
            rounds=self.rounds,
        )

    def standing_by(self, trouble: str | None = None) -> TrackerStanding:
        """Return how a tracker stands that is not elected, or can't work."""
        return TrackerStanding(
            trouble=trouble,
            setbacks=self.setbacks,
            moves=dict(self.moves),
            refused=dict(self.refused),
            skipped=dict(self.skipped),
            rounds=self.rounds,
        )
