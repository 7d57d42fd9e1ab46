"""What is posted to Alertmanager, and when; and what a board makes of a poller's snapshots."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.observe.alert_board import AlertBoard, Board
from kafka_partition_events.observe.alertmanager import AlertmanagerSink, Due
from kafka_partition_events.observe.alerts import Alert
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from kafka_partition_events_listeners.webhook.client import Way

NOW = datetime(2026, 11, 26, 8, 0, tzinfo=UTC)


def alert(name: str, says: str = "", stood: float = 40.0) -> Alert:
    return Alert(labels={"alertname": name}, annotations={"summary": says, "runbook_url": "u"}, stood=stood)


def board(*names: str, complete: bool = True) -> Board:
    return Board(alerts=tuple(map(alert, names)), complete=complete)


# -- when --------------------------------------------------------------------------------------------------

A, B, AB, NONE = board("a"), board("b"), board("a", "b"), board()
CHANGED = Board(alerts=(alert("a", "more partitions"), alert("b")), complete=True)
BLIND = board("KpePollerBlind", complete=False)
STORIES: dict[str, list[tuple[float, Board, str]]] = {
    "what fires is posted at once and after each interval": [
        (0, A, "a"), (1, A, ""), (59, A, ""), (60, A, "a"), (61, A, ""), (120, A, "a"),
    ],
    "that nothing fires is posted, too: it shows that the way is open": [
        (0, NONE, "nothing"), (59, NONE, ""), (60, NONE, "nothing"),
    ],
    "news are posted at once with all that fires": [
        (0, A, "a"), (5, AB, "a b"), (6, CHANGED, "a b"), (7, CHANGED, ""),
    ],
    "an end is posted once when it has lasted": [
        (0, AB, "a b"), (10, B, ""), (19.9, B, ""), (20, B, "b -a"), (21, B, ""),
    ],
    "what comes back meanwhile has not ended": [
        (0, A, "a"), (10, NONE, ""), (15, A, ""), (16, NONE, ""), (25, NONE, ""), (26, NONE, "-a"),
        (27, NONE, ""),
    ],
    # Nor is it repeated: what another observer sees is not contradicted by what this one saw last. And the
    # other one may be blind still: its alert is the same one.
    "while the cluster is not seen nothing ends, and blindness has no end that is posted": [
        (0, A, "a"), (10, BLIND, "KpePollerBlind"), (30, BLIND, ""), (70, BLIND, "KpePollerBlind"),
        (80, A, "a"), (90, A, ""), (100, BLIND, ""), (130, BLIND, "KpePollerBlind"),
    ],
}  # fmt: skip
"""When which board is found, and what is posted then: what fires, and with a minus what has ended."""


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_what_is_due(story: list[tuple[float, Board, str]]) -> None:
    due = Due(60.0, 10.0)
    for now, found, expected in story:
        posted = due.at(found, now)
        if posted is not None:
            due.posted(*posted, now)
        fires, ended = posted or ((), ())
        told = [*(a.labels["alertname"] for a in fires), *(f"-{a.labels['alertname']}" for a in ended)]
        assert (" ".join(told) or "nothing" if posted else "") == expected, now


def test_what_was_not_taken_is_due_again() -> None:
    due = Due(60.0, 10.0)
    assert due.at(board("a"), 0.0) == due.at(board("a"), 1.0) == ((alert("a"),), ())


def test_after_a_failure_the_next_post_is_due_whatever_fires_then() -> None:
    due = Due(60.0, 10.0)
    due.posted((), (), 0.0)
    assert due.at(board("a"), 1.0) == ((alert("a"),), ())
    due.failed()
    assert due.at(board(), 2.0) == ((), ()), "else nobody would see that it is reached again"


# -- what --------------------------------------------------------------------------------------------------


class Manager:
    """An Alertmanager whose clock says NOW."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = [*answers]
        self.bodies: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        answer = self.answers.pop(0) if self.answers and request.method == "POST" else 200
        if isinstance(answer, Exception):
            raise answer
        if request.method == "POST":
            assert request.url.path == "/prefix/api/v2/alerts"
            self.bodies.append(json.loads(request.content))
        return httpx.Response(answer, headers={"date": format_datetime(NOW, usegmt=True)})


