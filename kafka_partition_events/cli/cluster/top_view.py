"""What ``kpe top`` shows: rows, made of a snapshot, of what is wrong, and of events.

What is wrong is `observe.alerts`' function of the state, so this view and the alerts that `kpe observe` posts
are one thing; here it is shown at once, and marked when its hold-down is over.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from attrs import frozen
from rich.console import Group
from rich.table import Table

from kafka_partition_events.cli.common.event_text import describe, lasted, styled, subject, totals
from kafka_partition_events.cli.common.topic_filter import TopicFilter
from kafka_partition_events.legible import legible
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.observe.alert_board import Board
from kafka_partition_events.observe.alerts import alerts

NOT_KNOWN: Final = "not known here: suspected brokers (kpe events), lag, min.insync.replicas"
_WRONG: Final = ("WRONG", "", "FOR", "WHAT")
_BROKERS: Final = ("BROKER", "STATE", "LEADERS", "REPLICAS", "BEHIND", "ADDRESS")
_TOPICS: Final = ("TOPIC", "PARTITIONS", "OFFLINE", "BY BROKER: . in sync  ~ behind  ! no leader  x missing")
_EVENTS: Final = ("BETWEEN, UTC", "EVENT")
_COLOURS: Final = {"critical": "bold red", "warning": "yellow", "info": ""}
_BAD, _BEHIND, _GOOD = "bold red", "yellow", "green"
_WORST: Final = "x!~. "


@frozen(kw_only=True)
class View:
    """What is known of the cluster.

    Attributes:
        name: What it is called.
        cluster: The last snapshot; None before the first.
        health: The poller's.
        board: What is wrong, and what of it fires.
        events: What happened, the latest last.
        now: The poller's monotonic clock.
    """

    name: str
    cluster: Cluster | None
    health: Health
    board: Board
    events: Sequence[Event] = ()
    now: float


class Row(NamedTuple):
    """A line of a table: what it says, column by column, and its colour; the words say the same."""

    cells: tuple[str, ...]
    colour: str = ""


class Screen:
    """Draws what is known; what is of the same snapshot is not made again."""

    def __init__(self, wanted: TopicFilter) -> None:
        """Make it.

        Args:
            wanted: The topics that have a row.
        """
        self._wanted = wanted
        self._of: Cluster | None = None
        self._parts: tuple[Sequence[Row], Sequence[Row]] = (), ()

    def drawn(self, view: View, height: int) -> Group:
        """Return as much as so many lines hold."""
        if view.cluster is not None and view.cluster is not self._of:
            self._of = view.cluster
            self._parts = broker_rows(view.cluster), topic_rows(self._wanted.narrowed(view.cluster))
        events = [event for event in view.events if self._wanted.wants(event)]
        parts = {
            _WRONG: wrong_rows(view),
            _BROKERS: self._parts[0],
            _TOPICS: self._parts[1],
            _EVENTS: [_event(event) for event in reversed(events)],
        }
        above = [styled((honesty(view), "bold")), styled((NOT_KNOWN, "dim"))]
        room = dealt([len(rows) for rows in parts.values()], height - len(above) - len(parts))
        for line in above:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*above, *(_table(*part, lines) for part, lines in zip(parts.items(), room, strict=True)))


def dealt(wanted: Sequence[int], lines: int) -> list[int]:
    """Deal lines out one by one to parts that want more; return how many each gets."""
    given = [0] * len(wanted)
    while lines > 0 and given != [*wanted]:
        for place, most in enumerate(wanted):
            if lines > 0 and given[place] < most:
                given[place], lines = given[place] + 1, lines - 1
    return given


def _table(headers: Sequence[str], rows: Sequence[Row], lines: int) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="reverse")
    hidden = f" (+{len(rows) - lines:,} more)" if len(rows) > lines else ""
    for place, name in enumerate(headers):
        widest = place == len(headers) - 1
        table.add_column(name if place else name + hidden, no_wrap=True, ratio=1 if widest else None)
    for row in rows[:lines]:
        table.add_row(*(styled((legible(cell, 300), "")) for cell in row.cells), style=row.colour)
    return table


def honesty(view: View) -> str:
    """Return who read the state when, in a line; last the name, which may be a list of addresses."""
    health, cluster = view.health, view.cluster
    error = " ".join((health.last_error or "the first answer is awaited").split())
    if cluster is None or health.last_success is None:
        return f"NOTHING KNOWN YET of {view.name}: {error}"
    age = f"{max(0.0, view.now - health.last_success):.0f} s ago"
    if not view.board.complete:
        return f"NO ANSWER, all below is of {age}: {error} ({view.name})"
    return f"{totals(cluster)}; this process read it {age}: {view.name}"


def wrong_rows(view: View) -> list[Row]:
    """Return a row for each cause, the gravest and oldest first."""
    board = view.board
    firing = {frozenset(alert.labels.items()) for alert in board.alerts}
    # Each as the alert that it is, or will be: what has stood for ever is beyond any hold-down.
    every = alerts(view.name, board.wrong, dict.fromkeys(board.wrong, -math.inf), view.now)
    found = []
    for cause, alert in zip(board.wrong, every, strict=True):
        stood = max(0.0, view.now - board.since.get(cause, view.now))
        severity, notes = alert.labels["severity"], alert.annotations
        summary = notes["summary"].removeprefix(f"{view.name}: ")
        more = "; ".join(
            f"{name.removeprefix('partitions_').replace('_', ' ')} {notes[name]}"
            for name in ("partitions_offline", "partitions_out_of_sync")
            if name in notes
        )
        fires = "fires" if frozenset(alert.labels.items()) in firing else "waits"
        cells = (severity, fires, lasted(stood), f"{summary} ({more})" if more else summary)
        found.append((list(_COLOURS).index(severity), -stood, Row(cells, _COLOURS[severity])))
    return [row for *_, row in sorted(found, key=lambda each: each[:2])]


def broker_rows(cluster: Cluster) -> list[Row]:
    """Return a row for each broker, the missing ones first."""
    partitions = [p for info in cluster.by_topic.values() for p in info.partitions]
    leaders = Counter(p.leader for p in partitions)
    replicas = Counter(chain.from_iterable(p.replicas for p in partitions))
    behind = Counter(broker for p in partitions for broker in set(p.replicas) - set(p.isr))

    def rows() -> Iterator[tuple[int, Row]]:
        for broker in sorted(cluster.nodes.keys() | replicas.keys()):
            node = cluster.nodes.get(broker)
            address = "not listed" if node is None else f"{node.host}:{node.port}"
            if node is not None and node.rack:
                address += f" rack {node.rack}"
            worst = 0 if node is None else 1 if behind[broker] else 2
            numbers = (f"{each[broker]:,}" for each in (leaders, replicas, behind))
            cells = (str(broker), ("MISSING", "behind", "ok")[worst], *numbers, address)
            yield worst, Row(cells, (_BAD, _BEHIND, _GOOD)[worst])

    return [row for _, row in sorted(rows(), key=lambda each: each[0])]


def topic_rows(cluster: Cluster) -> list[Row]:
    """Return a row for each topic, with a mark for each broker, the worst first."""
    known = {p.replicas for info in cluster.by_topic.values() for p in info.partitions}
    brokers = sorted(cluster.nodes.keys() | set(chain.from_iterable(known)))

    def rows() -> Iterator[tuple[int, Row]]:
        for name in sorted(cluster.by_topic):
            info = cluster.by_topic[name]
            marks = _marks(info, brokers, cluster)
            offline = sum(not p.online for p in info.partitions)
            worst = min([*marks, *("!" if offline else "")], key=_WORST.index, default=" ")
            colour = _BAD if worst in "x!" else _BEHIND if worst == "~" else _GOOD
            cells = (name, str(len(info.partitions)), f"{offline or ''}", marks)
            yield _WORST.index(worst), Row(cells, colour)

    return [row for _, row in sorted(rows(), key=lambda each: each[0])]


def _marks(info: TopicInfo, brokers: Sequence[int], cluster: Cluster) -> str:
    """Return how a topic is on each broker, as the header has it; a space where it is not."""
    found = dict.fromkeys(brokers, " ")
    for p in info.partitions:
        for broker in p.replicas:
            here = "x" if broker not in cluster.nodes else "." if broker in p.isr else "~"
            mark = "!" if here != "x" and not p.online else here
            found[broker] = min(found[broker], mark, key=_WORST.index)
    return "".join(found.values())


def _event(event: Event) -> Row:
    began = "" if event.previous_at is None else f"{event.previous_at:%H:%M:%S} - "
    text = f"{event.kind} {subject(event)}: {describe(event)}".removesuffix(": ")
    return Row((f"{began}{event.wall_time:%H:%M:%S}", text))
