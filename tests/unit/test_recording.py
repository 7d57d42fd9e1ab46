"""Reading what a poller told, and living through it again."""

import json
from pathlib import Path

import pytest
from attrs import evolve

from kafka_partition_events.events.codec import CodecError
from kafka_partition_events.events.event_json import encode_event
from kafka_partition_events.events.names import name_of
from kafka_partition_events.events.snapshot_json import Snapshot, encode_snapshot
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import apply, diff
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.testing import (
    ManualClock,
    Recording,
    RecordingListener,
    ScriptedSource,
    cluster_of,
    observe,
)
from kafka_partition_events.testing.replay import POLL_INTERVAL_S
from kafka_partition_events.testing.scripted import Step
from tests.every_event import EVERY_EVENT

DOWN = OSError("no route to host")
STORY: tuple[Step, ...] = (
    observe({"orders": [1, 2, 3], "old": [1]}, brokers=[1, 2, 3]),
    DOWN, DOWN, DOWN,
    observe({"orders": [1, None, 3], "old": [1]}, brokers=[1, 3]),
    observe({"orders": [1, 3, 3], "old": [1]}, brokers=[1, 3]),
    *[observe({"orders": [1, 3, 3]}, brokers=[1, 3])] * 3,  # "old" is gone: believed the third time
    observe({"orders": [1, 3, 3, 1, None], "new": [3]}, brokers=[1, 3]),
    *[observe({"orders": [1, 3], "new": [3]}, brokers=[1, 3])] * 3,  # created again
    DOWN,
    observe({"orders": [1, 3], "new": [3]}, brokers=[1, 3]),
    DOWN,
    observe({"orders": [1, 2], "new": [3]}, brokers=[1, 2, 3]),
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def live(steps: tuple[Step, ...], *listeners: PartitionChangeListener) -> tuple[ev.Event, ...]:
    """Let a poller live through the steps, as far apart as it polls; return what it told."""
    clock, told = ManualClock(), RecordingListener()
    poller = MetadataPoller(ScriptedSource(*steps), clock=clock)
    for listener in (told, *listeners):
        poller.register(listener)
    for _ in steps:
        poller.poll_once()
        clock.advance(POLL_INTERVAL_S)
    poller.close(timeout=20)
    return timeless(told.events)


def timeless(events: tuple[ev.Event, ...]) -> tuple[ev.Event, ...]:
    """Return the events without what means nothing outside a process."""
    return tuple(evolve(event, observed_at=0.0) for event in events)


def record(path: Path, *steps: Step) -> tuple[ev.Event, ...]:
    """Let a poller live through the steps, and write what it told as ``kpe watch --output jsonl`` does."""
    told = live(steps)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(encode_event(event)) + "\n" for event in told)
    return told


def moves(count: int, start: Cluster) -> tuple[ev.Event, ...]:
    """Return elections of partition 0 of ``orders``, back and forth."""
    told: list[ev.Event] = []
    for number in range(1, count + 1):
        moved = cluster_of({"orders": [1 + number % 2]}, brokers=[1, 2], generation=start.generation + number)
        told += diff(apply(start, told), moved, first_sequence=start.generation + number)
    return tuple(told)


UP = cluster_of({"orders": [1]}, brokers=[1, 2])
BEGINNING = diff(EMPTY, UP, initial=True)


