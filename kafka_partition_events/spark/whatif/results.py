"""What each scenario would come to, from what was counted. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import asdict, field, frozen

from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.plan import Scenario


@frozen
class Load:
    """So many records and their bytes."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.records + other.records, self.bytes + other.bytes)


@frozen(kw_only=True)
class Outcome:
    """What one scenario would come to.

    Attributes:
        scenario: The scenario.
        before: What each partition has now.
        after: What each partition would have.
        moved: Of keys that would belong to another partition than now.
        keyed: Of keyed records in all.
        unkeyed: Of records without a key; they are spread evenly over the partitions.
    """

    scenario: Scenario
    before: tuple[Load, ...]
    after: tuple[Load, ...]
    moved: Load
    keyed: Load
    unkeyed: Load

    @property
    def moved_share(self) -> float:
        """The share of keyed records whose key would move."""
        return _share(self.moved.records, self.keyed.records)

    @property
    def moved_bytes_share(self) -> float:
        """The same of bytes."""
        return _share(self.moved.bytes, self.keyed.bytes)

    @property
    def skew_before(self) -> float:
        """How many times the mean the busiest partition has now."""
        return skew([load.records for load in self.before])

    @property
    def skew_after(self) -> float:
        """How many times the mean the busiest partition would have."""
        return skew([load.records for load in self.after])

    @property
    def busiest(self) -> int:
        """The partition that would have most records."""
        return max(range(len(self.after)), key=lambda p: self.after[p].records)


@frozen(kw_only=True)
class HotKey:
    """A key with many records.

    Attributes:
        key: The key as text; bytes that are no text as hex digits after ``0x``.
        load: Its records and bytes.
        share: Its share of all keyed records.
        before: The partition that it is on now, by scenario.
        after: The partition that its records would go to, by scenario.
    """

    key: str
    load: Load
    share: float
    before: tuple[int, ...]
    after: tuple[int, ...]


@frozen(kw_only=True)
class WhatIf:
    """The answer to all scenarios.

    Attributes:
        source: Where the sample is from.
        outcomes: What each scenario would come to.
        hottest: The keys with most records; empty if they were not asked for.
        hash_name: The key hash.
        has_bytes: Whether the sample tells bytes.
        seconds: How long it took to count.
        made_at: When.
    """

    source: str
    outcomes: tuple[Outcome, ...]
    hottest: tuple[HotKey, ...] = ()
    hash_name: HashName = "murmur2"
    has_bytes: bool = True
    seconds: float = 0.0
    made_at: datetime = field(factory=lambda: datetime.now(UTC))

    @property
    def current(self) -> int:
        """How many partitions the topic has now."""
        return self.outcomes[0].scenario.current


def spread(load: Load, partitions: Sequence[Load]) -> tuple[Load, ...]:
    """Return partitions with what each gets of records that take turns on them."""
    records, more_records = divmod(load.records, len(partitions))
    size, more_bytes = divmod(load.bytes, len(partitions))
    return tuple(
        each + Load(records + (turn < more_records), size + (turn < more_bytes))
        for turn, each in enumerate(partitions)
    )


def skew(loads: Sequence[int]) -> float:
    """Return how many times the mean the largest is; 1 when there is nothing."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else 1.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# -- as JSON -----------------------------------------------------------------------------------------------


def to_json(answer: WhatIf) -> dict[str, Any]:
    """Return the answer as a JSON document. A later version may add fields."""
    return {
        "format": "kpe.whatif",
        "version": 2,
        "source": answer.source,
        "made_at": answer.made_at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "hash": answer.hash_name,
        "has_bytes": answer.has_bytes,
        "seconds": round(answer.seconds, 3),
        "partitions": answer.current,
        "scenarios": [_outcome_json(outcome) for outcome in answer.outcomes],
        "hottest": [_hot_json(key, answer.outcomes) for key in answer.hottest],
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    scenario = outcome.scenario
    return {
        "name": scenario.name,
        "partitions": scenario.partitions,
        "mapping": scenario.mapping,
        **{name: asdict(getattr(outcome, name)) for name in ("keyed", "unkeyed", "moved")},
        "moved_share": outcome.moved_share,
        "moved_bytes_share": outcome.moved_bytes_share,
        "skew": {"before": outcome.skew_before, "after": outcome.skew_after},
        "skew_bytes": {
            side: skew([load.bytes for load in getattr(outcome, side)]) for side in ("before", "after")
        },
        "before": [asdict(load) for load in outcome.before],
        "after": [asdict(load) for load in outcome.after],
    }


def _hot_json(key: HotKey, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    moves = zip(outcomes, key.before, key.after, strict=True)
    return {
        "key": key.key,
        **asdict(key.load),
        "share": key.share,
        "partitions": {
            outcome.scenario.name: {"before": before, "after": after} for outcome, before, after in moves
        },
    }
