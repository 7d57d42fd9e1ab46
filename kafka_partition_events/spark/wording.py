"""Times, durations and counts as people read them. Times are UTC. Pure."""

from datetime import UTC, datetime

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


def lasted(shortest_s: float, longest_s: float | None) -> str:
    """Return ``12.1 - 14.9 s``, a duration known by its bounds; without an upper one ``at least 12.1 s``."""
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
    """Return the time of day, to tenths of a second: polling is no finer."""
    utc = moment.astimezone(UTC)
    return f"{utc:%H:%M:%S}" + (f".{utc.microsecond // 100_000}" if tenths else "")


def between(after: datetime | None, by: datetime) -> str:
    """Return the interval in which something happened, with its day; the second day only if it differs."""
    if after is None:
        return f"by {by:%m-%d} {clock(by)}"
    until = clock(by) if after.date() == by.date() else f"{by:%m-%d} {clock(by)}"
    return f"{after:%m-%d} {clock(after)} {DASH} {until}"


def count(number: int) -> str:
    """Return a number with thousands separated by a thin space that does not break."""
    return f"{number:,}".replace(",", "\u202f")


def plural(number: int, noun: str) -> str:
    """Return ``1 partition``, ``4 partitions``."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"
