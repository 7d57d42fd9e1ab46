"""What `kpe spark whatif` found, as tables for a terminal."""

from collections.abc import Iterable, Iterator

from rich import box
from rich.table import Table

from kafka_partition_events.cli.render import counted
from kafka_partition_events.control.legible import legible
from kafka_partition_events.spark.whatif.results import HotKey, Load, Outcome, WhatIf
from kafka_partition_events.spark.whatif.wording import conditions, percent, size, times, total

_MOST_COLUMNS = 6
"""Scenarios beside each other in the table of hot keys."""


def origin(answer: WhatIf) -> str:
    """Return what was counted, in a line."""
    whole = total(answer.outcomes[0])
    told = [
        answer.source,
        counted(answer.current, "partition"),
        counted(whole.records, answer.noun),
        *([size(whole.bytes)] if answer.has_bytes else []),
        answer.hash_name,
        f"counted in {answer.seconds:.1f} s",
    ]
    return ", ".join(told)


def outcome_table(answer: WhatIf) -> Table:
    """Return a line for each scenario."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    extra = [
        name
        for name in ("held", "rerouted", "refused", "capped")
        if any(getattr(outcome, name).records for outcome in answer.outcomes)
    ]
    conditional = any(conditions(outcome.scenario) for outcome in answer.outcomes)
    table.add_column("partitions", justify="right")
    table.add_column("mapping")
    if conditional:
        table.add_column("if")
    for name in ("moved", f"{answer.noun}s", *(["bytes moved", ""] if answer.has_bytes else [])):
        table.add_column(name, justify="right")
    for name in ("max/mean", "then", "busiest", *extra):
        table.add_column(name, justify="right")
    for outcome in answer.outcomes:
        table.add_row(*_cells(outcome, extra, conditional=conditional, with_bytes=answer.has_bytes))
    return table


def _cells(outcome: Outcome, extra: Iterable[str], *, conditional: bool, with_bytes: bool) -> Iterator[str]:
    scenario = outcome.scenario
    yield f"{scenario.partitions:,}"
    yield scenario.mapping
    if conditional:
        yield ", ".join(conditions(scenario))
    yield percent(outcome.moved_share)
    yield f"{outcome.moved.records:,}"
    if with_bytes:
        yield percent(outcome.moved_bytes_share)
        yield size(outcome.moved.bytes)
    yield times(outcome.skew_before)
    yield times(outcome.skew_after)
    yield str(outcome.busiest)
    for name in extra:
        load: Load = getattr(outcome, name)
        yield f"{load.records:,}"


def hot_table(answer: WhatIf) -> Table:
    """Return a line for each of the hottest keys."""
    shown = answer.outcomes[:_MOST_COLUMNS]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("hottest keys", overflow="fold", min_width=12)
    for name in (f"{answer.noun}s", "share", *(["bytes"] if answer.has_bytes else [])):
        table.add_column(name, justify="right")
    for outcome in shown:
        scenario = outcome.scenario
        head = "\n".join([f"{scenario.partitions:,}", scenario.mapping, *conditions(scenario)])
        table.add_column(head, justify="right")
    for hot in answer.hottest:
        table.add_row(*_hot_cells(hot, len(shown), with_bytes=answer.has_bytes))
    return table


def _hot_cells(hot: HotKey, scenarios_shown: int, *, with_bytes: bool) -> Iterator[str]:
    yield legible(hot.key)
    yield f"{hot.load.records:,}"
    yield percent(hot.share)
    if with_bytes:
        yield size(hot.load.bytes)
    for before, after in zip(hot.before[:scenarios_shown], hot.after[:scenarios_shown], strict=True):
        yield str(before) if before == after else f"{before} -> {'refused' if after is None else after}"
