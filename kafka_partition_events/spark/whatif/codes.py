"""Where a key is in all places of a pack, as one number: Spark groups by one much faster than by several."""

from collections.abc import Iterator, Mapping
from math import lcm
from typing import Final

from attrs import frozen
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.whatif.columns import HASH
from kafka_partition_events.spark.whatif.plan import Place, combinations

_LARGEST_INT: Final = 0x7FFFFFFF


@frozen
class Code:
    """The numbers of a pack: one for each combination of its places, and the last for rows without a key.

    The remainder by the least common multiple of the counts tells the remainders by all of them. Of jump
    hashes, the smallest count's is a digit; a larger one's is 0 where the key stays, else which of the
    partitions that are more it jumps to.

    Attributes:
        places: The pack's.
        first: The least number.
    """

    places: tuple[Place, ...]
    first: int = 0

    @property
    def last(self) -> int:
        """The number of rows without a key."""
        return self.first + combinations(self.places)

    def column(self) -> Column:
        """Return the number of rows that have their hash and jumps (`columns`): INT if that holds all."""
        kind = "int" if self.last <= _LARGEST_INT else "bigint"
        code = F.lit(0).cast(kind)
        for fewer, place in self._jumps():
            more = F.greatest(F.col(place.column) - (fewer - 1), F.lit(0))
            code = code * (1 + place.count - fewer) + more
        code = code * self._modulus + F.col(HASH) % self._modulus + self.first
        return F.when(F.col(HASH).isNotNull(), code).otherwise(self.last).cast(kind)

    def holds(self, code: Column) -> Column:
        """Return whether a number is one of these, as BOOLEAN."""
        return code.between(self.first, self.last)

    def places_of(self, code: Column) -> Mapping[Place, Column]:
        """Return the partition of each place, from one of these numbers; null if there is no key."""
        own = F.when(code < self.last, code - self.first)
        found = {place: own % place.count for place in self.places if place.rule == "modulo"}
        rest = _quotient(own, self._modulus)
        digits: list[tuple[int, Place, Column]] = []
        for fewer, place in reversed(list(self._jumps())):
            size = 1 + place.count - fewer
            digits.append((fewer, place, rest % size))
            rest = _quotient(rest, size)
        stays = F.when(own.isNotNull(), 0)
        for fewer, place, more in reversed(digits):
            found[place] = stays = F.when(more == 0, stays).otherwise(more + (fewer - 1))
        return {place: partition.cast("int") for place, partition in found.items()}

    @property
    def _modulus(self) -> int:
        return lcm(*(place.count for place in self.places if place.rule == "modulo"))

    def _jumps(self) -> Iterator[tuple[int, Place]]:
        """Yield the places of jump hashes, from the smallest, each with the count before it."""
        fewer = 1
        for place in sorted(place for place in self.places if place.rule == "rendezvous"):
            yield fewer, place
            fewer = place.count


def _quotient(number: Column, divisor: int) -> Column:
    return F.call_function("div", number, F.lit(divisor))
