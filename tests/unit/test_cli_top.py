"""``kpe top``: what it shows is what is posted, and what its keys do, at 80x24."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.cluster.top import Watched
from kafka_partition_events.cli.cluster.top_screen import Top
from kafka_partition_events.cli.cluster.top_view import NOT_KNOWN, Look, Row, view
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

    def look(self) -> Look:
        return Look(
            name=self.name,
            address="kafka-1:9092",
            cluster=self.poller.cluster,
            health=self.poller.health,
            board=self.board.read(),
            events=self.events,
            now=self.clock.monotonic(),
        )


def said(rows: Sequence[Row]) -> list[str]:
    return [row.cells[4].partition(" (")[0] for row in rows]


# -- what is shown -------------------------------------------------------------------------------------------


def test_what_is_wrong_is_what_is_posted_once_its_hold_down_is_over() -> None:
    seen = Cluster1().sees(WELL).sees(SICK)
    first = view([seen.look()])
    assert {row.cells[2] for row in first.wrong} == {"waits"}
    for waited in (31.0, 900.0):
        seen.clock.advance(waited)
        seen.sees(seen.poller.cluster)
        shown, posted = view([seen.look()]), seen.board.read().alerts
        fires = [row for row in shown.wrong if row.cells[2] == "fires"]
        assert sorted(said(fires)) == sorted(a.annotations["summary"].removeprefix("prod: ") for a in posted)
    assert said(first.wrong) == said(shown.wrong), "all of it is there from the first second on"
    assert {alert.labels["alertname"] for alert in posted} == {
        "KafkaBrokerMissing", "KafkaPartitionsOffline", "KafkaPartitionsUnderReplicated",
    }  # fmt: skip


def test_the_gravest_comes_first_and_says_for_how_long_and_which_partitions() -> None:
    seen = Cluster1().sees(SICK)
    seen.clock.advance(75.0)
    seen.sees(SICK)
    first, *_ = view([seen.look()]).wrong
    assert first.cells[:4] == ("prod", "critical", "fires", "1 m 15 s")
    assert first.cells[4] == "broker 2 is missing (offline 1: orders 1; out of sync 1: orders 0)"


def test_a_cluster_that_is_not_seen_says_so_and_shows_what_was_known() -> None:
    seen = Cluster1()
    assert view([seen.look()]).honesty == (
        "prod: NOTHING KNOWN YET: the first answer is awaited",
        NOT_KNOWN,
    )
    seen.sees(SICK)
    assert (
        view([seen.look()]).honesty[0]
        == "prod: 2 brokers, 3 topics, 5 partitions; this process read it 0 s ago"
    )
    seen.clock.advance(40.0)
    seen.poller.health = Health(last_success=0.0, failures=3, last_error="no route\nto host")
    shown = view([seen.look()])
    assert shown.honesty[0].startswith("prod: NO ANSWER, all below is of ")
    assert shown.honesty[0].endswith(" ago: no route to host")
    assert len(shown.wrong) == 1
    assert len(shown.brokers) == 3


def test_brokers_and_topics_the_worst_first() -> None:
    shown = view([Cluster1().sees(SICK).look()])
    assert [row.cells[1:6] for row in shown.brokers] == [
        ("2", "MISSING", "0", "2", "1"),
        ("3", "behind", "0", "2", "1"),
        ("1", "ok", "3", "3", "0"),
    ]
    assert [(row.cells[1], row.cells[4], row.tone) for row in shown.topics] == [
        ("orders", ".x~", "bad"),
        ("lost", "  !", "bad"),
        ("paid", ".  ", "good"),
    ]


def test_several_clusters_are_in_one_view() -> None:
    shown = view([Cluster1("prod").sees(SICK).look(), Cluster1("dr").sees(WELL).look()])
    assert [line.partition(":")[0] for line in shown.honesty] == ["prod", "dr", "not known here"]
    assert {row.cells[0] for row in shown.topics} == {"prod", "dr"}
    assert {row.cells[0] for row in shown.wrong} == {"prod"}


def test_a_filter_leaves_rows_that_have_the_text() -> None:
    shown = view([Cluster1().sees(WELL).sees(SICK).look()], "PAID")
    assert ([row.cells[1] for row in shown.topics], shown.wrong, shown.brokers) == (["paid"], (), ())


def test_each_row_has_a_command_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    shown = view([Cluster1().sees(WELL).sees(SICK).look()])
    assert shown.events
    for row in (*shown.wrong, *shown.brokers, *shown.topics, *shown.events):
        program, *arguments = shlex.split(row.command)
        assert program == "kpe"
        assert arguments[arguments.index("-b") + 1] == "kafka-1:9092"
        assert run([arguments[0], "--help"]) == 0
    assert "--topics" in capsys.readouterr().out


def test_what_is_of_the_same_snapshots_is_not_made_again() -> None:
    seen = Cluster1().sees(SICK)
    first = view([seen.look()])
    assert view([seen.look()], "", first).topics is first.topics
    assert view([seen.look()], "paid", first).topics is not first.topics


# -- the screen ----------------------------------------------------------------------------------------------


def on_screen(
    looks: Callable[[], Sequence[Look]], use: Callable[[Top, Pilot[None]], Awaitable[None]]
) -> None:
    async def living() -> None:
        app = Top(looks)
        async with app.run_test(size=(80, 24)) as pilot:
            await use(app, pilot)

    asyncio.run(living())


def text_of(app: Top) -> str:
    """Return what a terminal of 80x24 shows, without colours."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