@contextmanager
def posting(manager: Manager, clock: ManualClock, *found: Board) -> Iterator[AlertmanagerSink]:
    """Post what is found, one after the other; the last one stands."""
    boards = [*found]
    sink = AlertmanagerSink(
        ["http://am.example/prefix/"],
        name="am",
        read=lambda: boards.pop(0) if len(boards) > 1 else boards[0],
        repeat_interval=60.0,
        settle=10.0,
        way=Way(transport=httpx.MockTransport(manager)),
        clock=clock,
    )
    sink.start()
    clock.wait_for_waiters()
    yield sink
    sink.close()


@pytest.mark.parametrize("wrong_by", [timedelta(), timedelta(days=1), timedelta(days=-1)])
def test_times_are_by_the_clock_of_who_is_posted_to(wrong_by: timedelta) -> None:
    manager, clock = Manager(), ManualClock(wall=NOW + wrong_by)
    with posting(manager, clock, board("a")) as sink:
        assert sink.stats.delivered == 1
    ((told,),) = manager.bodies
    assert (told["startsAt"], told["endsAt"]) == (
        "2026-11-26T07:59:20.000000Z",
        "2026-11-26T08:04:00.000000Z",
    )


def test_a_clock_that_is_set_between_two_posts_changes_no_time() -> None:
    manager, clock = Manager(), ManualClock(wall=NOW)
    with posting(manager, clock, board("a")):
        clock.set_back(86_400.0)
        clock.advance(60.0)
        clock.wait_for_waiters()
    first, second = manager.bodies
    assert first == second, "Alertmanager's own clock stands still here"


def test_an_end_is_past_by_a_clock_that_is_a_little_behind_too() -> None:
    manager, clock = Manager(), ManualClock(wall=NOW + timedelta(seconds=4.9))
    with posting(manager, clock, board("a"), board()):
        for _ in range(2):
            clock.advance(10.0)
            clock.set_back(10.0)
            clock.wait_for_waiters()
    _, (ended,) = manager.bodies
    assert datetime.fromisoformat(ended["startsAt"]) <= datetime.fromisoformat(ended["endsAt"]) < NOW


def test_what_fails_is_tried_again_counted_and_no_end_of_the_thread() -> None:
    manager, clock = Manager(503, httpx.ConnectError("refused"), 200), ManualClock(wall=NOW)
    with posting(manager, clock, board("a")) as sink:
        for _ in range(2):
            clock.advance(60.0)
            clock.wait_for_waiters()
        assert sink.stats.failures == {"http_503": 1, "connect": 1}
        assert (sink.stats.delivered, sink.stats.state, list(sink.ended())) == (1, "idle", [])
    assert len(manager.bodies) == 2


# -- the board ---------------------------------------------------------------------------------------------

TOPICS: dict[str, Any] = {"orders": {"partitions": [{"leader": 1, "replicas": [1, 2], "isr": [1, 2]}]}}


class Watched:
    """A board over a poller that sees what it is given."""

    def __init__(self, **more: Any) -> None:
        self.clock = ManualClock(wall=NOW)
        self.poller = SimpleNamespace(cluster=None, health=Health())
        options: dict[str, Any] = {"known": None, "silent_after": 40.0, **more}
        poller: Any = self.poller
        self.board = AlertBoard(
            poller, cluster=lambda: "prod", holds={"broker_hold_down": 30.0}, clock=self.clock, **options
        )

    def sees(self, *brokers: int, topics: Any = TOPICS) -> "Watched":
        self.poller.cluster = cluster_of(topics, brokers, cluster_id="c-1")
        self.poller.health = Health(last_success=self.clock.monotonic())
        return self

    def fires(self) -> list[str]:
        return [a.labels["alertname"] for a in self.board.read().alerts]


def test_a_state_stands_from_when_it_was_seen_first() -> None:
    watched = Watched().sees(1, 2)
    assert watched.fires() == []
    assert watched.sees(1).fires() == []
    watched.clock.advance(29.0)
    assert watched.sees(1).fires() == []
    watched.clock.advance(1.0)
    assert watched.sees(1).fires() == ["KafkaBrokerMissing"]
    assert watched.sees(1, 2).fires() == []
    assert watched.sees(1).fires() == []


def test_who_is_blind_says_so_after_two_minutes_and_nothing_else() -> None:
    watched = Watched().sees(1)
    watched.fires()
    watched.poller.health = Health(last_success=watched.clock.monotonic(), failures=1)
    watched.fires()
    watched.clock.advance(119.0)
    assert watched.fires() == []
    watched.clock.advance(1.0)
    found = watched.board.read()
    assert ([a.labels["alertname"] for a in found.alerts], found.complete) == (["KpePollerBlind"], False)
    assert watched.sees(1).fires() == [
        "KafkaBrokerMissing"
    ]  # it has stood meanwhile, as far as anybody knows