class TestReading:
    @pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
    def test_every_event_can_be_read_back(self, path: Path, event: ev.Event) -> None:
        path.write_text(json.dumps(encode_event(event)) + "\n", encoding="utf-8")
        assert Recording.read(path) == Recording(start=EMPTY, events=(event,))

    def test_a_snapshot_may_stand_in_front(self, path: Path) -> None:
        lines = [encode_snapshot(Snapshot(UP)), *map(encode_event, moves(3, UP))]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        assert Recording.read(path) == Recording(start=UP, events=moves(3, UP))

    def test_a_line_that_was_torn_off_is_passed_over(self, path: Path) -> None:
        told = record(path, *STORY[:1])
        path.write_bytes(path.read_bytes()[:-7])
        assert Recording.read(path).events == told[:-1]

    def test_what_holds_no_event_is_no_recording(self, path: Path) -> None:
        path.write_bytes(b"")
        with pytest.raises(CodecError, match="there is no event in it"):
            Recording.read(path)
        path.write_bytes(b'{"format": "kpe.other"}\n')
        with pytest.raises(CodecError, match=r"line 1: not a snapshot"):
            Recording.read(path)

    @pytest.mark.parametrize("damage", [b"not json\n", b"7\n", b'{"kind": "broker_added"}\n'])
    def test_a_damaged_line_is_named(self, path: Path, damage: bytes) -> None:
        record(path, *STORY[:1])
        head, _, *rest = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([head, damage, *rest]))
        with pytest.raises(CodecError, match="line 2"):
            Recording.read(path)

    def test_events_of_a_later_version_are_passed_over_and_counted(self, path: Path) -> None:
        told = record(path, *STORY[:1])
        with path.open("ab") as file:
            file.write(b'{"kind": "rack_lost", "rack": "r1"}\n')
        read = Recording.read(path)
        assert (read.events, read.unknown) == (told, 1)


class TestReplaying:
    def test_to_a_listener_each_event_comes_by_its_own_method(self, path: Path) -> None:
        told = record(path, *STORY)
        offline: list[ev.Event] = []

        class Watching(RecordingListener):
            def on_partition_offline(self, event: ev.PartitionOffline) -> None:
                offline.append(event)

        listener = Watching()
        Recording.read(path).play(listener)
        assert tuple(offline) == tuple(e for e in told if isinstance(e, ev.PartitionOffline))
        assert listener.events == tuple(e for e in told if e not in offline)

    def test_a_poller_lives_through_the_same_story(self, path: Path) -> None:
        told = record(path, *STORY)
        again = live(Recording.read(path).steps())
        assert again == told
        assert {type(event) for event in told} >= {
            ev.TopicRemoved, ev.TopicRecreated, ev.TopicAdded, ev.PartitionsAdded, ev.PartitionOffline,
            ev.PartitionOnline, ev.LeaderChanged, ev.BrokerRemoved, ev.BrokerAdded,
            ev.MetadataUnavailable, ev.MetadataRecovered, ev.MetadataRejected,
        }  # fmt: skip

    def test_the_source_plays_those_steps(self, path: Path) -> None:
        record(path, *STORY)
        recording = Recording.read(path)
        poller = MetadataPoller(recording.source(), clock=ManualClock())
        poller.poll_once()
        assert poller.cluster == cluster_of({"orders": [1, 2, 3], "old": [1]}, brokers=[1, 2, 3])
        poller.close()

    def test_a_recording_of_the_middle_begins_with_its_snapshot(self, path: Path) -> None:
        middle = Recording(start=UP, events=moves(2, UP))
        told = live(middle.steps())
        assert told[: len(BEGINNING)] == tuple(
            evolve(event, sequence=number, wall_time=told[0].wall_time)
            for number, event in enumerate(BEGINNING, 1)
        )
        assert [event.kind for event in told[len(BEGINNING) :]] == ["leader_changed", "leader_changed"]

    def test_over_a_restart_it_ends_with_the_same_cluster(self, path: Path) -> None:
        first = record(path, *STORY[:5])
        resync = ev.Resync(cluster=EMPTY, dropped=0, sequence=len(first), wall_time=first[-1].wall_time)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(encode_event(resync)) + "\n")
        record(path, *STORY[-1:])
        told = live(Recording.read(path).steps())
        assert apply(EMPTY, told) == cluster_of({"orders": [1, 2], "new": [3]}, brokers=[1, 2, 3])
        assert ev.Rejection.NO_BROKERS not in {getattr(event, "reason", None) for event in told}

    @pytest.mark.parametrize(
        "steps", [(DOWN, DOWN, STORY[0]), (STORY[0], DOWN, DOWN, STORY[0]), (STORY[0], DOWN)],
        ids=["at the beginning", "at the end", "without end"],
    )  # fmt: skip
    def test_so_is_an_outage_without_a_change(self, path: Path, steps: tuple[Step, ...]) -> None:
        told = record(path, *steps)
        assert live(Recording.read(path).steps()) == told