@pytest.mark.parametrize("colour", ["", "1"])
def test_a_terminal_of_80x24_has_all_of_it_without_colour_too(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", colour)
    seen = Cluster1().sees(WELL).sees(SICK)

    async def use(app: Top, pilot: Pilot[None]) -> None:
        await pilot.pause()
        shown = text_of(app)
        for text in (
            "prod: 2 brokers", "not known here", "what is wrong", "broker 2 is missing", "MISSING",
            "topics by broker", ".x~", "events, the latest first", "broker_removed", "q quit",
        ):  # fmt: skip
            assert text in shown, shown

    on_screen(lambda: [seen.look()], use)


def test_the_keys() -> None:
    seen = Cluster1().sees(WELL).sees(SICK)

    async def use(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("c")
        assert "$ kpe doctor -b kafka-1:9092" in text_of(app)
        await pilot.press("tab", "down", "c")
        assert app.focused is app.query_one("#brokers")
        await pilot.press("slash", *"paid", "enter")
        assert not app.query_one(Input).display
        assert app.query_one("#topics", DataTable).row_count == 1
        await pilot.press("escape")
        assert app.query_one("#topics", DataTable).row_count == 3
        assert not app.query_one("#said", Static).display
        await pilot.press("q")
        assert not app.is_running

    on_screen(lambda: [seen.look()], use)


def test_what_changes_is_shown_and_the_cursor_stays() -> None:
    seen = Cluster1().sees(SICK)

    async def use(app: Top, pilot: Pilot[None]) -> None:
        topics = app.query_one("#topics", DataTable)
        topics.focus()
        await pilot.press("down", "down")
        seen.sees(WELL)
        app.show()
        await pilot.pause()
        assert (topics.row_count, topics.cursor_row) == (2, 1)
        assert app.query_one("#wrong", DataTable).row_count == 0
        await pilot.press("enter")
        assert "--topics paid" in text_of(app)

    on_screen(lambda: [seen.look()], use)


# -- the command ---------------------------------------------------------------------------------------------


def test_a_cluster_is_polled_from_the_start_until_the_end() -> None:
    two: Any = {"orders": {"partitions": [{"leader": 1, "replicas": [1, 2], "isr": [1, 2]}]}}
    source = ScriptedSource(observe(two, [1, 2]), observe(two, [1]))
    clock = ManualClock(wall=NOW)
    watched = Watched(source, address="a:1", name=None, interval=2.0, clock=clock)
    try:
        clock.wait_for_waiters()
        assert (watched.look().name, watched.look().events) == ("test", ())
        clock.advance(3.0)
        clock.wait_for_waiters()
        assert [row.cells[2] for row in view([watched.look()]).brokers] == ["MISSING", "ok"]
    finally:
        watched.close()
    assert source.closed == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-b", "localhost:9092"], "this needs a terminal"),
        (["-b", "a b=localhost:9092"], "is not a name of letters"),
        (["-b", "prod="], "no broker is given"),
        (["-b", "localhost:9092", "--interval", "soon"], "is not a duration"),
    ],
)
def test_what_it_refuses(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    services = Services(open_source=lambda _: ScriptedSource(OSError("no")), clock=ManualClock())
    assert run(["top", *arguments], services) == 2
    assert complaint in capsys.readouterr().err
