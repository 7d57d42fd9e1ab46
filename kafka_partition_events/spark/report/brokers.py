"""Churn and skew by broker: leaders that came and went, and how evenly leaders and replicas lie."""

from collections.abc import Callable
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.page import meter, table
from kafka_partition_events.spark.report.model import BrokerLoad, Brokers

MAX_BROKERS: Final = 60
"""Brokers with a line of their own, those with the most moves."""


def brokers(found: Brokers) -> str:
    """Return the table, or a sentence when nothing is known of any broker."""
    if not found.shown:
        return "<p>No leader moved, and no summary of the cluster was published.</p>"
    rest = found.count - len(found.shown)
    more = f"<p>{wording.plural(rest, 'broker')} with fewer moves not listed.</p>" if rest > 0 else ""
    widest = {name: max(read(each) or 0 for each in found.shown) for name, read in _COLUMNS.items()}
    rows = (_row(each, widest) for each in sorted(found.shown, key=lambda each: each.broker))
    head = '<th class="n">Broker' + "".join(f"<th>{name}" for name in _COLUMNS)
    return table(head, rows, kind="traffic") + more + _skew(found)


_COLUMNS: Final[dict[str, Callable[[BrokerLoad], int | None]]] = {
    "Leaders lost": lambda each: each.moved_from,
    "Leaders gained": lambda each: each.moved_to,
    "Leaders now": lambda each: each.leaders,
    "Replicas now": lambda each: each.replicas,
}
_STYLES: Final = dict(zip(_COLUMNS, ("during", "after", "before", "before"), strict=True))


def _row(broker: BrokerLoad, widest: dict[str, int]) -> str:
    away = ""
    if broker.offline_replicas:
        away = f'<small class="tag down">{wording.plural(broker.offline_replicas, "replica")} offline</small>'
    cells = "".join(_cell(name, read(broker), widest[name]) for name, read in _COLUMNS.items())
    return f'<tr><td class="n">{away}<b>{broker.broker}</b>{cells}</tr>'


def _cell(name: str, value: int | None, widest: int) -> str:
    if value is None:
        return f'<td class="none">{wording.DASH}'
    width = value / widest if widest else 0.0
    return f"<td>{meter(width, _STYLES[name])}<b>{wording.count(value)}</b>"


def _skew(found: Brokers) -> str:
    if found.counted_at is None:
        return "<p>Nobody published a summary of the cluster, so where leaders lie now is not known.</p>"
    spreads = {"leaders": found.leaders_spread, "replicas": found.replicas_spread}
    said = [
        f"{name}: the largest broker holds {ratio:.2f} times the mean"
        for name, ratio in spreads.items()
        if ratio is not None
    ]
    return f"<p>At {found.counted_at:%Y-%m-%d %H:%M} UTC; {'; '.join(said) or 'no broker held anything'}.</p>"
