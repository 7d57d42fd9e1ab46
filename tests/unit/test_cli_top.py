"""``kpe top``: what it shows is what is posted, and that it fits 80x24."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.cluster.top import Watched
from kafka_partition_events.cli.cluster.top_view import (
    Row,
    Screen,
    View,
    broker_rows,
    dealt,
    honesty,
    topic_rows,
    wrong_rows,
)
from kafka_partition_events.cli.common.topic_filter import TopicFilter
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.observe.alert_board import AlertBoard
from kafka_partition_events.testing import ManualClock, ScriptedSource, cluster_of, observe

NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
TOPICS: dict[str, Any] = {
    "orders": {
        "partitions": [
            {"leader": 1, "replicas": [1, 2], "isr": [1]},
            {"leader": None, "replicas": [2], "isr": [2]},
            {"leader": 1, "replicas": [1, 3], "isr": [1]},
        ]
    },
    "lost": {"partitions": [{"leader": None, "replicas": [3], "isr": [3]}]},
    "paid": {"partitions": [{"leader": 1, "replicas": [1], "isr": [1]}]},
}
WELL = cluster_of({"orders": [1, 2], "paid": [1]}, brokers=[1, 2])
SICK = cluster_of(TOPICS, brokers=[1, 3])
"""Broker 2 is missing, which explains some; broker 3 is behind, and a topic has no leader on it."""


class Cluster1:
    """One cluster that a test lets be seen, with a board as `kpe observe` has it."""

    def __init__(self, name: str = "prod") -> None:
        self.name, self.clock = name, ManualClock(wall=NOW)
        self.poller = SimpleNamespace(cluster=None, health=Health())
        poller: Any = self.poller
        self.board = AlertBoard(
            poller, cluster=lambda: name, silent_after=13.0, holds={}, known=None, clock=self.clock
        )
        self.events: tuple[ev.Event, ...] = ()

    def sees(self, cluster: Cluster) -> "Cluster1":
        before = self.poller.cluster
        if before is not None:
            self.events += diff(before, cluster, wall_time=self.clock.now(), previous_at=NOW)
        self.poller.cluster = cluster
        self.poller.health = Health(last_success=self.clock.monotonic())
        self.board.read()
        return self

    def view(self) -> View:
        return View(
            name=self.name,
            cluster=self.poller.cluster,
            health=self.poller.health,
            board=self.board.read(),
            events=self.events,
            now=self.clock.monotonic(),
        )


def said(rows: list[Row]) -> list[str]:
    return [row.cells[3].partition(" (")[0] for row in rows]


def test_what_is_wrong_is_what_is_posted_once_its_hold_down_is_over() -> None:
    seen = Cluster1().sees(WELL).sees(SICK)
    first = wrong_rows(seen.view())
    assert {row.cells[1] for row in first} == {"waits"}
    for waited in (31.0, 900.0):
        seen.clock.advance(waited)
        seen.sees(seen.poller.cluster)
        shown, posted = wrong_rows(seen.view()), seen.board.read().alerts
        fires = [row for row in shown if row.cells[1] == "fires"]
        assert sorted(said(fires)) == sorted(a.annotations["summary"].removeprefix("prod: ") for a in posted)
    assert said(first) == said(shown), "all of it is there from the first second on"
    assert {alert.labels["alertname"] for alert in posted} == {
        "KafkaBrokerMissing", "KafkaPartitionsOffline", "KafkaPartitionsUnderReplicated",
    }  # fmt: skip


def test_the_gravest_comes_first_and_says_for_how_long_and_which_partitions() -> None:
    seen = Cluster1().sees(SICK)
    seen.clock.advance(75.0)
    seen.sees(SICK)
    first, *_ = wrong_rows(seen.view())
    which = "broker 2 is missing (offline 1: orders 1; out of sync 1: orders 0)"
    assert first.cells == ("critical", "fires", "1 min 15 s", which)


def test_a_cluster_that_is_not_seen_says_so_and_shows_what_was_known() -> None:
    seen = Cluster1()
    assert honesty(seen.view()) == "NOTHING KNOWN YET of prod: the first answer is awaited"
    seen.sees(SICK)
    size = "2 brokers, 3 topics, 5 partitions, 2 offline"
    assert honesty(seen.view()) == f"{size}; this process read it 0 s ago: prod"
    seen.clock.advance(40.0)
    seen.poller.health = Health(last_success=0.0, failures=3, last_error="no route\nto host")
    assert honesty(seen.view()).startswith("NO ANSWER, all below is of ")
    assert honesty(seen.view()).endswith(" ago: no route to host (prod)")
    assert len(wrong_rows(seen.view())) == 1
    assert "MISSING" in drawn(seen)


def test_brokers_and_topics_the_worst_first() -> None:
    assert [row.cells[:5] for row in broker_rows(SICK)] == [
        ("2", "MISSING", "0", "2", "1"),
        ("3", "behind", "0", "2", "1"),
        ("1", "ok", "3", "3", "0"),
    ]
    assert [(row.cells[0], row.cells[3], row.colour) for row in topic_rows(SICK)] == [
        ("orders", ".x~", "bold red"),
        ("lost", "  !", "bold red"),
        ("paid", ".  ", "green"),
    ]


# -- the screen ----------------------------------------------------------------------------------------------


def drawn(seen: Cluster1, topics: str | None = None) -> str:
    """Return what a terminal of 80x24 shows, without colours."""
    console = Console(width=80, height=24, no_color=True)
    with console.capture() as shown:
        console.print(Screen(TopicFilter(topics)).drawn(seen.view(), console.height))
    return shown.get()


def test_a_terminal_of_80x24_has_all_of_it_without_colour_too() -> None:
    text = drawn(Cluster1().sees(WELL).sees(SICK))
    for part in (
        "2 brokers, ", "not known here", "broker 2 is missing", "MISSING", ".x~", "broker_removed",
    ):  # fmt: skip
        assert part in text
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80


def test_of_many_topics_it_shows_what_there_is_room_for_and_says_how_many_more_there_are() -> None:
    many = cluster_of({f"topic-{number:03}": [1] for number in range(100)}, brokers=[1])
    text = drawn(Cluster1().sees(many))
    assert len(text.splitlines()) == 24
    assert "more)" in text


def test_lines_are_dealt_to_those_who_want_more() -> None:
    assert dealt([1, 5, 9], 9) == [1, 4, 4]
    assert dealt([1, 2], 9) == [1, 2]
    assert dealt([3], -2) == [0]


def test_other_topics_are_not_shown_and_what_is_wrong_is() -> None:
    text = drawn(Cluster1().sees(WELL).sees(SICK), "paid")
    assert "\npaid " in text
    assert "\norders " not in text
    assert "broker 2 is missing" in text


# -- the command ---------------------------------------------------------------------------------------------


def test_a_cluster_is_polled_from_the_start_until_the_end() -> None:
    two: Any = {"orders": {"partitions": [{"leader": 1, "replicas": [1, 2], "isr": [1, 2]}]}}
    source = ScriptedSource(observe(two, [1, 2]), observe(two, [1]))
    clock = ManualClock(wall=NOW)
    watched = Watched(source, called="prod", interval=2.0, clock=clock)
    try:
        clock.wait_for_waiters()
        assert watched.view().events == ()
        clock.advance(3.0)
        clock.wait_for_waiters()
        cluster = watched.view().cluster
        assert cluster is not None
        assert [row.cells[1] for row in broker_rows(cluster)] == ["MISSING", "ok"]
    finally:
        watched.close()
    assert source.closed == 1


def test_it_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    services = Services(open_source=lambda _: ScriptedSource(OSError("no")), clock=ManualClock())
    assert run(["top", "-b", "localhost:9092"], services) == 2
    assert "this needs a terminal" in capsys.readouterr().err
