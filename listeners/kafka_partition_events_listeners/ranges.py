"""Sets of partition ids as text: ``"0-2,5"``. Half of a large topic stays a few bytes that way."""

from collections.abc import Iterable, Iterator
from itertools import groupby


def ranges(ids: Iterable[int]) -> str:
    """Return the ids in ascending order, runs of neighbours as ``first-last``."""
    runs = []
    for _, run in groupby(enumerate(sorted(set(ids))), key=lambda pair: pair[1] - pair[0]):
        members = [id_ for _, id_ in run]
        first, last = members[0], members[-1]
        runs.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(runs)


def ids_in(text: str) -> Iterator[int]:
    """Yield the ids that `ranges` made a text of.

    Raises:
        ValueError: it made no such text.
    """
    for run in text.split(",") if text else ():
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)
