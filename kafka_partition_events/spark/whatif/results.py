"""What each scenario would come to, from what was counted. Pure."""

from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from attrs import asdict, field, frozen

from kafka_partition_events.spark.whatif.plan import HashName, Scenario


class Side(StrEnum):
    """Which of the two is counted."""

    BEFORE = "before"
    AFTER = "after"


class Fate(StrEnum):
    """What becomes of a key's records."""

    HOME = "home"
    """They go where the key belongs."""
    HELD = "held"
    """They go to a partition that is offline, and wait there."""
    UNKEYED = "unkeyed"
    """They have no key, and take turns on the usable partitions."""


@frozen
class Load:
    """So many records, or keys where each key counts once, and their bytes."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.records + other.records, self.bytes + other.bytes)


@frozen(kw_only=True)
class Counted:
    """How many records of one scenario have all of this in common, on one of its sides.

    ``partition`` is None for records without a key.
    """

    scenario: int
    side: Side
    partition: int | None
    moved: bool
    fate: Fate
    load: Load


@frozen(kw_only=True)
class Outcome:
    """What one scenario would come to.

    Attributes:
        scenario: The scenario.
        before: What each partition has now.
        after: What each partition would have.
        moved: Of keys that would belong to another partition than now.
        held: Of records that would wait for an offline partition.
        rerouted: Of records without a key that would go around offline partitions.
        capped: Of unkeyed records that the cap would keep off partitions.
        keyed: Of keyed records in all.
        unkeyed: Of records without a key; they are spread evenly over the usable partitions.
    """

    scenario: Scenario
    before: tuple[Load, ...]
    after: tuple[Load, ...]
    moved: Load
    held: Load
    rerouted: Load
    capped: Load
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
        distinct: Whether each key counts once, so that records are keys.
        has_bytes: Whether the sample tells bytes.
        seconds: How long it took to count.
        made_at: When.
    """

    source: str
    outcomes: tuple[Outcome, ...]
    hottest: tuple[HotKey, ...] = ()
    hash_name: HashName = "murmur2"
    distinct: bool = False
    has_bytes: bool = True
    seconds: float = 0.0
    made_at: datetime = field(factory=lambda: datetime.now(UTC))

    @property
    def noun(self) -> str:
        """What is counted."""
        return "key" if self.distinct else "record"

    @property
    def current(self) -> int:
        """How many partitions the topic has now."""
        return self.outcomes[0].scenario.current


def outcomes(scenarios: Sequence[Scenario], counted: Iterable[Counted]) -> tuple[Outcome, ...]:
    """Return what each scenario would come to."""
    rows: list[list[Counted]] = [[] for _ in scenarios]
    for row in counted:
        rows[row.scenario].append(row)
    return tuple(_outcome(scenario, own) for scenario, own in zip(scenarios, rows, strict=True))


def _outcome(scenario: Scenario, rows: Iterable[Counted]) -> Outcome:
    before = [Load()] * scenario.current
    after = [Load()] * scenario.partitions
    fates: dict[Fate, Load] = dict.fromkeys(Fate, Load())
    moved = Load()
    for row in rows:
        loads = before if row.side is Side.BEFORE else after
        if row.partition is not None:
            loads[row.partition] += row.load
        if row.side is Side.AFTER:
            fates[row.fate] += row.load
            moved += row.load if row.moved else Load()
    unkeyed = fates.pop(Fate.UNKEYED)
    route = scenario.route
    for partition, share in _spread(unkeyed, range(scenario.current)):
        before[partition] += share
    for partition, share in _spread(unkeyed, route.usable):
        after[partition] += share
    # Where nothing is online, records are sent all the same, and wait.
    waiting = Load() if route.online else unkeyed
    going_around = _on(scenario.offline, unkeyed, route.admitted) if route.online else Load()
    return Outcome(
        scenario=scenario,
        before=tuple(before),
        after=tuple(after),
        moved=moved,
        held=fates[Fate.HELD] + waiting,
        rerouted=going_around,
        capped=_on(set(route.all) - set(route.admitted), unkeyed, route.all),
        keyed=sum(fates.values(), Load()),
        unkeyed=unkeyed,
    )


def skew(loads: Sequence[int]) -> float:
    """Return how many times the mean the largest is; 1 when there is nothing."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else 1.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _on(some: Container[int], load: Load, partitions: Sequence[int]) -> Load:
    """Return what of the records that take turns on partitions goes to some of them."""
    return sum((share for partition, share in _spread(load, partitions) if partition in some), Load())


def _spread(load: Load, partitions: Sequence[int]) -> Iterator[tuple[int, Load]]:
    """Yield what each partition gets of records that take turns on them."""
    records, more_records = divmod(load.records, len(partitions))
    size, more_bytes = divmod(load.bytes, len(partitions))
    for turn, partition in enumerate(partitions):
        yield partition, Load(records + (turn < more_records), size + (turn < more_bytes))


# -- as JSON -----------------------------------------------------------------------------------------------


def to_json(answer: WhatIf) -> dict[str, Any]:
    """Return the answer as a JSON document. A later version may add fields."""
    return {
        "format": "kpe.whatif",
        "version": 1,
        "source": answer.source,
        "made_at": answer.made_at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "hash": answer.hash_name,
        "counts": f"{answer.noun}s",
        "has_bytes": answer.has_bytes,
        "seconds": round(answer.seconds, 3),
        "partitions": answer.current,
        "scenarios": [_outcome_json(outcome) for outcome in answer.outcomes],
        "hottest": [_hot_json(key, answer.outcomes) for key in answer.hottest],
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    scenario = outcome.scenario
    loads = ("keyed", "unkeyed", "moved", "held", "rerouted", "capped")
    return {
        "name": scenario.name,
        "partitions": scenario.partitions,
        "mapping": scenario.mapping,
        "placed_by": scenario.placed_by or scenario.rule,
        "offline": sorted(scenario.offline),
        "cap": scenario.cap,
        **{name: asdict(getattr(outcome, name)) for name in loads},
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
