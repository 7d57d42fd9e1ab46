"""Times, durations and counts as people read them. Times are UTC."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from kafka_partition_events.spark.model import Span

DASH = "\N{EN DASH}"


def duration(seconds: float) -> str:
    """Return ``12.3 s``, ``3 min 12 s`` or ``2 h 05 min``."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def lasted(span: Span) -> str:
    """Return how long it lasted, with its bounds: ``12.1 - 14.9 s``, or ``at least 12.1 s``."""
    return lasted_between(span.shortest_s, span.longest_s)


def lasted_between(shortest_s: float, longest_s: float | None) -> str:
    """Return a duration known by its bounds in seconds; no upper bound means *at least*."""
    low = duration(shortest_s)
    if longest_s is None:
        return f"at least {low}"
    high = duration(longest_s)
    if low == high:
        return low
    if low.endswith(" s") and high.endswith(" s") and "min" not in low + high:
        return f"{low.removesuffix(' s')}{DASH}{high}"
    return f"{low} {DASH} {high}"


def clock(moment: datetime, *, tenths: bool = True) -> str:
    """Return the time of day, to tenths of a second: what polling can tell is no finer."""
    utc = moment.astimezone(UTC)
    return f"{utc:%H:%M:%S}" + (f".{utc.microsecond // 100_000}" if tenths else "")


def between(after: datetime | None, by: datetime) -> str:
    """Return the interval in which something happened."""
    return f"by {clock(by)}" if after is None else f"{clock(after)} {DASH} {clock(by)}"


def count(number: int) -> str:
    """Return a number with thousands separated by a thin space that does not break."""
    return f"{number:,}".replace(",", "\u202f")


def plural(number: int, noun: str) -> str:
    """Return ``1 partition``, ``4 partitions``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def rate(per_second: float | None) -> str:
    """Return records per second, as exact as is useful."""
    if per_second is None:
        return DASH
    if per_second == 0:
        return "0"
    return f"{per_second:.1f}" if per_second < 100 else count(round(per_second))


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def names(values: Iterable[str]) -> list[str]:
    """Return the different values, sorted."""
    return sorted(set(values))
