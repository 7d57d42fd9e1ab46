"""The demo's own sections of the report: where its records went, and what became of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Final

from attrs import asdict

from kafka_partition_events.demo.ledger import Reconciliation, Totals
from kafka_partition_events.demo.scenario import ORDERS, ORDERS_BEFORE
from kafka_partition_events.demo.stored import Arrivals
from kafka_partition_events.spark.page import meter, section, table
from kafka_partition_events.spark.report.model import FleetData, Outage
from kafka_partition_events.spark.wording import count, duration, plural

PHASES: Final = ("before", "during", "after")
Window = tuple[datetime, datetime]
"""From when some partition may have been offline, until when."""


def verdict(data: FleetData, accounts: Sequence[Reconciliation]) -> str:
    """Return what happened to partitions and to records, in two sentences."""
    partitions = len({(outage.topic, outage.partition) for outage in data.outages})
    went = f"{plural(partitions, 'partition')} went offline" if partitions else "No partition went offline"
    came = f", and {data.open_count} did not come back" if data.open_count else " and came back"
    said = f"{went}{came if partitions else ''}."
    gone = sum(account.lost for account in accounts if account.recreated)
    apart = f", apart from {count(gone)} in the one that was deleted" if gone else ""
    if all(account.agrees for account in accounts):
        return f"{said} Every acknowledged record is in its topic{apart}."
    pending = sum(account.pending for account in accounts)
    wrong = [f"{plural(lost, 'acknowledged record')} cannot be found."] if (lost := _lost(accounts)) else []
    wrong += [f"{plural(pending, 'record')} got no answer."] if pending else []
    return " ".join([said, *wrong])


def _lost(accounts: Iterable[Reconciliation]) -> int:
    """Return how many acknowledged records are not there, though their topic was not deleted."""
    return sum(account.lost for account in accounts if not account.recreated)


def figures(accounts: Sequence[Reconciliation]) -> dict[str, str]:
    """Return the numbers to begin with."""
    told = sum((account.told for account in accounts), Totals())
    return {
        "Records sent": count(told.sent),
        "Reported as failed": count(told.failed),
        "Acknowledged and lost": count(_lost(accounts)),
    }


# -- where they went ---------------------------------------------------------------------------------------


def traffic_section(arrivals: Mapping[str, Arrivals], outages: Sequence[Outage]) -> str:
    """Return how many records came to each partition, before, during and after the outages of its topic."""
    body = "".join(_topic(topic, arrivals[topic], outages) for topic in sorted(arrivals))
    return section("Records per partition", body, _TRAFFIC_CAPTION)


def window_of(topic: str, outages: Iterable[Outage]) -> Window | None:
    """Return when some partition of a topic may have been offline; of one that never was, any partition."""
    every = list(outages)
    own = [outage.span for outage in every if outage.topic == topic] or [outage.span for outage in every]
    if not own:
        return None
    return (
        min(span.began_after or span.began_by for span in own),
        max(span.ended_by or span.seen_until for span in own),
    )


def by_phase(moments: Iterable[datetime], window: Window | None) -> tuple[int, int, int]:
    """Return how many of the moments lie in each phase. Without an outage all of them are before it."""
    found = [0, 0, 0]
    for moment in moments:
        found[0 if window is None or moment <= window[0] else 1 if moment <= window[1] else 2] += 1
    return found[0], found[1], found[2]


def lengths(first: datetime, last: datetime, window: Window | None) -> tuple[float, float, float]:
    """Return how many seconds each phase lasted between a topic's first and last record."""
    begin, end = (last, last) if window is None else (min(max(moment, first), last) for moment in window)
    return (begin - first).total_seconds(), (end - begin).total_seconds(), (last - end).total_seconds()


