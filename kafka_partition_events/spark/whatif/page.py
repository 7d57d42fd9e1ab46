"""The answer as one self-contained HTML file: no script, no request to anywhere. Pure; knows no Spark."""

from collections.abc import Sequence
from html import escape
from math import ceil
from typing import Final

from kafka_partition_events.spark.page import legend, meter, page, section, table
from kafka_partition_events.spark.whatif.results import HotKey, Load, Outcome, WhatIf
from kafka_partition_events.spark.whatif.wording import (
    conditions,
    label,
    percent,
    rarer,
    size,
    times,
    total,
    verdict,
)
from kafka_partition_events.spark.wording import DASH, count, plural

MOST_BARS: Final = 256
"""Beyond so many partitions, neighbours share a bar."""
MOST_SCENARIOS: Final = 8
"""Columns of the table of hot keys."""

_ARROW: Final = "\N{RIGHTWARDS ARROW}"
_NARROW: Final = "\u202f"


def render(answer: WhatIf) -> str:
    """Return the whole page."""
    pictures = "".join(_picture(outcome, answer) for outcome in answer.outcomes)
    sections = (
        section("Scenarios", _table(answer), _table_caption(answer)),
        section("Load of each partition", _legend(answer) + pictures, _PICTURES_CAPTION),
        _hottest(answer),
    )
    return page(
        __package__,
        title=f"What if {answer.source} had more partitions",
        heading=verdict(answer),
        under=_origin(answer),
        figures=_figures(answer),
        sections=sections,
    )


def _origin(answer: WhatIf) -> str:
    counted = "Each key counts once. " if answer.distinct else ""
    return (
        f"From <code>{escape(answer.source)}</code>, keys hashed by {answer.hash_name}. {counted}"
        f"Counted in {answer.seconds:.1f} s, {answer.made_at:%Y-%m-%d %H:%M} UTC."
    )


def _figures(answer: WhatIf) -> dict[str, str]:
    first = answer.outcomes[0]
    return {
        "Partitions now": count(answer.current),
        f"{answer.noun.capitalize()}s": count(total(first).records),
        **({"Bytes": size(total(first).bytes)} if answer.has_bytes else {}),
        "Without a key": count(first.unkeyed.records),
        "Max/mean now": times(first.skew_before),
    }


# -- the table ---------------------------------------------------------------------------------------------


def _table(answer: WhatIf) -> str:
    with_bytes = answer.has_bytes
    extra = rarer(answer)
    head = f'<th class="n">Partitions<th>Mapping<th>Moved {answer.noun}s'
    head += "<th>Moved bytes" if with_bytes else ""
    head += '<th class="n">Max/mean now<th class="n">then'
    head += "".join(f'<th class="n">{name.capitalize()}' for name in extra)
    rows = (_row(outcome, extra, with_bytes=with_bytes) for outcome in answer.outcomes)
    return table(head, rows, kind="scenarios")


def _row(outcome: Outcome, extra: Sequence[str], *, with_bytes: bool) -> str:
    scenario = outcome.scenario
    also = "".join(f" <small>{escape(each)}</small>" for each in conditions(scenario))
    cells = f'<td class="n">{count(scenario.partitions)}<td>{scenario.mapping}{also}'
    cells += _moved(outcome.moved_share, count(outcome.moved.records))
    if with_bytes:
        cells += _moved(outcome.moved_bytes_share, size(outcome.moved.bytes))
    cells += f'<td class="n">{times(outcome.skew_before)}<td class="n">{times(outcome.skew_after)}'
    for name in extra:
        load: Load = getattr(outcome, name)
        cells += f'<td class="n">{count(load.records) if load.records else DASH}'
    return f"<tr>{cells}</tr>"


def _moved(share: float, number: str) -> str:
    many = f" <small>{number}</small>" if share else ""
    return f"<td>{meter(share, 'moved')}<b>{percent(share)}</b>{many}"


def _table_caption(answer: WhatIf) -> str:
    words = (
        f"A {answer.noun} has moved if its key would belong to another partition than now. <em>Max/mean</em> "
        "is how many times the mean the busiest partition has, now and then. Growth moves no <em>kept</em> "
        "key; a cut-over later moves as many as <em>modulo</em>."
    )
    extra = rarer(answer)
    if "held" in extra or "rerouted" in extra:
        words += (
            " <em>Held</em> would wait for a partition that is offline, <em>rerouted</em> would go around it."
        )
    if "capped" in extra:
        words += " <em>Capped</em> would be kept off partitions beyond the budget; keyed ones never are."
    return words


# -- the pictures ------------------------------------------------------------------------------------------


_PICTURES_CAPTION: Final = (
    "A bar for each partition, in order of their ids; both rows of a scenario have one scale. Records "
    "without a key are spread evenly over the partitions that are usable."
)


def _legend(answer: WhatIf) -> str:
    entries = [("old", "there now"), ("new", "new"), ("mean", "the mean")]
    if any(outcome.scenario.offline for outcome in answer.outcomes):
        entries.insert(2, ("off", "offline"))
    return legend(entries)


