"""What lies between events and their targets, in a forked child: nothing hangs, and nothing is told twice."""

import json
import os
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.incidents import IncidentReader
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.outbox import Deliverer, MemoryQueue, RetryPolicy, SqliteOutbox, Stream, Write
from kafka_partition_events.testing.scripted import ScriptedSource, cluster_of, observe
from kafka_partition_events_listeners.journal import JournalListener
from kafka_partition_events_listeners.kafka_events import KafkaEventListener
from kafka_partition_events_listeners.prometheus.listener import PrometheusListener
from kafka_partition_events_listeners.recorder import RecorderListener
from kafka_partition_events_listeners.webhook.listener import WebhookListener
from tests.fork_kit import FORKS, LIMIT_S, held, in_child
from tests.outbox_kit import append, entry, ids

pytestmark = FORKS

URL = "https://hooks.example.com/T0K3N"
SEEN = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
LONG_S = 60.0


def eventually(holds: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(LIMIT_S * 1000):
        if holds():
            return
        waiting.wait(0.001)
    raise AssertionError("it never came true")


def outage(topic: str) -> tuple[Event, ...]:
    """Return the event of a partition that goes offline."""
    up, down = (cluster_of({topic: [leader]}, brokers=[1, 2], cluster_id="c-1") for leader in (1, None))
    return diff(up, down, wall_time=SEEN, previous_at=SEEN - timedelta(seconds=30))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kpe-")]


class Target:
    """Takes everything; while its gate is closed, the request in hand waits. No lock of its own."""

    name, stream, batch = "target", Stream.EVENTS, 3

    def __init__(self, *, gate: bool = True) -> None:
        self.open = gate
        self.asked = 0
        self.taken: list[str] = []
        self.closed = 0

    def deliver(self, entries: Any, /) -> None:
        self.asked += 1
        eventually(lambda: self.open)
        self.taken += ids(entries)

    def close(self) -> None:
        self.closed += 1

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        eventually(lambda: self.open)
        body = json.loads(request.content)
        self.taken.append(body["data"].get("topic") or body["type"])
        return httpx.Response(200)


class Flapping:
    """A source without a lock; a partition goes offline and online with every answer."""

    def __init__(self) -> None:
        self.turns = 0

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        self.turns += 1
        return observe({"orders": [1 if self.turns % 2 else None]}, brokers=[1, 2], started_at=started_at)

    def close(self) -> None:
        pass


class Counting(PartitionChangeListener):
    heard = 0

    def on_event(self, event: Event) -> None:
        self.heard += 1


class TestMemoryQueue:
    def test_is_empty_in_a_child_and_knows_the_readers(self) -> None:
        outbox = MemoryQueue()
        outbox.subscribe("a", Stream.EVENTS)
        outbox.subscribe("b", Stream.INCIDENTS)
        append(outbox, "1", "2", entry("i", stream=Stream.INCIDENTS))
        outbox.write(Write(cursors={"a": 1}))

        def check() -> None:
            append(outbox, "1")
            assert ids(outbox.read("a", 10)) == ["1"]
            assert ids(outbox.read("b", 10)) == []

        in_child(check)
        assert ids(outbox.read("a", 10)) == ["2"]

    def test_has_a_lock_of_its_own(self) -> None:
        outbox = MemoryQueue()
        outbox.subscribe("a", Stream.EVENTS)

        def check() -> None:
            append(outbox, "1")
            assert outbox.wait("a", LONG_S)

        with held(outbox._arrivals.condition):
            in_child(check)

    def test_that_is_closed_stays_so(self) -> None:
        outbox = MemoryQueue()
        outbox.close()

        def check() -> None:
            with pytest.raises(OutboxError, match="has been closed"):
                append(outbox, "1")

        in_child(check)


class TestDeliverer:
    def test_delivers_in_a_child_what_is_appended_there_once_it_is_started(self) -> None:
        outbox, target = MemoryQueue(), Target(gate=False)
        deliverer = Deliverer(outbox, target, retry=RetryPolicy(max_age=1e9))  # entries of the kit are old
        deliverer.start()
        append(outbox, "1", "2")
        eventually(lambda: target.asked == 1)

        def check() -> None:
            assert (threads(), deliverer.stats.state) == ([], "idle")
            target.open = True
            deliverer.start()
            append(outbox, "3")
            deliverer.close(LONG_S)
            assert (target.taken, target.closed) == (["3"], 1)

        with held(deliverer._condition):
            in_child(check)
        target.open = True
        deliverer.close(LONG_S)
        assert target.taken == ["1", "2"]

    def test_leaves_the_sink_to_the_parent_if_it_is_not_started(self) -> None:
        target = Target()
        deliverer = Deliverer(MemoryQueue(), target)

        def check() -> None:
            deliverer.close(LONG_S)
            assert target.closed == 0

        in_child(check)
        deliverer.close()
        assert target.closed == 1

    def test_that_is_closed_stays_so(self) -> None:
        deliverer = Deliverer(MemoryQueue(), Target())
        deliverer.close()

        def check() -> None:
            deliverer.start()
            assert threads() == []
            deliverer.close(LONG_S)

        in_child(check)

    def test_draws_other_delays_in_each_child(self) -> None:
        deliverer = Deliverer(MemoryQueue(), Target())
        reading, writing = os.pipe()
        for _ in range(2):
            in_child(lambda: assert_written(writing, f"{deliverer._rng.random()} "))
        first, second = os.read(reading, 1000).split()
        assert first != second
        os.close(reading)
        os.close(writing)


def assert_written(pipe: int, text: str) -> None:
    assert os.write(pipe, text.encode()) == len(text)


class TestWebhookListener:
    def test_posts_in_a_child_what_is_heard_there_and_not_what_waited(self) -> None:
        target = Target(gate=False)
        listener = WebhookListener(URL, transport=httpx.MockTransport(target.answer))
        for topic in ("first", "second"):
            for event in outage(topic):
                event.deliver(listener)
        eventually(lambda: target.asked == 1)

        def check() -> None:
            assert (listener.stats.waiting, listener.stats.state) == (0, "idle")
            target.open = True
            for event in outage("third"):
                event.deliver(listener)
            listener.close()
            assert target.taken == ["third"]
            assert listener.stats.delivered == 1

        in_child(check)
        target.open = True
        listener.close()
        assert target.taken == ["first", "second"]

    def test_goes_on_posting_in_the_children_of_a_prefork_server(self) -> None:
        target = Target()
        listener = WebhookListener(URL, transport=httpx.MockTransport(target.answer))
        with MetadataPoller(Flapping(), interval=0.004, min_interval=0.002) as poller:
            poller.register(listener)
            eventually(lambda: len(target.taken) >= 5)

            def check() -> None:
                target.taken = []
                eventually(lambda: len(target.taken) >= 5)
                poller.close()
                assert set(target.taken) == {"orders"}, "that a child begins is no news"
                assert threads() == []

            for _ in range(5):
                in_child(check)
            seen = len(target.taken)
            eventually(lambda: len(target.taken) >= seen + 5)  # the parent never noticed


class TestSqliteOutbox:
    def test_is_of_no_use_in_a_child_and_says_so(self, tmp_path: Path) -> None:
        outbox = SqliteOutbox(tmp_path / "outbox.db", max_age_s=1e9)
        outbox.subscribe("a", Stream.EVENTS)
        append(outbox, "1")
        uses: list[Callable[[], object]] = [
            lambda: append(outbox, "2"),
            lambda: outbox.subscribe("b", Stream.EVENTS),
            lambda: outbox.unsubscribe("a"),
            outbox.readers,
            lambda: outbox.read("a", 1),
            lambda: outbox.refuse("a", entry("1"), "x"),
            outbox.dead_letters,
            lambda: outbox.values(""),
            lambda: list(outbox.history(Stream.EVENTS)),
            lambda: outbox.entry("1"),
            lambda: outbox.stats("a"),
            lambda: outbox.size_bytes,
            lambda: outbox.duplicates,
        ]

        def check() -> None:
            for use in uses:
                with pytest.raises(OutboxError, match="opened before this process was forked"):
                    use()
            assert not outbox.wait("a", LONG_S)
            outbox.wake("a")
            outbox.close()
            in_child(outbox.close)

        with held(outbox._arrivals.condition):
            in_child(check)
        append(outbox, "2")
        assert ids(outbox.read("a", 10)) == ["1", "2"]
        outbox.close()


class TestIncidentReader:
    def test_is_closed_in_a_child(self, tmp_path: Path) -> None:
        with closing(SqliteOutbox(tmp_path / "outbox.db")) as outbox, IncidentReader(outbox) as reader:

            def check() -> None:
                reader.start()
                assert threads() == []
                reader.close(LONG_S)

            with held(reader._condition):
                in_child(check)
            assert "kpe-incidents" in threads()


class TestListenersOfOneProcess:
    def test_hear_nothing_in_a_child(self, tmp_path: Path) -> None:
        everywhere = Counting()
        with (
            closing(SqliteOutbox(tmp_path / "outbox.db")) as outbox,
            MetadataPoller(Flapping(), interval=0.002, min_interval=0.001) as poller,
        ):
            journal, recorder = JournalListener(outbox), RecorderListener(tmp_path / "events")
            registrations = [poller.register(one) for one in (everywhere, journal, recorder)]
            eventually(lambda: journal.stats.written > 5 and recorder.stats.recorded > 5)

            def check() -> None:
                before = (journal.stats, recorder.stats)
                heard = everywhere.heard
                eventually(lambda: everywhere.heard > heard + 20)
                assert poller.registrations == (registrations[0],)
                registrations[1].close(wait=LONG_S)
                poller.close()
                assert (journal.stats, recorder.stats) == before

            in_child(check)
            seen = recorder.stats.recorded
            eventually(lambda: recorder.stats.recorded > seen + 5)
        assert recorder.stats.lost == 0

    def test_are_those_with_a_file_a_journal_or_a_librdkafka_producer(self) -> None:
        assert not any(c.survives_fork for c in (JournalListener, RecorderListener, KafkaEventListener))


class TestPrometheus:
    def test_a_scrape_of_the_parents_holds_up_none_in_a_child(self) -> None:
        poller = MetadataPoller(ScriptedSource(observe({"orders": [1]}, brokers=[1])))
        assert poller.poll_once()
        listener = PrometheusListener(poller, registry=None)

        def check() -> None:
            assert "kpe_topics" in {metric.name for metric in listener.collect()}

        with held(listener._building), held(listener._scraper._lock):
            in_child(check)
        poller.close()
