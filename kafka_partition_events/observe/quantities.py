"""Durations and sizes as people write them. Pure."""

import math
import re
from collections.abc import Mapping

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_BYTES = {
    "B": 1,
    "kB": 10**3, "MB": 10**6, "GB": 10**9,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]+)")

_LONGEST_S = 36_525 * _SECONDS["d"]  # sums of these are still dates
A_DURATION = "a number and ms, s, m, h or d, such as 500ms or 10m; 100 years at most"
A_SIZE = "a number and B, kB, MB, GB, KiB, MiB or GiB, such as 512MiB"


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as ``500ms``, ``5s``, ``10m``, ``1h`` or ``7d`` means.

    Raises:
        ValueError: it means none, no time at all, or more than 100 years.
    """
    seconds = _parse(text, _SECONDS, f"a duration; write {A_DURATION}")
    if not 0 < seconds <= _LONGEST_S:
        raise ValueError(f"a duration must be longer than nothing, and of 100 years at most, not {text!r}")
    return seconds


def parse_size(text: str) -> int:
    """Return the bytes that a text such as ``64kB`` (1,000 each) or ``512MiB`` (1,024 x 1,024 each) means.

    Raises:
        ValueError: it means none, or nothing at all.
    """
    size = _parse(text, _BYTES, f"a size; write {A_SIZE}")
    if not 1 <= size < math.inf:
        raise ValueError(f"a size must be at least one byte, not {text!r}")
    return int(size)


def _parse(text: str, units: Mapping[str, float], expected: str) -> float:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise ValueError(f"{text!r} is not {expected}")
    return float(found[1]) * units[found[2]]
