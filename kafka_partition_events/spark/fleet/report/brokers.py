"""Churn and skew by broker: leaders that came and went, and how evenly leaders and replicas lie."""

from collections.abc import Callable, Sequence
from typing import Final

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.fleet.report.model import BrokerLoad, FleetData, spread

MAX_BROKERS: Final = 60
"""Brokers with a line of their own, those with the most moves first."""


def brokers(data: FleetData) -> str:
    """Return the table, or a sentence when nothing is known of any broker."""
    if not data.brokers:
        return "<p>No leader moved, and no summary of the cluster was published.</p>"
    ordered = sorted(data.brokers, key=lambda each: (-(each.moved_from + each.moved_to), each.broker))
    shown = sorted(ordered[:MAX_BROKERS], key=lambda each: each.broker)
    rest = len(ordered) - len(shown)
    more = f"<p>{wording.plural(rest, 'broker')} with fewer moves not listed.</p>" if rest else ""
    widest = {name: max([read(each) or 0 for each in shown]) for name, read in _COLUMNS.items()}
    rows = "".join(_row(each, widest) for each in shown)
    head = "".join(f"<th>{name}" for name in _COLUMNS)
    return (
        f'<div class="scroll"><table class="traffic"><thead><tr><th class="n">Broker{head}</thead>'
        f"<tbody>{rows}</tbody></table></div>{more}{_skew(data)}"
    )


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
    width = 100 * value / widest if widest else 0.0
    return (
        f'<td><span class="meter {_STYLES[name]}"><span style="width:{width:.1f}%"></span></span>'
        f"<b>{wording.count(value)}</b>"
    )


def _skew(data: FleetData) -> str:
    if data.skewed_at is None:
        return "<p>Nobody published a summary of the cluster, so where leaders lie now is not known.</p>"
    said = [
        f"{name}: the largest broker holds {ratio:.2f} times the mean"
        for name, ratio in (
            ("leaders", spread(_known(data.brokers, "Leaders now"))),
            ("replicas", spread(_known(data.brokers, "Replicas now"))),
        )
        if ratio is not None
    ]
    return f"<p>At {data.skewed_at:%Y-%m-%d %H:%M} UTC; {'; '.join(said) or 'no broker held anything'}.</p>"


def _known(brokers: Sequence[BrokerLoad], column: str) -> list[int]:
    values = (_COLUMNS[column](each) for each in brokers)
    return [value for value in values if value is not None]
