"""What a tracker tells about itself and its changes, for metrics and health. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from attrs import define, evolve, field, frozen

from kafka_partition_events.control.changes.followers import has_departed
from kafka_partition_events.control.changes.round import Outcome
from kafka_partition_events.control.protocol.codec import Skipped
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change, Lease
from kafka_partition_events.control.protocol.vocabulary import Kind, Reason, Role, State, Status
from kafka_partition_events.metadata.durations import NO_WORK, Durations

SKIPPED: Final = ("malformed", "version")
"""Why a record of a control topic was passed over."""

NO_CHANGES: Final = Durations((5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0))
"""None was finished yet."""

VERDICTS: Final = (*(str(status) for status in Status), "pending", "departed")
"""What a producer said at last of a change: nothing, too, or that it is gone."""

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
        stale: How many producers see fewer partitions of a topic than it has had for all that is known.
        moves: How often changes came to a state.
        took: How long changes took to converge, in full or in part, from when they had happened; by kind.
        verdicts: What producers of the cohort said at last of changes that had happened and are finished.
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
    stale: int = 0
    moves: Mapping[tuple[Kind, State], int] = field(factory=dict)
    took: Mapping[Kind, Durations] = field(factory=dict)
    verdicts: Mapping[str, int] = field(factory=dict)
    refused: Mapping[Reason, int] = field(factory=dict)
    skipped: Mapping[str, int] = field(factory=dict)
    rounds: Durations = NO_WORK


@define
class Tally:
    """What is counted as long as the process lives. One thread at a time."""

    setbacks: int = 0
    moves: Counter[tuple[Kind, State]] = field(factory=Counter)
    took: dict[Kind, Durations] = field(factory=dict)
    verdicts: Counter[str] = field(factory=Counter)
    refused: Counter[Reason] = field(factory=Counter)
    skipped: Skipped = field(factory=Skipped)
    rounds: Durations = NO_WORK

    def count(self, outcome: Outcome, seconds: float) -> None:
        """Count a round that was written."""
        self.moves.update((change.spec.kind, change.state) for change in outcome.moved)
        for change in outcome.moved:
            if change.finished_ms is not None and change.observed_ms is not None:
                self._finished(change, (change.finished_ms - change.observed_ms) / 1_000)
        self.refused.update(refusal.reason for refusal in outcome.refusals)
        self.rounds = self.rounds.plus(seconds)

    def _finished(self, change: Change, seconds: float) -> None:
        self.verdicts.update({verdict: getattr(change.totals, verdict) for verdict in VERDICTS})
        if change.state in _FOLLOWED:
            kind = change.spec.kind
            self.took[kind] = self.took.get(kind, NO_CHANGES).plus(seconds)

    def standing(self, ledger: Ledger, now_ms: int) -> TrackerStatus:
        """Return how an elected tracker stands."""
        leases = [t.holder.record for t in ledger.tenancies.values() if not has_departed(t, now_ms)]
        here = Counter(lease.role for lease in leases)
        return evolve(
            self.standing_by(),
            elected=True,
            now_ms=now_ms,
            changes=dict(ledger.changes),
            instances={role: here[role] for role in Role},
            stale=on_stale_view(leases, ledger.changes.values()),
        )

    def standing_by(self, trouble: str | None = None) -> TrackerStatus:
        """Return how a tracker stands that is not elected, or can't work."""
        return TrackerStatus(
            trouble=trouble,
            setbacks=self.setbacks,
            moves=dict(self.moves),
            took=dict(self.took),
            verdicts=dict(self.verdicts),
            refused=dict(self.refused),
            skipped=dict(self.skipped.counts),
            rounds=self.rounds,
        )


def on_stale_view(leases: Collection[Lease], changes: Collection[Change]) -> int:
    """Return how many producers see fewer partitions of a topic than it has.

    How many it has is what growth that was followed has led to, and what another producer sees. Where a lease
    tells no topic id it is only compared with others that tell none: a topic may have been created anew.
    """
    producers = [lease for lease in leases if lease.role is Role.PRODUCER]
    most: dict[_Topic, int] = {}
    for topic, count in [*_grown(changes), *(seen for lease in producers for seen in _views(lease))]:
        most[topic] = max(count, most.get(topic, 0))
    return sum(any(count < most[topic] for topic, count in _views(lease)) for lease in producers)


_Topic = tuple[str | None, str | None, str | None]


def _grown(changes: Collection[Change]) -> Iterator[tuple[_Topic, int]]:
    for change in changes:
        spec = change.spec
        if spec.kind.grows and change.state.happened:
            yield (spec.cluster_id, spec.topic, spec.topic_id), spec.to_count


def _views(lease: Lease) -> Iterator[tuple[_Topic, int]]:
    for use in lease.view:
        yield (lease.cluster_id, use.topic, use.topic_id), use.seen
