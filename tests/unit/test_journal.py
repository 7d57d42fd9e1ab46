"""The journal: what was told and what it led to become durable together; what could not be is found again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events.errors import MetadataFetchError, OutboxError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.outbox import Entry, Outbox, Write
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import ScriptedSource, cluster_of, observe
from kafka_partition_events_listeners.journal import PAUSE_S, JournalListener, load_snapshot

WAIT_S = 10.0
LOOKS_EVERY = timedelta(seconds=10)
FULL = OutboxError("events.db: the disk is full; free some space")


class Shelf(Outbox):
    """An outbox, as far as a journal is concerned. It does what a file would do that outlives the process."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.trouble: OutboxError | None = None
        self._values: dict[str, bytes] = {}

    def write(self, write: Write, /) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.writes.append(write)
        for name, value in write.values.items():
            if value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = value

    def values(self, prefix: str) -> Mapping[str, bytes]:
        return {name: value for name, value in self._values.items() if name.startswith(prefix)}

    @property
    def entries(self) -> list[Entry]:
        return [entry for write in self.writes for entry in write.entries]

    @property
    def topics_written(self) -> list[dict[str, bool]]:
        """Of each write, the topics and whether they were stored (or else removed)."""
        return [
            {
                name.removeprefix("topic/"): value is not None
                for name, value in write.values.items()
                if name.startswith("topic/")
            }
            for write in self.writes
        ]


def make_shelf() -> Shelf:
    return Shelf()  # type: ignore[abstract]  # nothing else is called


@pytest.fixture
def shelf() -> Shelf:
    return make_shelf()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class World:
    """A cluster whose journal is kept by one observer after the other."""

    def __init__(self, shelf: Shelf, clock: ManualClock) -> None:
        self.shelf, self.clock = shelf, clock
        self.pollers: list[MetadataPoller] = []

    def observer(
        self, *answers: Observation | Exception, **options: Any
    ) -> tuple[MetadataPoller, JournalListener]:
        """Begin to observe, as a process that has just started."""
        resume, resume_at = load_snapshot(self.shelf) or (None, None)
        source = ScriptedSource(*answers)
        poller = MetadataPoller(source, clock=self.clock, resume=resume, resume_at=resume_at)
        journal = JournalListener(self.shelf, clock=self.clock, **options)
        self.pollers.append(poller)
        registration = poller.register(journal)
        for _ in answers:
            poller.poll_once()
            assert registration.wait_synced(WAIT_S)
            self.clock.advance(LOOKS_EVERY.total_seconds())
        return poller, journal


@pytest.fixture
def world(shelf: Shelf, clock: ManualClock) -> Iterator[World]:
    world = World(shelf, clock)
    yield world
    for poller in world.pollers:
        poller.close()


def answer(brokers: Sequence[int] = (1, 2, 3), **topics: Any) -> Observation:
    proved = {name: {"id": name, "partitions": partitions} for name, partitions in topics.items()}
    return observe(proved, brokers=brokers)  # type: ignore[arg-type]


def snapshot(generation: int = 1, **topics: Any) -> Cluster:
    return cluster_of(topics, brokers=[1, 2, 3], generation=generation)


def at(second: int) -> datetime:
    return datetime(2026, 11, 20, 10, 0, second, tzinfo=UTC)


def tell(journal: JournalListener, *events: Event) -> None:
    for event in events:
        event.deliver(journal)


def between(old: Cluster, new: Cluster, first: int = 1) -> tuple[Event, ...]:
    return diff(old, new, first_sequence=first, wall_time=at(first % 60), previous_at=at(0))


