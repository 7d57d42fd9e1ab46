"""Counts a sample's keys for all scenarios at once.

A row's key is hashed once. Where it is in a group of scenarios is one number (`_together`), because Spark
groups by one much faster than by several; a scenario with too many combinations has two (`_alone`). Rows are
grouped by these numbers, natively and in one pass. There are few of them whatever the size of the sample, so
they are taken apart here: Spark would be slower at it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.partitioner.hashes import key_number
from kafka_partition_events.spark.whatif.plan import MOST_COMBINATIONS, Scenario, combinations, together
from kafka_partition_events.spark.whatif.results import Outcome, spread

HASH: Final = "_kpe_hash"
_CODE: Final = "_kpe_code"
_LARGEST_INT: Final = 0x7FFFFFFF

_Cell = tuple[int, int]
"""A scenario's index, and one of its `_Cells`."""


def with_hash(rows: DataFrame, hash_name: HashName) -> DataFrame:
    """Add the column `HASH`: the number, 0 or more, from which every scenario follows; null for no key.

    Rows have the keys as ``key``, STRING or BINARY.
    """
    return rows.withColumn(HASH, key_number(rows.sparkSession, F.col("key").cast("binary"), hash_name))


def count(
    sample: DataFrame,
    scenarios: Sequence[Scenario],
    hash_name: HashName = "murmur2",
    *,
    limit: int = MOST_COMBINATIONS,
) -> tuple[Outcome, ...]:
    """Return what each scenario comes to for a sample; runs one Spark job.

    Args:
        sample: With ``key`` (STRING or BINARY, null for none).
        scenarios: What would be the case.
        hash_name: The key hash.
        limit: How many combinations are counted together; see `together`.
    """
    cells = [_Cells(index, scenario) for index, scenario in enumerate(scenarios)]
    groups = together(scenarios, limit)
    codes = [_together([cells[index] for index in group]) for group in groups]
    for index in sorted(set(range(len(cells))).difference(*groups)):
        codes += _alone(cells[index])
    ends = list(accumulate(code.size for code in codes))

    kind = "int" if ends[-1] <= _LARGEST_INT else "bigint"
    numbers = [code.column.cast(kind) + (end - code.size) for code, end in zip(codes, ends, strict=True)]
    number = numbers[0] if len(numbers) == 1 else F.explode(F.array(*numbers))
    grouped = with_hash(sample, hash_name).select(number.alias(_CODE)).groupBy(_CODE).count()

    counts: list[Counter[int]] = [Counter() for _ in scenarios]
    unkeyed = 0
    for found, records in grouped.collect():
        if found is None:  # a row without a key has been counted once for each code
            unkeyed = records // len(codes)
            continue
        at = bisect_right(ends, found)
        for index, cell in codes[at].cells_of(found - ends[at] + codes[at].size):
            counts[index][cell] += records
    return tuple(each.outcome(counts[each.index], unkeyed) for each in cells)


@frozen
class _Cells:
    """What of a key counts in a scenario, as numbers: one for where it is now, and one for what will be.

    The first is the key's partition. The second is beyond as many as there are now: twice the key's home,
    plus one if it moves.
    """

    index: int
    scenario: Scenario

    @property
    def size(self) -> int:
        """How many there are."""
        return self.scenario.current + 2 * self.scenario.partitions

    def of(self, number: int) -> tuple[_Cell, _Cell]:
        """Return both of a key, from its hash or a remainder that gives both places."""
        scenario = self.scenario
        before, home = number % scenario.current, number % scenario.home
        return (self.index, before), (self.index, scenario.current + 2 * home + (home != before))

    def columns(self) -> tuple[Column, Column]:
        """Return both as columns."""
        scenario = self.scenario
        before, home = F.col(HASH) % scenario.current, F.col(HASH) % scenario.home
        return before, home * 2 + (home != before).cast("int") + scenario.current

    def outcome(self, counts: Counter[int], unkeyed: int) -> Outcome:
        """Return what records by number come to, with those that have no key."""
        scenario = self.scenario
        homes = range(scenario.current, self.size, 2)
        before = [counts[cell] for cell in range(scenario.current)]
        after = [counts[cell] + counts[cell + 1] for cell in homes]
        return Outcome(
            scenario=scenario,
            before=spread(unkeyed, before),
            after=spread(unkeyed, after),
            moved=sum(counts[cell + 1] for cell in homes),
            keyed=sum(before),
            unkeyed=unkeyed,
        )


@frozen(eq=False)
class _Code:
    """Numbers from 0, of which each row with a key has one; null without."""

    size: int
    column: Column
    cells_of: Callable[[int], Iterable[_Cell]]


def _alone(cells: _Cells) -> Iterator[_Code]:
    """Return a scenario's own numbers."""
    for column in cells.columns():
        yield _Code(cells.size, column, lambda code: ((cells.index, code),))


def _together(cells: Sequence[_Cells]) -> _Code:
    """Return a number for each combination of the places of some scenarios.

    The remainder by the least common multiple of the counts gives the remainders by all of them.
    """
    modulus = combinations(each.scenario for each in cells)
    return _Code(
        modulus, F.col(HASH) % modulus, lambda code: (cell for each in cells for cell in each.of(code))
    )
