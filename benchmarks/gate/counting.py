"""Which acknowledged records nobody has received. Pure."""

import math
from collections.abc import Collection, Sequence

from attrs import frozen

from benchmarks.gate.diary import Entry
from benchmarks.gate.plan import OLD

_NS = 1_000_000_000


@frozen(kw_only=True)
class Moments:
    """When something has happened to a topic, in ns since 1970.

    Attributes:
        positioned: From then on its group has committed offsets on all old partitions; counting begins.
        grown: The new partitions were seen.
        opened: The tracker's record that opens the gate was appended; None if none was, or there is no gate.
        deadline: When producers may open the gate without being told; None if there is none.
        struck: When something went wrong on purpose; None if nothing did.
    """

    positioned: int
    grown: int
    opened: int | None = None
    deadline: int | None = None
    struck: int | None = None


@frozen(kw_only=True)
class Run:
    """One topic that grew.

    Attributes:
        batch: Which batch it was in.
        acked: Records that were acknowledged since counting began,
        acked_new: and those on new partitions.
        missed_old: Acknowledged records of old partitions that no consumer has received,
        missed_new: and those of new partitions.
        open_s: Seconds from growth until the gate was open, for producers that opened it themselves until the
            first record on a new partition; None without a gate.
        used_s: Seconds from growth until the first record on a new partition was acknowledged.
        early: Records on new partitions that were acknowledged before the gate was open. There must be none.
        held_when_struck: Whether the gate was held when something went wrong; None if nothing did.
        opened_by: What the change says about who opened the gate; ``"itself"`` for producers that did.
    """

    batch: int
    acked: int
    acked_new: int
    missed_old: int
    missed_new: int
    open_s: float | None
    used_s: float | None
    early: int
    held_when_struck: bool | None
    opened_by: str | None

    @property
    def missed(self) -> int:
        return self.missed_old + self.missed_new


def run_of(
    batch: int,
    acked: Sequence[Entry],
    received: Collection[tuple[int, int]],
    moments: Moments,
    opened_by: str | None = None,
) -> Run:
    """Return what became of one topic's records.

    Args:
        batch: Its number.
        acked: What the producer was told is written.
        received: Partition and offset of what any member of the group has received.
        moments: When something has happened.
        opened_by: Who or what opened the gate, by the change; None without a gate.
    """
    counted = [entry for entry in acked if entry.at_ns >= moments.positioned]
    new = [entry for entry in counted if entry.partition >= OLD]
    missed = [entry.partition for entry in counted if (entry.partition, entry.offset) not in received]
    missed_new = sum(partition >= OLD for partition in missed)
    used = min((entry.at_ns for entry in new), default=None)
    itself = moments.deadline is not None and used is not None and used < (moments.opened or math.inf)
    opened = used if itself else moments.opened
    allowed = min(moments.opened or math.inf, moments.deadline or math.inf)
    gated = moments.deadline is not None
    return Run(
        batch=batch,
        acked=len(counted),
        acked_new=len(new),
        missed_old=len(missed) - missed_new,
        missed_new=missed_new,
        open_s=_seconds(opened, moments) if gated else None,
        used_s=_seconds(used, moments),
        early=sum(entry.at_ns < allowed for entry in new) if gated else 0,
        held_when_struck=None if moments.struck is None else moments.struck < (opened or math.inf),
        opened_by="itself" if itself else opened_by,
    )


def _seconds(moment: int | None, moments: Moments) -> float | None:
    return None if moment is None else round((moment - moments.grown) / _NS, 2)