def bodies(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [json.loads(entry.body) for entry in entries]


class TestOneWrite:
    def test_takes_all_events_of_a_batch_and_the_snapshot(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, observer="a", clock=clock)
        cluster = snapshot(orders=[1, None])
        tell(journal, *between(EMPTY, cluster))
        assert shelf.writes == [], "nothing is durable before all of it is"
        journal.on_settled(cluster, at(9))
        (write,) = shelf.writes
        names = ["broker.joined", "broker.joined", "broker.joined", "topic.created", "partition.offline"]
        assert [entry.name for entry in write.entries] == names
        assert write.values.keys() == {"topic/orders", "nodes"}
        assert {body["data"]["observer"] for body in bodies(write.entries)} == {"a"}
        assert journal.stats.written == 5
        assert journal.stats.waiting == 0

    def test_names_the_topics_that_changed_and_no_others(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        old = snapshot(orders=[1], payments=[1], gone=[1])
        journal.on_settled(old, at(1))
        topics = {"payments": old.by_topic["payments"], **snapshot(orders=[2], new=[1]).by_topic}
        new = evolve(old, by_topic=topics, generation=2)
        tell(journal, *between(old, new))
        journal.on_settled(new, at(2))
        first, second = shelf.topics_written
        assert first == {"orders": True, "payments": True, "gone": True}
        assert second == {"orders": True, "new": True, "gone": False}

    def test_of_a_broker_loss_is_as_large_as_what_moved(self, world: World, shelf: Shelf) -> None:
        others = {f"other-{n}": [1, 2] for n in range(50)}
        before = {f"moving-{n}": [1, 2, 3] for n in range(4)}
        after = {name: [1, 2, 2] for name in before}
        world.observer(answer(**others, **before), answer(brokers=(1, 2), **others, **after))
        assert [len(topics) for topics in shelf.topics_written] == [54, 4]
        assert shelf.topics_written[1].keys() == before.keys()

    def test_comes_at_once_when_there_is_news(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        clusters = [EMPTY, *(snapshot(n, orders=[n % 3 + 1]) for n in range(1, 6))]
        for n, (old, new) in enumerate(pairwise(clusters), 1):
            tell(journal, *between(old, new, n))
            journal.on_settled(new, at(n))
            assert len(shelf.writes) == n

    def test_renews_the_time_of_the_snapshot_now_and_then(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        cluster = snapshot(orders=[1])
        for second in range(13):
            journal.on_settled(cluster, at(second))
            clock.advance(1)
        assert len(shelf.writes) == 3
        assert shelf.topics_written[1:] == [{}, {}]
        assert load_snapshot(shelf) == (cluster, at(10))

    def test_happens_at_the_end_too(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        cluster = snapshot(orders=[1])
        journal.on_settled(cluster, at(1))
        journal.on_settled(cluster, at(2))
        tell(journal, ev.CapLifted(topic="orders", partitions=1, partitioner="sticky"))
        journal.close()
        assert load_snapshot(shelf) == (cluster, at(2))
        assert [entry.name for entry in shelf.entries] == ["cap.lifted"]

    def test_leaves_the_stored_snapshot_alone_as_long_as_none_is_known(
        self, shelf: Shelf, clock: ManualClock
    ) -> None:
        before = JournalListener(shelf, clock=clock)
        before.on_settled(snapshot(orders=[1]), at(1))
        journal = JournalListener(shelf, clock=clock)
        tell(journal, ev.MetadataUnavailable(error="no route"))
        journal.on_settled(EMPTY, None)
        assert [entry.name for entry in shelf.entries] == ["metadata.unavailable"]
        assert load_snapshot(shelf) == (snapshot(orders=[1]), at(1))
        journal.on_settled(snapshot(payments=[1]), at(2))
        clock.advance(PAUSE_S)
        journal.on_settled(snapshot(payments=[1]), at(3))
        assert load_snapshot(shelf) == (snapshot(payments=[1]), at(3))


class TestTheStoredSnapshot:
    def test_comes_back_as_it_was(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        cluster = cluster_of(
            {"orders": {"id": "A", "partitions": [{"leader": 1, "epoch": 7, "replicas": [1, 2]}, None]}},
            generation=12,
            cluster_id="c-1",
        )
        journal.on_settled(cluster, at(1))
        loaded = load_snapshot(shelf)
        assert loaded == (cluster, at(1))
        assert loaded is not None
        assert (loaded[0].cluster_id, loaded[0].generation) == ("c-1", 12)

    def test_is_none_where_nothing_was_stored(self, shelf: Shelf) -> None:
        assert load_snapshot(shelf) is None

    def test_has_no_topic_that_vanished_while_nobody_looked(self, shelf: Shelf, clock: ManualClock) -> None:
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[1], gone=[1]), at(1))
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[1]), at(2))
        assert load_snapshot(shelf) == (snapshot(orders=[1]), at(2))

    def test_is_not_written_again_by_the_next_process(self, shelf: Shelf, clock: ManualClock) -> None:
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[1], payments=[1]), at(1))
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[1], payments=[2]), at(2))
        assert shelf.topics_written[1] == {"payments": True}

    @pytest.mark.parametrize(
        "damaged",
        [
            {"nodes": b"{"},
            {"nodes": b"[]"},
            {"nodes": b"\xff"},
            {"topic/orders": b"null"},
            {"topic/orders": b"{}"},
            {"topic/orders": b'{"name": "orders", "topic_id": null, "partitions": [[1]]}'},
            {"nodes": json.dumps({"format": "kpe.snapshot", "version": 99}).encode()},
        ],
        ids=[
            "cut off",
            "no object",
            "no text",
            "no topic",
            "without partitions",
            "half a row",
            "of a later version",
        ],
    )
    def test_that_is_damaged_is_told_and_passed_over(
        self, shelf: Shelf, clock: ManualClock, damaged: dict[str, bytes]
    ) -> None:
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[1]), at(1))
        shelf.write(Write(values=damaged))
        with capture_logs() as logs:
            assert load_snapshot(shelf) is None
        assert [entry["event"] for entry in logs] == ["stored_snapshot_unreadable"]
        JournalListener(shelf, clock=clock).on_settled(snapshot(orders=[2]), at(2))
        assert load_snapshot(shelf) == (snapshot(orders=[2]), at(2)), "the next one heals it"


