"""Counts a sample's keys for all scenarios at once.

A row's key is hashed once. Where it is in a group of scenarios is one number (`_together`), because Spark
groups by one much faster than by several; a scenario with too many combinations has two (`_alone`). Rows are
grouped by these numbers, natively and in one pass. There are few of them whatever the size of the sample, so
they are taken apart here: Spark would be slower at it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import lcm
from typing import Final

from attrs import frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.partitioner import HashName
from kafka_partition_events.spark.whatif.columns import HASH, partition_of, with_hash, with_jumps
from kafka_partition_events.spark.whatif.plan import (
    MOST_COMBINATIONS,
    Place,
    Scenario,
    combinations,
    together,
)
from kafka_partition_events.spark.whatif.results import Load, Outcome, spread

_CODE: Final = "_kpe_code"
_LARGEST_INT: Final = 0x7FFFFFFF

_Cell = tuple[int, int]
"""A scenario's index, and one of its `_Cells`."""


def count(
    sample: DataFrame,
    scenarios: Sequence[Scenario],
    hash_name: HashName = "murmur2",
    *,
    limit: int = MOST_COMBINATIONS,
) -> tuple[Outcome, ...]:
    """Return what each scenario comes to for a sample; runs one Spark job.

    Args:
        sample: With ``key`` (STRING or BINARY, null for none) and ``bytes`` (BIGINT).
        scenarios: What would be the case.
        hash_name: The key hash.
        limit: How many combinations are counted together; see `together`.

    Raises:
        SparkJobError: a hash can't be computed rightly in this session.
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
    placed = with_jumps(with_hash(sample, hash_name), [place for each in scenarios for place in each.places])
    totals = (F.count(F.lit(1)), F.coalesce(F.sum("bytes"), F.lit(0)))
    grouped = placed.select(number.alias(_CODE), "bytes").groupBy(_CODE).agg(*totals)

    loads: list[defaultdict[int, list[int]]] = [defaultdict(lambda: [0, 0]) for _ in scenarios]
    unkeyed = Load()
    for found, records, size in grouped.collect():
        if found is None:  # a row without a key has been counted once for each code
            unkeyed = Load(records // len(codes), size // len(codes))
            continue
        at = bisect_right(ends, found)
        for index, cell in codes[at].cells_of(found - ends[at] + codes[at].size):
            load = loads[index][cell]
            load[0] += records
            load[1] += size
    return tuple(each.outcome(loads[each.index], unkeyed) for each in cells)


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

    def of(self, partition: Mapping[Place, int]) -> tuple[_Cell, _Cell]:
        """Return both numbers of a key, from where it is in all places."""
        scenario = self.scenario
        before, goes = partition[scenario.before], partition[scenario.home]
        return (self.index, before), (self.index, scenario.current + 2 * goes + (goes != before))

    def columns(self) -> tuple[Column, Column]:
        """Return both numbers as columns."""
        scenario = self.scenario
        before, home = partition_of(scenario.before), partition_of(scenario.home)
        return before, home * 2 + (home != before).cast("int") + scenario.current

    def outcome(self, loads: Mapping[int, Sequence[int]], unkeyed: Load) -> Outcome:
        """Return what loads by number come to, with records that have no key."""
        scenario = self.scenario

        def load(cell: int) -> Load:
            return Load(*loads.get(cell, (0, 0)))

        homes = range(scenario.current, self.size, 2)
        before = [load(cell) for cell in range(scenario.current)]
        after = [load(cell) + load(cell + 1) for cell in homes]
        return Outcome(
            scenario=scenario,
            before=spread(unkeyed, before),
            after=spread(unkeyed, after),
            moved=sum((load(cell + 1) for cell in homes), Load()),
            keyed=sum(before, Load()),
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

    The remainder by the least common multiple of the counts tells the remainders by all of them. Of jump
    hashes, the smallest count's is a digit; a larger one's is 0 where the key stays, else which of the
    partitions that are more it jumps to.
    """
    places = {place for each in cells for place in each.scenario.places}
    modulos = [place for place in places if place.rule == "modulo"]
    modulus = lcm(*(place.count for place in modulos))
    jumps = sorted(places.difference(modulos))
    fewer = [1, *(place.count for place in jumps)]
    column = F.lit(0)
    for least, place in zip(fewer, jumps, strict=False):
        more = F.greatest(partition_of(place) - (least - 1), F.lit(0))
        column = column * (1 + place.count - least) + more

    def cells_of(code: int) -> Iterator[_Cell]:
        rest, remainder = divmod(code, modulus)
        partition = {place: remainder % place.count for place in modulos}
        digits = []
        for least, place in reversed(list(zip(fewer, jumps, strict=False))):
            rest, more = divmod(rest, 1 + place.count - least)
            digits.append(more + least - 1 if more else 0)
        partition.update(zip(jumps, accumulate(reversed(digits), max), strict=True))
        for each in cells:
            yield from each.of(partition)

    return _Code(combinations(places), column * modulus + F.col(HASH) % modulus, cells_of)
