"""A set of partitions, kept as the runs that it has on the wire. Pure.

A text of 25 characters may name 10,000 partitions. As runs it costs its readers what it cost its
writer.
"""

from collections.abc import Iterable, Iterator

from attrs import frozen

from kafka_partition_events.control.protocol.bounds import MOST_IDS
from kafka_partition_events.ranges import runs_in

Run = tuple[int, int]
"""The first id, and the one behind the last."""


@frozen
class PartitionSet:
    """Partition ids. Equal sets are equal, whatever they were made of.

    Attributes:
        runs: Runs of neighbours, ascending, with a gap between any two.
    """

    runs: tuple[Run, ...] = ()

    @classmethod
    def span(cls, first: int, end: int) -> "PartitionSet":
        """Return the ids from the first one up to, not including, the end."""
        return cls(((first, end),)) if first < end else cls()

    @classmethod
    def of(cls, ids: Iterable[int]) -> "PartitionSet":
        """Return a set of ids."""
        return cls(_joined((id_, id_ + 1) for id_ in ids))

    @classmethod
    def parse(cls, text: str) -> "PartitionSet":
        """Return the set that a text such as ``0-2,5`` names.

        Raises:
            ValueError: it names none, or more than 10,000 ids.
        """
        return cls(_joined((run.start, run.stop) for run in runs_in(text, MOST_IDS)))

    def __str__(self) -> str:
        return ",".join(f"{first}" if end == first + 1 else f"{first}-{end - 1}" for first, end in self.runs)

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __iter__(self) -> Iterator[int]:
        for first, end in self.runs:
            yield from range(first, end)

    def __len__(self) -> int:
        return sum(end - first for first, end in self.runs)

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, int) and any(first <= id_ < end for first, end in self.runs)

    def __or__(self, other: "PartitionSet") -> "PartitionSet":
        return self if self == other else PartitionSet(_joined((*self.runs, *other.runs)))

    def __le__(self, other: "PartitionSet") -> bool:
        """Return whether all of these are among the others."""
        return other | self == other


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    found: list[Run] = []
    for first, end in sorted(runs):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((first, end))
    return tuple(found)


NO_PARTITIONS = PartitionSet()
