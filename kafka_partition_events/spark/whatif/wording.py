"""Scenarios and their outcomes as people read them, on the terminal and in HTML. Pure."""

from typing import Final

from kafka_partition_events.ranges import ranges
from kafka_partition_events.spark.whatif.plan import Scenario
from kafka_partition_events.spark.whatif.results import Load, Outcome, WhatIf

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MAPPINGS: Final = {"modulo": "modulo", "kept": "kept keys", "rendezvous": "rendezvous"}


def label(scenario: Scenario) -> str:
    """Return ``24 partitions, rendezvous, 0-2 offline, cap 9``."""
    return ", ".join(
        [f"{scenario.partitions:,} partitions", _MAPPINGS[scenario.mapping], *conditions(scenario)]
    )


def conditions(scenario: Scenario) -> list[str]:
    """Return what else would be the case: ``0-2 offline``, ``cap 9``."""
    told = [f"{ranges(scenario.offline)} offline"] if scenario.offline else []
    return told if scenario.cap is None else [*told, f"cap {scenario.cap}"]


def verdict(answer: WhatIf) -> str:
    """Return the answer in a sentence."""
    found = answer.outcomes
    if not found[0].keyed.records:
        return "No record has a key, so no growth would move any."
    what = f"{answer.noun}s" if answer.distinct else "keyed records"
    most = max(found, key=lambda outcome: outcome.moved.records)
    least = min(found, key=lambda outcome: outcome.moved.records)
    said = f"{_short(most)} would move {percent(most.moved_share)} of the {what}"
    if least is most or least.moved.records == most.moved.records:
        return f"{said}."
    return f"{said}, {_short(least)} {percent(least.moved_share) if least.moved.records else 'none'}."


def _short(outcome: Outcome) -> str:
    return f"{outcome.scenario.partitions:,} partitions by {_MAPPINGS[outcome.scenario.mapping]}"


def percent(share: float) -> str:
    """Return a share in percent; one that is not quite nothing, or all, does not look like it."""
    if 0 < share < 0.001:
        return "< 0.1%"
    if 0.999 < share < 1:
        return "> 99.9%"
    return "0" if share == 0 else f"{share:.1%}"


def times(factor: float) -> str:
    """Return how many times the mean something is."""
    return f"{factor:.2f}x" if factor < 99.5 else f"{factor:,.0f}x"


def size(number: int) -> str:
    """Return bytes in the unit that fits."""
    value, unit = float(number), 0
    while value >= 1023.95 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number:,} B" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def rarer(answer: WhatIf) -> list[str]:
    """Return which of the rarer numbers there are."""
    names = ("held", "rerouted", "capped")
    return [name for name in names if any(getattr(each, name).records for each in answer.outcomes)]


def total(outcome: Outcome) -> Load:
    """Return all records and bytes of the sample."""
    return outcome.keyed + outcome.unkeyed