class TestARestart:
    def test_tells_what_changed_meanwhile_and_nothing_else(self, world: World, shelf: Shelf) -> None:
        world.observer(answer(orders=[1, 2], quiet=[1]))
        lived = shelf.entries
        down_from = world.clock.now()
        world.clock.advance(3600)
        world.observer(answer(orders=[1, 2, 3], quiet=[1], payments=[1]))
        told = shelf.entries[len(lived) :]
        assert [entry.name for entry in told] == ["metadata.recovered", "partitions.added", "topic.created"]
        for data in [body["data"] for body in bodies(told)]:
            assert (data["initial"], data["snapshot"]["gap"]) == (False, True)
            assert datetime.fromisoformat(data["snapshot"]["prev_at"]) < down_from
            assert datetime.fromisoformat(data["snapshot"]["at"]) == world.clock.now() - LOOKS_EVERY

    def test_tells_a_deletion_when_it_is_sure_and_that_it_may_have_been_hours_ago(
        self, world: World, shelf: Shelf
    ) -> None:
        world.observer(answer(orders=[1], gone=[1]))
        last_look = world.clock.now() - LOOKS_EVERY
        world.clock.advance(3600)
        outage = MetadataFetchError("no route")
        world.observer(*[answer(orders=[1])] * 2, outage, *[answer(orders=[1])] * 2)
        deleted = bodies(shelf.entries)[-1]
        assert deleted["type"].endswith("topic.deleted.v1")
        assert datetime.fromisoformat(deleted["data"]["snapshot"]["prev_at"]) == last_look
        assert deleted["data"]["snapshot"]["gap"] is True

    def test_that_finds_nothing_new_tells_only_for_how_long_nobody_looked(
        self, world: World, shelf: Shelf
    ) -> None:
        world.observer(answer(orders=[1]))
        world.clock.advance(600)
        world.observer(answer(orders=[1]))
        last = shelf.writes[-1].entries
        assert [entry.name for entry in last] == ["metadata.recovered"]
        assert bodies(last)[0]["data"]["blind_s"] == 610

    def test_finds_what_was_seen_and_not_written_under_the_ids_that_it_would_have_had(
        self, world: World, shelf: Shelf
    ) -> None:
        up = answer(orders=[{"leader": 1, "epoch": 1}, {"leader": 2, "epoch": 1}])
        down = answer(
            orders=[{"leader": 1, "epoch": 1}, {"leader": None, "epoch": 2}], new=[{"leader": 1, "epoch": 0}]
        )
        world.observer(up)
        lived = len(shelf.entries)
        shelf.trouble = FULL
        survivor = make_shelf()
        survivor.write(Write(values=shelf.values("")))
        _, other = world.observer(down)
        assert other.stats.waiting == 3
        waiting = [entry.id for entry in other._waiting if entry.name != "metadata.recovered"]

        world.shelf, shelf.trouble = survivor, None  # the process is gone, and what it held in memory
        world.observer(down)
        found = [entry.id for entry in survivor.entries if entry.name != "metadata.recovered"]
        assert found == waiting
        assert len(found) == 2
        assert len(shelf.entries) == lived

    def test_after_a_while_without_news_knows_when_the_last_look_was(
        self, world: World, shelf: Shelf
    ) -> None:
        idle = [answer(orders=[1])] * 30
        world.observer(*idle)
        last_look = world.clock.now() - LOOKS_EVERY
        world.clock.advance(5)
        world.observer(answer(orders=[2]))
        moved = bodies(shelf.entries)[-1]
        assert moved["type"].endswith("leadership.moved.v1")
        assert datetime.fromisoformat(moved["data"]["snapshot"]["prev_at"]) == last_look

    def test_without_a_stored_snapshot_journals_what_is(self, world: World, shelf: Shelf) -> None:
        world.observer(answer(orders=[1]))
        assert all(body["data"]["initial"] for body in bodies(shelf.entries))
        assert [entry.name for entry in shelf.entries] == [*["broker.joined"] * 3, "topic.created"]

    def test_on_another_cluster_forgets_the_first_one(self, world: World, shelf: Shelf) -> None:
        world.observer(answer(orders=[1]))
        other = observe({"payments": [1]}, brokers=[1], cluster_id="another")
        world.observer(other)
        loaded = load_snapshot(shelf)
        assert loaded is not None
        assert (loaded[0].cluster_id, loaded[0].topics()) == ("another", {"payments"})