def _topic(topic: str, arrivals: Arrivals, outages: Sequence[Outage]) -> str:
    every = [moment for moments in arrivals.values() for moment in moments]
    if not every:
        return ""
    window = window_of(topic, outages)
    seconds = lengths(min(every), max(every), window)
    counts = {partition: by_phase(moments, window) for partition, moments in arrivals.items()}
    rates = (n / s for numbers in counts.values() for n, s in zip(numbers, seconds, strict=True) if s)
    highest = max(rates, default=0.0)
    offline = {outage.partition for outage in outages if outage.topic == topic}
    head = '<th class="n">Partition' + "".join(
        f"<th>{phase.capitalize()} <small>{duration(lasted)}</small>"
        for phase, lasted in zip(PHASES, seconds, strict=True)
    )
    rows = (
        f'<tr><td class="n">{_tags(topic, partition, offline)}<b>{partition}</b>'
        + "".join(
            _rate(n, lasted, highest, phase)
            for n, lasted, phase in zip(counts[partition], seconds, PHASES, strict=True)
        )
        for partition in sorted(counts)
    )
    totals = "".join(f"<td>{plural(sum(column), 'record')}" for column in zip(*counts.values(), strict=True))
    foot = f'<tr><td class="n">All{totals}'
    return f"<h3>{escape(topic)}</h3>{table(head, rows, kind='traffic', foot=foot)}"


def _tags(topic: str, partition: int, offline: Iterable[int]) -> str:
    tags = '<small class="tag down">offline</small>' if partition in offline else ""
    return tags + (
        '<small class="tag grow">new</small>' if topic == ORDERS and partition >= ORDERS_BEFORE else ""
    )


def _rate(records: int, seconds: float, highest: float, phase: str) -> str:
    if not records or not seconds:
        return f'<td class="none">{count(records)}'
    rate = records / seconds
    return f"<td>{meter(rate / highest, phase)}<b>{rate:.1f}</b> /s <small>{count(records)}</small>"


_TRAFFIC_CAPTION: Final = (
    "Records per second, and how many, before, during and after the topic's outages. <em>During</em> is the "
    "time in which one of its partitions may have been offline; a topic without an outage is measured by "
    "those of the others. The time of a record is when its producer made it: one that waited for its "
    "partition to come back counts for <em>during</em>."
)

# -- what became of them -----------------------------------------------------------------------------------


def records_section(accounts: Iterable[Reconciliation]) -> str:
    """Return what the producers counted beside what the topics hold."""
    head = (
        '<th rowspan="2">Topic<th rowspan="2">Client'
        f'<th class="group" colspan="{len(_COUNTERS)}">The producers counted'
        '<th class="group bound" colspan="4">The topic holds<th class="bound" rowspan="2">Difference<tr>'
        + "".join(f'<th class="n">{name.capitalize()}' for name in _COUNTERS)
        + '<th class="n bound">Records<th class="n">Different<th class="n">Rerouted<th class="n">Capped'
    )
    return section(
        "What became of the records", table(head, map(_account, accounts), kind="records"), _RECORDS_CAPTION
    )


def _account(account: Reconciliation) -> str:
    told, found = asdict(account.told), account.found
    held = (found.acknowledged + account.doubles, found.acknowledged, found.rerouted, found.capped)
    cells = "".join(f'<td class="n">{count(told[name])}' for name in _COUNTERS)
    cells += "".join(f'<td class="n{"" if place else " bound"}">{count(n)}' for place, n in enumerate(held))
    said = "<br>".join(map(escape, account.differences())) or "none"
    style = "" if account.agrees else ' class="bad"'
    return (
        f"<tr><th scope=row>{escape(account.topic)}<td>{escape(account.producer)}{cells}"
        f'<td class="bound"><span{style}>{said}</span></tr>'
    )


_COUNTERS: Final = tuple(asdict(Totals()))
_RECORDS_CAPTION: Final = (
    "On the left what the producers were told, on the right what the topics hold. <em>Rerouted</em> records "
    "went around an offline partition; <em>capped</em> ones were kept off partitions beyond the buffer "
    "budget. Records that were reported as failed may be in the topic all the same: their acknowledgement "
    "was lost, not they."
)
