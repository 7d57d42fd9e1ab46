"""Recording what a poller tells, and living through it again."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.names import name_of
from kafka_partition_events.listeners import RecorderListener
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.codec import CodecError, decode_snapshot
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


def documents(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def moves(count: int, start: Cluster) -> tuple[ev.Event, ...]:
    """Return elections of partition 0 of ``orders``, back and forth."""
    told: list[ev.Event] = []
    for number in range(1, count + 1):
        moved = cluster_of({"orders": [1 + number % 2]}, brokers=[1, 2], generation=start.generation + number)
        told += diff(apply(start, told), moved, first_sequence=start.generation + number)
    return tuple(told)


UP = cluster_of({"orders": [1]}, brokers=[1, 2])
BEGINNING = diff(EMPTY, UP, initial=True)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow beyond a size, as on a disk that is full: a write takes what fits, then fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestWhatIsWritten:
    def test_a_snapshot_and_then_an_event_a_line(self, path: Path) -> None:
        told = live(STORY, recorder := RecorderListener(path))
        head, *lines = documents(path)
        assert decode_snapshot(head).cluster == EMPTY
        assert [line["kind"] for line in lines] == [event.kind for event in told]
        assert (recorder.stats.recorded, recorder.stats.lost) == (len(told), 0)

    @pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
    def test_every_event_can_be_read_back(self, path: Path, event: ev.Event) -> None:
        event.deliver(recorder := RecorderListener(path))
        recorder.close()
        assert Recording.read(path) == Recording(start=EMPTY, events=(event,))

    def test_each_line_is_there_as_soon_as_the_listener_has_returned(self, path: Path) -> None:
        recorder = RecorderListener(path)
        for number, event in enumerate(BEGINNING, 1):
            event.deliver(recorder)
            assert len(Recording.read(path).events) == number
        recorder.close()

    def test_without_a_replay_it_begins_with_the_snapshot_that_it_is_given(self, path: Path) -> None:
        recorder = RecorderListener(path, start=UP)
        for event in moves(3, UP):
            event.deliver(recorder)
        recorder.close()
        assert Recording.read(path) == Recording(start=UP, events=moves(3, UP))

    @pytest.mark.parametrize("options", [{"max_bytes": 0}, {"backups": -1}])
    def test_options_that_make_no_sense_are_refused(self, path: Path, options: dict[str, int]) -> None:
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            RecorderListener(path, **options)  # type: ignore[arg-type]


class TestAProcessThatDied:
    def test_its_successor_goes_on_in_the_same_file_and_says_that_it_starts_anew(self, path: Path) -> None:
        first = live(STORY[:1], RecorderListener(path))
        second = live(STORY[-1:], RecorderListener(path))
        read = Recording.read(path)
        resync = read.events[len(first)]
        assert isinstance(resync, ev.Resync)
        assert (resync.cluster, resync.dropped) == (EMPTY, 0)
        assert read.events == (*first, resync, *second)
        assert apply(read.start, read.events) == apply(EMPTY, second)

    def test_a_line_that_it_was_writing_is_passed_over_by_the_reader(self, path: Path) -> None:
        told = live(STORY[:1], RecorderListener(path))
        path.write_bytes(path.read_bytes()[:-7])
        assert Recording.read(path).events == told[:-1]

    @pytest.mark.parametrize("torn", [7, 100_000], ids=["short", "longer than a block"])
    def test_that_line_is_removed_by_its_successor(self, path: Path, torn: int) -> None:
        told = live(STORY[:1], RecorderListener(path))
        with path.open("ab") as file:
            file.write(b"x" * torn)
        live(STORY[:1], RecorderListener(path))
        assert Recording.read(path).events[: len(told)] == told
        assert len(documents(path)) == 1 + len(told) + 1 + len(told)

    def test_if_it_was_the_first_line_the_recording_begins_anew(self, path: Path) -> None:
        path.write_bytes(b'{"format": "kpe.sn')
        told = live(STORY[:1], RecorderListener(path))
        assert Recording.read(path) == Recording(start=EMPTY, events=told)


class TestADiskThatIsFull:
    def test_events_are_lost_and_counted_and_the_file_stays_whole(self, path: Path) -> None:
        recorder = RecorderListener(path)
        with room_for(1_000), capture_logs() as logs:
            for event in (*BEGINNING, *moves(9, UP)):
                event.deliver(recorder)
        stats = recorder.stats
        recorder.close()
        assert (stats.recorded > 0, stats.lost > 0) == (True, True)
        assert stats.recorded + stats.lost == len(BEGINNING) + 9
        assert "File too large" in str(stats.last_error)
        assert len(Recording.read(path).events) == stats.recorded
        assert [log["event"] for log in logs] == ["event_not_recorded"]

    def test_when_there_is_room_again_a_resync_says_how_many_are_missing(self, path: Path) -> None:
        recorder = RecorderListener(path)
        elections = moves(9, UP)
        with room_for(1_000), capture_logs():
            for event in (*BEGINNING, *elections[:-1]):
                event.deliver(recorder)
        lost = recorder.stats.lost
        with capture_logs() as logs:
            elections[-1].deliver(recorder)
        recorder.close()
        read = Recording.read(path)
        resync = read.events[-2]
        assert isinstance(resync, ev.Resync)
        assert resync.dropped == lost > 0
        assert resync.cluster == apply(UP, elections[:-1])
        assert read.events[-1] == elections[-1]
        assert apply(read.start, read.events) == apply(UP, elections)
        assert logs == [
            {"event": "recording_resumed", "log_level": "warning", "path": str(path), "lost": lost}
        ]

    def test_each_time_that_it_is_full_counts_for_itself(self, path: Path) -> None:
        recorder = RecorderListener(path)
        elections = iter(moves(9, UP))
        with capture_logs() as logs:
            for event in BEGINNING:
                event.deliver(recorder)
            for missing in (2, 1):
                with room_for(1):
                    for _ in range(missing):
                        next(elections).deliver(recorder)
                next(elections).deliver(recorder)
        recorder.close()
        resyncs = [event for event in Recording.read(path).events if isinstance(event, ev.Resync)]
        assert [event.dropped for event in resyncs] == [2, 1]
        assert [log["event"] for log in logs] == ["event_not_recorded", "recording_resumed"] * 2
        assert recorder.stats.lost == 3

    def test_a_directory_that_is_missing_costs_events_until_it_is_there(self, tmp_path: Path) -> None:
        path = tmp_path / "later" / "events.jsonl"
        recorder = RecorderListener(path)
        for event in BEGINNING:
            event.deliver(recorder)
        assert recorder.stats.lost == len(BEGINNING)
        path.parent.mkdir()
        (election,) = moves(1, UP)
        election.deliver(recorder)
        recorder.close()
        assert Recording.read(path) == Recording(start=UP, events=(election,))

    def test_an_event_of_the_users_own_that_is_no_json_is_lost_alone(self, path: Path) -> None:
        @attrs.frozen(kw_only=True)
        class Odd(ev.Event):
            kind = "odd"
            thing: object

        recorder = RecorderListener(path)
        for event in (BEGINNING[0], Odd(thing=object()), BEGINNING[1]):
            event.deliver(recorder)
        recorder.close()
        assert (recorder.stats.recorded, recorder.stats.lost) == (2, 1)
        assert [event.kind for event in Recording.read(path).events] == [
            "broker_added",
            "resync",
            "broker_added",
        ]


class TestRotation:
    def test_a_file_that_is_full_becomes_a_backup_and_the_next_one_begins_where_it_ended(
        self, path: Path
    ) -> None:
        recorder = RecorderListener(path, max_bytes=2_000, backups=2)
        told = (*BEGINNING, *moves(30, UP))
        for event in told:
            event.deliver(recorder)
        recorder.close()
        files = sorted(path.parent.iterdir(), reverse=True)
        assert [file.name for file in files] == ["events.jsonl.2", "events.jsonl.1", "events.jsonl"]
        read = [Recording.read(file) for file in files]
        kept = tuple(event for recording in read for event in recording.events)
        assert kept == told[-len(kept) :]
        for earlier, later in pairwise(read):
            assert later.start == apply(earlier.start, earlier.events)
            assert later.start.generation == earlier.events[-1].generation
        for file in files:
            _snapshot, *lines = file.read_bytes().splitlines(keepends=True)
            assert sum(map(len, lines)) <= 2_000

    def test_an_event_that_is_too_large_has_a_file_for_itself(self, path: Path) -> None:
        recorder = RecorderListener(path, max_bytes=1, backups=9)
        told = (*BEGINNING, *moves(3, UP))
        for event in told:
            event.deliver(recorder)
        recorder.close()
        files = sorted(path.parent.iterdir(), reverse=True)
        assert [Recording.read(file).events for file in files] == [(event,) for event in told]

    def test_without_backups_the_old_file_is_dropped(self, path: Path) -> None:
        recorder = RecorderListener(path, max_bytes=1, backups=0)
        told = (*BEGINNING, *moves(3, UP))
        for event in told:
            event.deliver(recorder)
        recorder.close()
        assert [*path.parent.iterdir()] == [path]
        assert Recording.read(path).events == told[-1:]

    def test_a_file_that_was_full_before_the_process_began_becomes_a_backup_at_once(self, path: Path) -> None:
        first = live(STORY[:1], RecorderListener(path))
        told = live(STORY[:1], RecorderListener(path, max_bytes=path.stat().st_size))
        assert Recording.read(path.with_name("events.jsonl.1")).events[: len(first)] == first
        assert Recording.read(path) == Recording(start=EMPTY, events=told)


class TestReading:
    def test_what_does_not_begin_with_a_snapshot_is_no_recording(self, path: Path) -> None:
        path.write_bytes(b"")
        with pytest.raises(CodecError, match="does not begin with a snapshot"):
            Recording.read(path)
        path.write_bytes(b'{"kind": "resync"}\n')
        with pytest.raises(CodecError, match=r"line 1: not a snapshot"):
            Recording.read(path)

    @pytest.mark.parametrize("damage", [b"not json\n", b"7\n", b'{"kind": "broker_added"}\n'])
    def test_a_damaged_line_is_named(self, path: Path, damage: bytes) -> None:
        live(STORY[:1], RecorderListener(path))
        head, _, *rest = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([head, damage, *rest]))
        with pytest.raises(CodecError, match="line 2"):
            Recording.read(path)

    def test_events_of_a_later_version_are_passed_over_and_counted(self, path: Path) -> None:
        told = live(STORY[:1], RecorderListener(path))
        with path.open("ab") as file:
            file.write(b'{"kind": "rack_lost", "rack": "r1"}\n')
        read = Recording.read(path)
        assert (read.events, read.unknown) == (told, 1)


class TestReplaying:
    def test_to_a_listener_each_event_comes_by_its_own_method(self, path: Path) -> None:
        told = live(STORY, RecorderListener(path))
        offline: list[ev.Event] = []

        class Watching(RecordingListener):
            def on_partition_offline(self, event: ev.PartitionOffline) -> None:
                offline.append(event)

        listener = Watching()
        Recording.read(path).play(listener)
        assert tuple(offline) == tuple(e for e in told if isinstance(e, ev.PartitionOffline))
        assert listener.events == tuple(e for e in told if e not in offline)

    def test_a_poller_lives_through_the_same_story(self, path: Path) -> None:
        told = live(STORY, RecorderListener(path))
        again = live(Recording.read(path).steps())
        assert again == told
        assert {type(event) for event in told} >= {
            ev.TopicRemoved, ev.TopicRecreated, ev.TopicAdded, ev.PartitionsAdded, ev.PartitionOffline,
            ev.PartitionOnline, ev.LeaderChanged, ev.BrokerRemoved, ev.BrokerAdded,
            ev.MetadataUnavailable, ev.MetadataRecovered, ev.MetadataRejected,
        }  # fmt: skip

    def test_the_source_plays_those_steps(self, path: Path) -> None:
        live(STORY, RecorderListener(path))
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
        live(STORY[:5], RecorderListener(path))
        live(STORY[-1:], RecorderListener(path))
        told = live(Recording.read(path).steps())
        assert apply(EMPTY, told) == cluster_of({"orders": [1, 2], "new": [3]}, brokers=[1, 2, 3])
        assert ev.Rejection.NO_BROKERS not in {getattr(event, "reason", None) for event in told}

    @pytest.mark.parametrize(
        "steps", [(DOWN, DOWN, STORY[0]), (STORY[0], DOWN, DOWN, STORY[0]), (STORY[0], DOWN)],
        ids=["at the beginning", "at the end", "without end"],
    )  # fmt: skip
    def test_so_is_an_outage_without_a_change(self, path: Path, steps: tuple[Step, ...]) -> None:
        told = live(steps, RecorderListener(path))
        assert live(Recording.read(path).steps()) == told