class TestADroppedBacklog:
    def test_is_made_good_as_far_as_the_snapshot_tells(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        old = snapshot(1, orders=[1, 2], gone=[1])
        journal.on_settled(old, at(1))
        new = snapshot(5, orders=[1, None, 3], gone=[1])
        resync = ev.Resync(
            cluster=new, dropped=17, sequence=40, generation=5, cluster_id="test", wall_time=at(30)
        )
        tell(journal, resync)
        journal.on_settled(new, at(29))
        told = bodies(shelf.entries)
        names = [body["type"].split("events.")[1].removesuffix(".v1") for body in told]
        assert names == ["observer.resync", "partitions.added", "partition.offline"]
        assert told[0]["data"]["dropped"] == 17
        for body in told[1:]:
            assert body["sequence"] == f"{40:020d}"
            assert body["data"]["initial"] is False
            assert body["data"]["snapshot"] == {
                "seq": 5,
                "prev_at": "2026-11-20T10:00:01.000000Z",
                "at": "2026-11-20T10:00:30.000000Z",
                "gap": True,
            }
        assert load_snapshot(shelf) == (new, at(29))

    def test_is_counted_from_what_was_told_even_if_it_is_not_written_yet(
        self, shelf: Shelf, clock: ManualClock
    ) -> None:
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = FULL
        first, second = snapshot(1, orders=[1]), snapshot(2, orders=[1], new=[1])
        journal.on_settled(first, at(1))
        tell(journal, *between(first, second))
        journal.on_settled(second, at(2))
        tell(journal, ev.Resync(cluster=snapshot(3, orders=[1], new=[1]), dropped=2, wall_time=at(3)))
        assert [entry.name for entry in journal._waiting] == ["topic.created", "observer.resync"]


class TestAnOutboxInTrouble:
    @pytest.fixture
    def journal(self, shelf: Shelf, clock: ManualClock) -> JournalListener:
        """One that has told a batch in vain."""
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = FULL
        tell(journal, *between(EMPTY, snapshot(orders=[1])))
        journal.on_settled(snapshot(orders=[1]), at(1))
        return journal

    def test_loses_nothing(self, shelf: Shelf, clock: ManualClock, journal: JournalListener) -> None:
        assert (journal.stats.written, journal.stats.waiting) == (0, 4)
        assert journal.stats.last_error == str(FULL)
        shelf.trouble = None
        clock.advance(PAUSE_S)
        old, new = snapshot(orders=[1]), snapshot(2, orders=[2])
        tell(journal, *between(old, new))
        journal.on_settled(new, at(2))
        (write,) = shelf.writes
        assert [entry.name for entry in write.entries][-2:] == ["topic.created", "leadership.moved"]
        assert load_snapshot(shelf) == (new, at(2))
        stats = journal.stats
        assert (stats.written, stats.waiting, stats.lost, stats.last_error) == (5, 0, 0, None)

    def test_is_tried_again_by_a_look_without_news(
        self, shelf: Shelf, clock: ManualClock, journal: JournalListener
    ) -> None:
        shelf.trouble = None
        clock.advance(PAUSE_S)
        journal.on_settled(snapshot(orders=[1]), at(9))
        assert journal.stats.waiting == 0

    def test_is_not_tried_for_every_batch(
        self, shelf: Shelf, clock: ManualClock, journal: JournalListener
    ) -> None:
        shelf.trouble = None
        clock.advance(PAUSE_S - 0.1)
        tell(journal, ev.MetadataUnavailable(error="no route"))
        journal.on_settled(snapshot(orders=[1]), at(9))
        assert shelf.writes == []
        clock.advance(0.1)
        journal.on_settled(snapshot(orders=[1]), at(9))
        assert len(shelf.entries) == 5

    def test_is_logged_once_and_once_when_it_is_over(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock)
        shelf.trouble = FULL
        with capture_logs() as logs:
            for second in range(10):
                tell(journal, ev.MetadataUnavailable(error="no route", sequence=second))
                journal.on_settled(snapshot(orders=[1]), at(second))
                clock.advance(PAUSE_S)
            shelf.trouble = None
            for second in range(10):
                journal.on_settled(snapshot(orders=[1]), at(second))
                clock.advance(PAUSE_S)
        assert [(entry["event"], entry["log_level"]) for entry in logs] == [
            ("journal_not_written", "error"),
            ("journal_written_again", "warning"),
        ]
        assert logs[0]["error"] == str(FULL)

    def test_makes_churn_go_first_then_the_oldest(self, shelf: Shelf, clock: ManualClock) -> None:
        journal = JournalListener(shelf, clock=clock, max_waiting=4)
        shelf.trouble = FULL
        clusters = [EMPTY, snapshot(1, a=[1]), snapshot(2, a=[2]), snapshot(3, a=[3], b=[1], c=[1])]
        for old, new in pairwise(clusters):
            tell(journal, *between(old, new))
            journal.on_settled(new, at(new.generation))
            clock.advance(PAUSE_S)
        names = [entry.name for entry in journal._waiting]
        assert names == ["broker.joined", "topic.created", "topic.created", "topic.created"]
        assert (journal.stats.lost, journal.stats.waiting) == (4, 4)
        shelf.trouble = None
        journal.on_settled(clusters[-1], at(9))
        assert (journal.stats.written, journal.stats.lost) == (4, 4)

    def test_that_lasts_until_the_end_is_told(self, journal: JournalListener) -> None:
        with capture_logs() as logs:
            journal.close()
        assert [(entry["event"], entry["events"]) for entry in logs] == [("journal_abandoned", 4)]
