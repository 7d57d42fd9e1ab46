"""What a tracker reports of itself and its changes, for metrics and health. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from attrs import evolve, field, frozen

from kafka_partition_events.control.changes.controller import Decision
from kafka_partition_events.control.changes.evidence import has_departed
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change

SKIPPED: Final = ("malformed", "version")
"""Why a record of a control topic was passed over."""


@frozen(kw_only=True)
class TrackerStatus:
    """How a tracker and its changes stand. Counts are since the process began.

    Attributes:
        elected: Whether it is the tracker; else it stands by, and knows of no changes.
        trouble: Why it does not work now; None: it does, or stands by.
        setbacks: How often it had to begin again.
        cluster_id: The cluster; None: it was never elected.
        now_ms: The brokers' time at the last round; None before the first.
        changes: All that are kept, by id.
        instances: How many there are, by role.
        refused: Commands that were refused.
        skipped: Records that were not understood, by `SKIPPED`.
    """

    elected: bool = False
    trouble: str | None = None
    setbacks: int = 0
    cluster_id: str | None = None
    now_ms: int | None = None
    changes: Mapping[str, Change] = field(factory=dict)
    instances: Mapping[str, int] = field(factory=dict)
    refused: int = 0
    skipped: Mapping[str, int] = field(factory=dict)

    def after(self, decision: Decision, ledger: Ledger, cluster_id: str | None) -> "TrackerStatus":
        """Return how an elected tracker stands after a round that was written."""
        now_ms = decision.at_ms
        leases = [each.record for each in ledger.leases.values() if not has_departed(each, now_ms)]
        here = Counter(lease.group is None for lease in leases)
        return evolve(
            self,
            elected=True,
            trouble=None,
            cluster_id=cluster_id,
            now_ms=now_ms,
            changes=dict(ledger.changes),
            instances={"producer": here[True], "consumer": here[False]},
            refused=self.refused + len(decision.refusals),
        )

    def standing_by(self, trouble: str | None = None) -> "TrackerStatus":
        """Return how a tracker stands that is not elected, or can't work."""
        return evolve(self, elected=False, trouble=trouble, now_ms=None, changes={}, instances={})
