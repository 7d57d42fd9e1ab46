"""Numbers and tables in Markdown, and the generated part of a page. Pure."""

import math
from collections.abc import Callable, Sequence

from benchmarks.measure import Environment, Spread


def with_section(page: str, begin: str, end: str, text: str) -> str:
    """Return the page with everything between the two markers replaced."""
    if begin not in page or end not in page:
        raise ValueError(f"the page has no section between {begin} and {end}")
    head, rest = page.split(begin, 1)
    tail = rest.split(end, 1)[1]
    return f"{head}{begin}\n{text}{end}{tail}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def spread_text(spread: Spread, write: Callable[[float], str]) -> str:
    low, median, high = write(spread.low), write(spread.median), write(spread.high)
    return median if low == high else f"{median} ({low} - {high})"


def milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def percent(value: float) -> str:
    """Write a share; a small one with enough digits not to look like none."""
    if value == 0:
        return "0%"
    if value < 0.0001:
        return "< 0.01%"
    return f"{value:.0%}" if value >= 0.1 else f"{value:.2%}"


def count(value: float) -> str:
    return f"{value:,.0f}"


def times(value: float) -> str:
    """Write a ratio: as 1/n when it is a small part."""
    if math.isinf(value):
        return "infinite"
    return f"1/{1 / value:,.0f}" if 0 < value <= 0.1 else f"{value:.2f}"


def reached_text(reached: bool | None) -> str:
    """Write whether a target was reached; None if it was not measured."""
    return {True: "yes", False: "**no**", None: "-"}[reached]


def machine_line(environment: Environment, rounds: int) -> str:
    """Write when and on what something was measured."""
    versions = ", ".join(f"{package} {number}" for package, number in environment.versions.items())
    commit = f"; commit {environment.commit}" if environment.commit else ""
    return (
        f"{environment.taken_at}; rounds: {rounds}; Python {environment.python}, "
        f"{machine_of(environment)}; {versions}{commit}."
    )


def machine_of(environment: Environment) -> str:
    return f"{environment.machine}, {environment.processor_count} shared cores"