def _picture(outcome: Outcome, answer: WhatIf) -> str:
    highest = max((load.records for load in (*outcome.before, *outcome.after)), default=0) or 1
    width = outcome.scenario.partitions
    rows = "".join(
        f"<dt>{name}</dt>{_bars(loads, width, highest, outcome, answer.noun)}<dd>{_summary(loads)}</dd>"
        for name, loads in (("now", outcome.before), ("then", outcome.after))
    )
    return (
        f'<h3>{escape(label(outcome.scenario))}</h3><dl class="pair">{rows}</dl>{_details(outcome, answer)}'
    )


def _bars(loads: Sequence[Load], width: int, highest: int, outcome: Outcome, noun: str) -> str:
    step = ceil(width / MOST_BARS)
    everything = sum(load.records for load in loads) or 1
    bars = "".join(
        _bar(loads, first, min(first + step, width), highest, everything, outcome, noun)
        for first in range(0, width, step)
    )
    mean = 100 * everything / len(loads) / highest
    many = " many" if width / step > 64 else ""
    return f'<dd class="bars{many}">{bars}<u style="bottom:{min(100.0, mean):.2f}%"></u></dd>'


def _bar(
    loads: Sequence[Load], first: int, end: int, highest: int, everything: int, outcome: Outcome, noun: str
) -> str:
    there = loads[first:end]
    if not there:
        return '<i class="none"></i>'
    records = max(load.records for load in there)
    then = loads is outcome.after
    kind = ""
    if then and any(partition in outcome.scenario.offline for partition in range(first, end)):
        kind = ' class="off"'
    elif first >= outcome.scenario.current:
        kind = ' class="new"'
    who = f"partition {first}" if end - first == 1 else f"the busiest of {first} to {end - 1}"
    told = f"{who}: {plural(records, noun)}, {percent(records / everything)}"
    return f'<i{kind} style="height:{100 * records / highest:.2f}%" title="{told}"></i>'


def _summary(loads: Sequence[Load]) -> str:
    numbers = [load.records for load in loads]
    low, high = min(numbers), max(numbers)
    return f"{count(low)} {DASH} {count(high)}<br>mean {count(round(sum(numbers) / len(numbers)))}"


def _details(outcome: Outcome, answer: WhatIf) -> str:
    if outcome.scenario.partitions > MOST_BARS:
        return ""
    head = f'<th class="n">Partition<th class="n">{answer.noun.capitalize()}s now<th class="n">then'
    head += '<th class="n">Bytes now<th class="n">then' if answer.has_bytes else ""
    places = range(outcome.scenario.partitions)
    rows = (_numbers(partition, outcome, with_bytes=answer.has_bytes) for partition in places)
    return f"<details><summary>Numbers</summary>{table(head, rows)}</details>"


def _numbers(partition: int, outcome: Outcome, *, with_bytes: bool) -> str:
    now = outcome.before[partition] if partition < len(outcome.before) else None
    then = outcome.after[partition]
    cells = f'<td class="n">{partition}<td class="n">{DASH if now is None else count(now.records)}'
    cells += f'<td class="n">{count(then.records)}'
    if with_bytes:
        cells += f'<td class="n">{DASH if now is None else size(now.bytes)}<td class="n">{size(then.bytes)}'
    return f"<tr>{cells}</tr>"


# -- the hottest keys --------------------------------------------------------------------------------------


def _hottest(answer: WhatIf) -> str:
    if not answer.hottest:
        return ""
    shown = answer.outcomes[:MOST_SCENARIOS]
    head = f'<th>Key<th class="n">{answer.noun.capitalize()}s<th class="n">Share'
    head += '<th class="n">Bytes' if answer.has_bytes else ""
    head += "".join(f'<th class="n">{escape(label(outcome.scenario))}' for outcome in shown)
    rows = (_hot(key, len(shown), with_bytes=answer.has_bytes) for key in answer.hottest)
    left_out = len(answer.outcomes) - len(shown)
    rest = f"<p>{plural(left_out, 'other scenario')} not shown here.</p>" if left_out else ""
    return section("Hottest keys", table(head, rows) + rest, _HOTTEST_CAPTION)


_HOTTEST_CAPTION: Final = (
    "No number of partitions divides a key: what one of them has, its partition has at the least. The "
    "partition now and then, for each scenario."
)


def _hot(key: HotKey, scenarios: int, *, with_bytes: bool) -> str:
    cells = f"<td><code>{escape(key.key)}</code>"
    cells += f'<td class="n">{count(key.load.records)}<td class="n">{percent(key.share)}'
    cells += f'<td class="n">{size(key.load.bytes)}' if with_bytes else ""
    for before, after in zip(key.before[:scenarios], key.after[:scenarios], strict=True):
        cells += f'<td class="n">{before}'
        if after != before:
            cells += f'<span class="moves">{_NARROW}{_ARROW}{_NARROW}{after}</span>'
    return f"<tr>{cells}</tr>"
