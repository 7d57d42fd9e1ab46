"""Sets of partition ids as text: ``"0-2,5"``. Half of a large topic stays a few bytes that way."""

from collections.abc import Iterable
from itertools import groupby


def ranges(ids: Iterable[int]) -> str:
    """Return the ids in ascending order, runs of neighbours as ``first-last``."""
    runs = []
    for _, run in groupby(enumerate(sorted(set(ids))), key=lambda pair: pair[1] - pair[0]):
        members = [id_ for _, id_ in run]
        first, last = members[0], members[-1]
        runs.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(runs)
