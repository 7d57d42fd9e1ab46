"""Sets of ids as text: ``"0-2,5"``. Half of a large topic stays a few bytes that way.

A broker's id has up to ten digits: some are made of addresses.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

_RUN: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")


def ranges(ids: Iterable[int]) -> str:
    """Return the ids in ascending order, runs of neighbours as ``first-last``."""
    runs = []
    for _, run in itertools.groupby(enumerate(sorted(set(ids))), key=lambda pair: pair[1] - pair[0]):
        members = [id_ for _, id_ in run]
        first, last = members[0], members[-1]
        runs.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(runs)


def ids_in(text: str, most: int = 1_000_000) -> Iterator[int]:
    """Return the ids that `ranges` made a text of.

    Args:
        text: The text. Blanks around ids are passed over.
        most: How many ids it may have, those that come twice counted twice.

    Raises:
        ValueError: it made no such text, or has more; known before the first id, so that a short text can't
            make one count for minutes.
    """
    return itertools.chain.from_iterable(runs_in(text, most))


def runs_in(text: str, most: int = 1_000_000) -> list[range]:
    """Return the runs of ids that a text has, in its order; as `ids_in`."""
    runs = [_run(part.strip()) for part in text.split(",")] if text else []
    if sum(map(len, runs)) > most:
        raise ValueError(f"more than {most:,} ids")
    return runs


def _run(text: str) -> range:
    found = _RUN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:20]!r} is neither an id nor a range of ids")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise ValueError(f"{text!r} ends before it begins")
    return range(first, last + 1)
