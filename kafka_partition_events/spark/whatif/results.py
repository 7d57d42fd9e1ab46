"""What each scenario would come to, from what was counted. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen

from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.plan import Scenario


@frozen(kw_only=True)
class Outcome:
    """What one scenario would come to.

    Attributes:
        scenario: The scenario.
        before: How many records each partition has now.
        after: How many it would have.
        moved: How many records have a key that would belong to another partition than now.
        keyed: How many have a key.
        unkeyed: How many have none; they are spread evenly over the partitions.
    """

    scenario: Scenario
    before: tuple[int, ...]
    after: tuple[int, ...]
    moved: int
    keyed: int
    unkeyed: int

    @property
    def moved_share(self) -> float:
        """The share of keyed records whose key would move."""
        return self.moved / self.keyed if self.keyed else 0.0

    @property
    def skew_before(self) -> float:
        """How many times the mean the busiest partition has now."""
        return skew(self.before)

    @property
    def skew_after(self) -> float:
        """How many times the mean the busiest partition would have."""
        return skew(self.after)

    @property
    def busiest(self) -> int:
        """The partition that would have most records."""
        return max(range(len(self.after)), key=self.after.__getitem__)


@frozen(kw_only=True)
class HotKey:
    """A key with many records.

    Attributes:
        key: The key as text; bytes that are no text as hex digits after ``0x``.
        records: How many.
        share: Its share of all keyed records.
        before: The partition that it is on now, by scenario.
        after: The partition that its records would go to, by scenario.
    """

    key: str
    records: int
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
        seconds: How long it took to count.
        made_at: When.
    """

    source: str
    outcomes: tuple[Outcome, ...]
    hottest: tuple[HotKey, ...] = ()
    hash_name: HashName = "murmur2"
    seconds: float = 0.0
    made_at: datetime = field(factory=lambda: datetime.now(UTC))

    @property
    def current(self) -> int:
        """How many partitions the topic has now."""
        return self.outcomes[0].scenario.current


def spread(records: int, partitions: Sequence[int]) -> tuple[int, ...]:
    """Return partitions with what each gets of records that take turns on them."""
    each, more = divmod(records, len(partitions))
    return tuple(there + each + (turn < more) for turn, there in enumerate(partitions))


def skew(loads: Sequence[int]) -> float:
    """Return how many times the mean the largest is; 1 when there is nothing."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else 1.0


# -- as JSON -----------------------------------------------------------------------------------------------


def to_json(answer: WhatIf) -> dict[str, Any]:
    """Return the answer as a JSON document. A later version may add fields."""
    return {
        "format": "kpe.whatif",
        "version": 3,
        "source": answer.source,
        "made_at": answer.made_at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "hash": answer.hash_name,
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
        **{name: getattr(outcome, name) for name in ("keyed", "unkeyed", "moved", "moved_share")},
        "skew": {"before": outcome.skew_before, "after": outcome.skew_after},
        "before": outcome.before,
        "after": outcome.after,
    }


def _hot_json(key: HotKey, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    moves = zip(outcomes, key.before, key.after, strict=True)
    return {
        "key": key.key,
        "records": key.records,
        "share": key.share,
        "partitions": {
            outcome.scenario.name: {"before": before, "after": after} for outcome, before, after in moves
        },
    }
