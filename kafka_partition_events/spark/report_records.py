"""The report's two sections about records: how many came to each partition, and what became of them."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.model import COUNTERS, Account, Phase, Stored, TopicTraffic

MAX_PARTITIONS: Final = 48
"""Partitions of a topic that get a line of their own; those that had an outage come first."""


_NOT_COUNTED: Final = f"<td>{wording.DASH}" + f'<td class="n">{wording.DASH}' * len(COUNTERS)


_TRAFFIC_CAPTION: Final = (
    "<p>Records per second, and how many, before, during and after the topic's outages. <em>During</em> is "
    "the widest interval in which one of its partitions may have been offline; a topic without an outage is "
    "measured by those of the others. The time of a record is when its producer made it: one that waited "
    "for its partition to come back counts for <em>during</em>.</p>"
)
_RECORDS_CAPTION: Final = (
    "<p>On the left what the producers were told, on the right what the topics hold. <em>Rerouted</em> "
    "records went around an offline partition; <em>capped</em> ones were kept off partitions beyond the "
    "buffer budget. Records that were reported as failed may be in the topic all the same: their "
    "acknowledgement was lost, not they.</p>"
)


_RECORDS_HEAD: Final = (
    '<tr><th rowspan="2">Topic<th rowspan="2">Client'
    '<th class="group" colspan="5">The producers counted'
    '<th class="group bound" colspan="4">The topic holds'
    '<th class="bound" rowspan="2">Difference<tr>'
    + "".join(f'<th class="n">{name.capitalize()}' for name in COUNTERS)
    + '<th class="n bound">Records<th class="n">Different<th class="n">Rerouted<th class="n">Capped'
)


def missing(accounts: Iterable[Account], stored: Mapping[str, Stored]) -> dict[str, int]:
    """Return how many acknowledged records at the least are not in their topics, by topic."""
    acknowledged: Counter[str] = Counter()
    for account in accounts:
        acknowledged[account.topic] += account.acknowledged
    return {
        topic: count - stored[topic].numbers
        for topic, count in acknowledged.items()
        if topic in stored and stored[topic].comparable and count > stored[topic].numbers
    }


# -- traffic -------------------------------------------------------------------------------------------


def traffic_section(traffic: Sequence[TopicTraffic]) -> str:
    """Return the section, or nothing when no data topic was read."""
    if not traffic:
        return ""
    topics = "".join(_topic(each) for each in traffic)
    return f"<section><h2>Records per partition</h2>{_TRAFFIC_CAPTION}{topics}</section>"


def _topic(traffic: TopicTraffic) -> str:
    by_interest = sorted(traffic.records, key=lambda p: (p not in traffic.offline, p not in traffic.added, p))
    shown = sorted(by_interest[:MAX_PARTITIONS])
    highest = max((traffic.rate(p, phase) or 0.0 for p in shown for phase in Phase), default=0.0)
    head = "".join(
        f"<th>{phase.capitalize()} <small>{wording.duration(traffic.seconds.get(phase, 0.0))}</small>"
        for phase in Phase
    )
    rows = "".join(_partition(traffic, partition, highest) for partition in shown)
    left_out = len(traffic.records) - len(shown)
    rest = f"<p>{wording.plural(left_out, 'other partition')} not listed.</p>" if left_out else ""
    totals = "".join(f"<td>{wording.count(traffic.total(phase))} records" for phase in Phase)
    return (
        f'<h3>{escape(traffic.topic)}</h3><div class="scroll"><table class="traffic"><thead><tr>'
        f'<th class="n">Partition{head}</thead><tbody>{rows}</tbody>'
        f'<tfoot><tr><td class="n">All{totals}</tfoot></table></div>{rest}'
    )


def _partition(traffic: TopicTraffic, partition: int, highest: float) -> str:
    tags = '<small class="tag down">offline</small>' if partition in traffic.offline else ""
    tags += '<small class="tag grow">new</small>' if partition in traffic.added else ""
    cells = "".join(_rate(traffic, partition, phase, highest) for phase in Phase)
    return f'<tr><td class="n">{tags}<b>{partition}</b>{cells}</tr>'


def _rate(traffic: TopicTraffic, partition: int, phase: Phase, highest: float) -> str:
    records = traffic.records[partition].get(phase, 0)
    if not records:
        return '<td class="none">0'
    rate = traffic.rate(partition, phase)
    width = 100 * (rate or 0.0) / highest if highest else 0.0
    return (
        f'<td><span class="meter {phase}"><span style="width:{width:.1f}%"></span></span>'
        f"<b>{wording.rate(rate)}</b> /s <small>{wording.count(records)}</small>"
    )


# -- what became of records ----------------------------------------------------------------------------


def records_section(
    accounts: Sequence[Account], stored: Mapping[str, Stored], replaced: Container[str]
) -> str:
    """Return the section, or nothing when nobody counted.

    Args:
        accounts: What the producers counted, by topic.
        stored: What the topics hold.
        replaced: The topics whose earlier records went when the topic was deleted.
    """
    if not accounts and not stored:
        return ""
    by_topic = {topic: tuple(own) for topic, own in groupby(accounts, key=lambda account: account.topic)}
    rows = "".join(
        _of_topic(topic, by_topic.get(topic, ()), stored.get(topic), topic in replaced)
        for topic in sorted(by_topic.keys() | stored.keys())
    )
    return (
        f"<section><h2>What became of the records</h2>{_RECORDS_CAPTION}"
        f'<div class="scroll"><table class="records"><thead>{_RECORDS_HEAD}</thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _of_topic(topic: str, accounts: Sequence[Account], stored: Stored | None, replaced: bool) -> str:
    lines = max(1, len(accounts))
    span = f' rowspan="{lines}"' if lines > 1 else ""
    counted = [_counted(account) for account in accounts] or [_NOT_COUNTED]
    first, *others = counted
    row = f"<tr><th scope=row{span}>{escape(topic)}{first}{_held(stored, span)}"
    row += f'<td class="bound"{span}>{_difference(accounts, stored, replaced)}</tr>'
    return row + "".join(f"<tr>{other}</tr>" for other in others)


def _counted(account: Account) -> str:
    numbers = (wording.count(getattr(account, name)) for name in COUNTERS)
    return f"<td>{escape(account.client)}" + "".join(f'<td class="n">{number}' for number in numbers)


def _held(stored: Stored | None, span: str) -> str:
    if stored is None:
        cells = ["not read", *[wording.DASH] * 3]
    else:
        told = (stored.numbers, stored.rerouted, stored.capped)
        cells = [wording.count(number) if stored.labelled else wording.DASH for number in told]
        cells.insert(0, wording.count(stored.records))
    first, *others = cells
    return f'<td class="n bound"{span}>{first}' + "".join(f'<td class="n"{span}>{cell}' for cell in others)


def _difference(accounts: Sequence[Account], stored: Stored | None, replaced: bool) -> str:
    """Return in words how the producers' account and the topic differ."""
    if stored is None or not accounts:
        return wording.DASH
    if not stored.comparable:
        return "not comparable: records without a number"
    acknowledged = sum(account.acknowledged for account in accounts)
    unaccounted = sum(account.unaccounted for account in accounts)
    said = []
    if stored.numbers < acknowledged:
        lost = wording.count(acknowledged - stored.numbers)
        why = ": the topic was deleted and re-created" if replaced else ""
        said.append(f'<strong class="bad">{lost} acknowledged but missing</strong>{why}')
    elif stored.numbers > acknowledged:
        said.append(f"{wording.count(stored.numbers - acknowledged)} stored, not acknowledged")
    if stored.doubles:
        said.append(f"{wording.count(stored.doubles)} stored twice or more")
    if unaccounted:
        said.append(f"{wording.count(unaccounted)} sent and never reported on")
    return "<br>".join(said) or "none"
