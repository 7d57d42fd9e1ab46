"""What ``kpe top`` shows: rows, made of snapshots, of what is wrong, and of events. Pure.

What is wrong is `observe.alerts`' function of the state, so this view and the alerts that `kpe observe` posts
are one thing; here it is shown at once, and marked when its hold-down is over.
"""

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal

from attrs import field, frozen

from kafka_partition_events.cli.common.event_text import counted, describe, subject
from kafka_partition_events.legible import legible
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from kafka_partition_events.metadata.events import Event, TopicEvent
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.observe.alert_board import Board
from kafka_partition_events.observe.alerts import BY_NAME, OTHER, alerts

MOST_TOPICS: Final = 200
"""How many topics have a row in the map: the worst first."""
LEGEND: Final = ". in sync  ~ behind  ! no leader  x missing"
NOT_KNOWN: Final = "not known here: whom producers suspect (kpe events), lag, min.insync.replicas"

Tone = Literal["bad", "warn", "good", "plain"]
_TONES: Final[Mapping[str, Tone]] = {"critical": "bad", "warning": "warn", "info": "plain"}
_WORST: Final = "x!~. "


@frozen(kw_only=True)
class Look:
    """What is known of one cluster.

    Attributes:
        name: What it is called.
        address: How it is reached, for the commands that are shown.
        cluster: The last snapshot; None before the first.
        health: The poller's.
        board: What is wrong, and what of it fires.
        events: What happened, the latest last.
        now: The poller's monotonic clock.
    """

    name: str
    address: str
    cluster: Cluster | None
    health: Health
    board: Board
    events: Sequence[Event] = ()
    now: float


@frozen(kw_only=True)
class Row:
    """A line of a table.

    Attributes:
        cells: What it says, column by column; the first is the cluster.
        tone: How it is coloured; the words say the same.
        command: The `kpe` command that says more.
    """

    cells: tuple[str, ...]
    tone: Tone = "plain"
    command: str


@frozen(kw_only=True)
class View:
    """All that is shown.

    Attributes:
        honesty: Who read the state when, and what is not known; a line for each cluster, and one for all.
        wrong: What is wrong, the gravest first.
        brokers: Brokers, the missing ones first.
        topics: Topics and how they are on each broker, the worst first.
        events: What happened, the latest first.
        of: The snapshots and the pattern that brokers and topics were made of.
    """

    honesty: tuple[str, ...]
    wrong: tuple[Row, ...] = field(factory=tuple)
    brokers: tuple[Row, ...] = field(factory=tuple)
    topics: tuple[Row, ...] = field(factory=tuple)
    events: tuple[Row, ...] = field(factory=tuple)
    of: tuple[Any, ...] = ()


NOTHING: Final = View(honesty=())


def view(looks: Sequence[Look], pattern: str = "", last: View = NOTHING) -> View:
    """Return what is shown of some clusters.

    Args:
        looks: One for each cluster.
        pattern: Only rows that have this text in a cell, whatever the case.
        last: What was shown before: what is of the same snapshots is not made again.
    """

    def wanted(rows: Iterable[Row]) -> tuple[Row, ...]:
        sought = pattern.casefold()
        return tuple(row for row in rows if any(sought in cell.casefold() for cell in row.cells))

    grave = sorted(chain.from_iterable(map(_wrong, looks)), key=lambda each: each[0])
    events = sorted(
        ((event, look) for look in looks for event in look.events), key=lambda each: each[0].wall_time
    )
    of = (pattern, *(id(look.cluster) for look in looks), *(look.name for look in looks))
    if of == last.of:
        brokers, topics = last.brokers, last.topics
    else:
        brokers = wanted(_worst_first(chain.from_iterable(map(_brokers, looks))))
        topics = wanted(_worst_first(chain.from_iterable(map(_topics, looks))))[:MOST_TOPICS]
    return View(
        honesty=(*map(_honesty, looks), NOT_KNOWN),
        wrong=wanted(row for _, row in grave),
        brokers=brokers,
        topics=topics,
        events=wanted(_event(event, look) for event, look in reversed(events)),
        of=of,
    )


def _worst_first(rows: Iterable[tuple[int, Row]]) -> Iterator[Row]:
    return (row for _, row in sorted(rows, key=lambda each: each[0]))


def _honesty(look: Look) -> str:
    health, cluster = look.health, look.cluster
    error = legible(" ".join((health.last_error or "the first answer is awaited").split()), 200)
    if cluster is None or health.last_success is None:
        return f"{look.name}: NOTHING KNOWN YET: {error}"
    age = f"{max(0.0, look.now - health.last_success):.0f} s ago"
    if not look.board.complete:
        return f"{look.name}: NO ANSWER, all below is of {age}: {error}"
    partitions = sum(len(info.partitions) for info in cluster.by_topic.values())
    size = ", ".join(
        (
            counted(len(cluster.nodes), "broker"),
            counted(len(cluster.by_topic), "topic"),
            counted(partitions, "partition"),
        )
    )
    return f"{look.name}: {size}; this process read it {age}"


# -- what is wrong -----------------------------------------------------------------------------------------