def test_a_poll_that_fails_ends_no_wait_and_posts_nothing() -> None:
    watched = Watched().sees(1)
    watched.fires()
    watched.clock.advance(30.0)
    watched.poller.health = Health(last_success=0.0, failures=1)
    assert (watched.fires(), list(watched.board.wrong())) == ([], [("KafkaBrokerMissing", "2")])
    assert watched.sees(1).fires() == ["KafkaBrokerMissing"]


def test_while_answers_are_refused_nothing_is_over() -> None:
    watched = Watched().sees(1)
    assert watched.board.read().complete
    watched.clock.advance(30.0)
    watched.poller.health = Health(last_success=0.0, last_attempt=29.0, next_delay=10.0)
    assert (watched.fires(), watched.board.read().complete) == ([], False)
    watched.poller.health = Health(last_success=29.0, last_attempt=30.0, next_delay=10.0)
    assert watched.board.read().complete, "a poll that is under way says nothing against the last one"


def test_a_poller_that_hangs_is_blind_too() -> None:
    watched = Watched().sees(1, 2)
    watched.clock.advance(41.0)
    assert list(watched.board.wrong()) == [("KpePollerBlind", "")]


def test_a_topic_that_was_created_anew_is_told_for_ten_minutes() -> None:
    watched = Watched().sees(1, 2)
    info = watched.poller.cluster.by_topic.get("orders")
    watched.board.on_topic_recreated(ev.TopicRecreated(topic="orders", old=info, new=info))
    assert watched.sees(1, 2).fires() == ["KafkaTopicRecreated"]
    watched.clock.advance(601.0)
    assert watched.sees(1, 2).fires() == []


def test_a_safe_alternative_is_missed_where_there_was_one() -> None:
    spread: Any = {"t": {"partitions": [{"leader": b, "replicas": [b], "isr": [b]} for b in (1, 2)]}}
    one: Any = {"t": {"partitions": [{"leader": 1, "replicas": [1], "isr": [1]}] * 2}}
    watched = Watched().sees(1, 2, topics=one)
    assert watched.board.wrong() == {}
    watched.sees(1, 2, topics=spread).board.wrong()
    assert [cause.alert for cause in watched.sees(1, 2, topics=one).board.wrong()] == [
        "KafkaSafeAlternativeLost"
    ]
    stored = cluster_of(spread, (1, 2), cluster_id="c-1")
    assert len(Watched(known=stored).sees(1, 2, topics=one).board.wrong()) == 1
    other = cluster_of(spread, (1, 2), cluster_id="c-2")
    assert Watched(known=other).sees(1, 2, topics=one).board.wrong() == {}


@pytest.mark.parametrize("meanwhile", [[TOPICS], []], ids=["seen to be gone", "between two polls"])
def test_a_topic_that_was_created_anew_has_lost_nothing(meanwhile: list[Any]) -> None:
    spread = {"t": {"id": "old", "partitions": [{"leader": b, "replicas": [b], "isr": [b]} for b in (1, 2)]}}
    one = {"t": {"id": "new", "partitions": [{"leader": 1, "replicas": [1], "isr": [1]}] * 2}}
    watched = Watched()
    for topics in (spread, *meanwhile, one):
        watched.sees(1, 2, topics=topics).board.wrong()
    assert watched.board.wrong() == {}


def in_sync(*isrs: list[int]) -> Any:
    """Partitions on brokers 1 and 2, 1 and 3, and so on, led by the first that is in sync."""
    return {
        "t": {
            "partitions": [
                {"leader": isr[0] if isr else None, "replicas": [1, n], "isr": isr}
                for n, isr in enumerate(isrs, start=2)
            ]
        }
    }


@pytest.mark.parametrize(
    ("was", "brokers"),
    [
        (in_sync([]), (1, 2)),  # without a leader no broker blocks it
        (in_sync([2], [3]), (2, 3)),
        (in_sync([2], [3]), (1, 2, 3)),  # broker 1 is back, and not in sync yet
    ],
)
def test_what_an_outage_spreads_was_no_safe_alternative(was: Any, brokers: tuple[int, ...]) -> None:
    watched = Watched().sees(*brokers, topics=was)
    watched.board.wrong()
    well = in_sync(*([1, n] for n in range(2, 2 + len(was["t"]["partitions"]))))
    assert watched.sees(1, 2, 3, topics=well).board.wrong() == {}