def _wrong(look: Look) -> Iterator[tuple[tuple[int, float], Row]]:
    """Yield a row for each cause, with what to sort it by."""
    board = look.board
    firing = {frozenset(alert.labels.items()) for alert in board.alerts}
    # Each as the alert that it is, or will be: what has stood for ever is beyond any hold-down.
    every = alerts(look.name, board.wrong, dict.fromkeys(board.wrong, -math.inf), look.now)
    for cause, alert in zip(board.wrong, every, strict=True):
        stood = max(0.0, look.now - board.since.get(cause, look.now))
        fires = frozenset(alert.labels.items()) in firing
        severity = alert.labels["severity"]
        summary = alert.annotations["summary"].removeprefix(f"{look.name}: ")
        more = "; ".join(
            f"{name.removeprefix('partitions_').replace('_', ' ')} {alert.annotations[name]}"
            for name in ("partitions_offline", "partitions_out_of_sync")
            if name in alert.annotations
        )
        yield (
            (list(_TONES).index(severity), -stood),
            Row(
                cells=(
                    look.name,
                    severity,
                    "fires" if fires else "waits",
                    _lasting(stood),
                    legible(f"{summary} ({more})" if more else summary, 300),
                ),
                tone=_TONES[severity],
                command=_command(look, cause.subject if BY_NAME[cause.alert].about == "topic" else None),
            ),
        )


def _lasting(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours else f"{minutes} m {rest} s" if minutes else f"{rest} s"


def _command(look: Look, topic: str | None) -> str:
    """Return the command that says more of a topic, or of the cluster."""
    where = f"-b {shlex.quote(look.address)}"
    if topic is None or topic == OTHER:
        return f"kpe doctor {where}"
    return f"kpe doctor replicas {where} --topics {shlex.quote(re.escape(topic))}"


# -- brokers and topics ------------------------------------------------------------------------------------


def _brokers(look: Look) -> Iterator[tuple[int, Row]]:
    if (cluster := look.cluster) is None:
        return
    partitions = [p for info in cluster.by_topic.values() for p in info.partitions]
    leaders = Counter(p.leader for p in partitions)
    replicas = Counter(chain.from_iterable(p.replicas for p in partitions))
    behind = Counter(broker for p in partitions for broker in set(p.replicas) - set(p.isr))
    for broker in sorted(cluster.nodes.keys() | replicas.keys()):
        node = cluster.nodes.get(broker)
        state = "MISSING" if node is None else "behind" if behind[broker] else "ok"
        address = "not listed" if node is None else f"{node.host}:{node.port}"
        rack = f" rack {node.rack}" if node is not None and node.rack else ""
        yield (
            ("MISSING", "behind", "ok").index(state),
            Row(
                cells=(
                    look.name,
                    str(broker),
                    state,
                    f"{leaders[broker]:,}",
                    f"{replicas[broker]:,}",
                    f"{behind[broker]:,}",
                    legible(address + rack, 200),
                ),
                tone="bad" if node is None else "warn" if behind[broker] else "good",
                command=_command(look, None),
            ),
        )


def _topics(look: Look) -> Iterator[tuple[int, Row]]:
    if (cluster := look.cluster) is None:
        return
    known = {p.replicas for info in cluster.by_topic.values() for p in info.partitions}
    brokers = sorted(cluster.nodes.keys() | set(chain.from_iterable(known)))
    for name in sorted(cluster.by_topic):
        info = cluster.by_topic[name]
        marks = _marks(info, brokers, cluster)
        worst = min(marks, key=_WORST.index, default=" ")
        offline = sum(not p.online for p in info.partitions)
        yield (
            _WORST.index("!") if offline and worst != "x" else _WORST.index(worst),
            Row(
                cells=(look.name, legible(name, 249), str(len(info.partitions)), f"{offline or ''}", marks),
                tone="bad" if offline or worst == "x" else "warn" if worst == "~" else "good",
                command=_command(look, name),
            ),
        )


def _marks(info: TopicInfo, brokers: Sequence[int], cluster: Cluster) -> str:
    """Return how a topic is on each broker, as a character of `LEGEND`; a space where it is not."""
    found = dict.fromkeys(brokers, " ")
    for p in info.partitions:
        for broker in p.replicas:
            here = "x" if broker not in cluster.nodes else "." if broker in p.isr else "~"
            mark = "!" if here != "x" and not p.online else here
            found[broker] = min(found[broker], mark, key=_WORST.index)
    return "".join(found.values())


# -- events ------------------------------------------------------------------------------------------------


def _event(event: Event, look: Look) -> Row:
    began = "" if event.previous_at is None else f"{event.previous_at:%H:%M:%S} - "
    topic = event.topic if isinstance(event, TopicEvent) else None
    told = legible(f"{event.kind} {subject(event)}: {describe(event)}".removesuffix(": "), 300)
    return Row(
        cells=(look.name, f"{began}{event.wall_time:%H:%M:%S}", told),
        command=f"kpe watch -b {shlex.quote(look.address)}"
        + ("" if topic is None else f" --topics {shlex.quote(re.escape(topic))}"),
    )
