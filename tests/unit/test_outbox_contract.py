"""What an outbox does for those who write, read and keep entries."""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, append, entry, ids
from tests.threads_kit import together


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall=NOW)


@pytest.fixture
def outbox(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteOutbox]:
    made = SqliteOutbox(tmp_path / "outbox.db", clock=clock)
    yield made
    made.close()


class TestReaders:
    def test_get_entries_as_they_were_with_their_place(self, outbox: SqliteOutbox) -> None:
        outbox.subscribe("a")
        given = [
            entry("full", at=NOW + timedelta(microseconds=1), recorded_at=NOW, body=b"\x00\xff"),
            entry("bare", subject=None, key="", body=b""),
        ]
        append(outbox, *given)
        got = outbox.read("a", 10)
        assert [evolve(e, seq=0) for e in got] == given
        assert 0 < got[0].seq < got[1].seq

    def test_never_go_back(self, outbox: SqliteOutbox) -> None:
        outbox.subscribe("a")
        append(outbox, "1", "2")
        last = outbox.read("a", 10)[-1]
        outbox.write(cursors={"a": last.seq})
        outbox.write(cursors={"a": 0})
        assert ids(outbox.read("a", 10)) == []

    def test_that_are_no_longer_wanted_can_be_found_and_forgotten(self, outbox: SqliteOutbox) -> None:
        outbox.subscribe("kept")
        outbox.subscribe("gone")
        outbox.subscribe("gone too")
        append(outbox, "1", "2")
        outbox.refuse("gone", outbox.read("gone", 1)[0])
        assert outbox.readers() == ["gone", "gone too", "kept"]
        outbox.unsubscribe("gone")
        outbox.unsubscribe("gone too")
        assert outbox.readers() == ["kept"]
        assert ids(outbox.read("kept", 10)) == ["1", "2"]
        assert ids(outbox.dead_letters()) == ["1"]

    def test_that_come_back_are_new_and_begin_with_the_next_entry(self, outbox: SqliteOutbox) -> None:
        outbox.subscribe("a")
        append(outbox, "1")
        outbox.refuse("a", outbox.read("a", 1)[0])
        outbox.unsubscribe("a")
        outbox.subscribe("a")
        append(outbox, "2")
        assert ids(outbox.read("a", 10)) == ["2"]
        assert outbox.stats("a").dead == 0

    def test_that_never_subscribed_are_a_mistake(self, outbox: SqliteOutbox) -> None:
        uses: list[Callable[[], object]] = [
            lambda: outbox.read("nobody", 1),
            lambda: outbox.stats("nobody"),
            lambda: outbox.unsubscribe("nobody"),
            lambda: outbox.refuse("nobody", entry("1")),
            lambda: outbox.write([entry("1")], cursors={"nobody": 1}),
        ]
        for use in uses:
            with pytest.raises(ConfigurationError, match="'nobody' is no reader of this outbox"):
                use()
        outbox.subscribe("nobody")
        assert outbox.read("nobody", 1) == [], "the write was to do all of it, or nothing"
        assert outbox.dead_letters() == []


class TestAnIdThatIsThere:
    def test_comes_under_another_one_if_it_is_there_for_another_moment(self, outbox: SqliteOutbox) -> None:
        def seen(minute: int, **more: Any) -> Entry:
            again = entry(f"1 at {minute}", body=b"again")
            return entry("1", at=NOW + timedelta(minutes=minute), again=again, **more)

        append(outbox, seen(0), seen(1))  # one write has both if the disk was full meanwhile
        append(outbox, seen(0), entry("1", at=NOW + timedelta(minutes=2)))
        assert ids(outbox.history()) == ["1", "1 at 1"]
        for _ in range(2):  # it is not known whether the first try came through
            append(outbox, seen(2), entry("2"))
        assert [(e.id, e.body) for e in outbox.history()] == [
            ("1", b"{}"),
            ("1 at 1", b"again"),
            ("1 at 2", b"again"),
            ("2", b"{}"),
        ]


class TestStats:
    def test_tell_what_waits_and_since_when(self, outbox: SqliteOutbox) -> None:
        outbox.subscribe("a")
        later = NOW + timedelta(seconds=3)
        append(outbox, entry("1"), entry("2", recorded_at=later))
        stats = outbox.stats("a")
        assert (stats.waiting, stats.oldest, stats.dropped, stats.dead) == (2, NOW, 0, 0)
        outbox.write(cursors={"a": outbox.read("a", 1)[0].seq})
        assert (outbox.stats("a").waiting, outbox.stats("a").oldest) == (1, later)
        outbox.write(cursors={"a": outbox.read("a", 1)[0].seq})
        assert (outbox.stats("a").waiting, outbox.stats("a").oldest) == (0, None)


class TestHistory:
    @pytest.fixture(autouse=True)
    def told(self, outbox: SqliteOutbox) -> list[Entry]:
        entries = [
            entry("0", name="topic.created", subject="topic/a", at=NOW),
            entry("1", name="partition.offline", subject="topic/a", at=NOW + timedelta(seconds=1)),
            entry("2", name="broker.left", subject="broker/2", at=NOW + timedelta(seconds=2)),
            entry("3", name="partition.online", subject="topic/b", at=NOW + timedelta(seconds=3)),
            entry("4", name="metadata.stale", subject=None, at=NOW + timedelta(seconds=4)),
        ]
        append(outbox, *entries)
        return entries

    @pytest.mark.parametrize(
        ("names", "found"),
        [
            (["partition.*"], "13"),
            (["partition.o[!f]*", "*.left"], "23"),
            (["partition.offlin?"], "1"),
            (["PARTITION.*"], ""),
            (["partition"], ""),
            ([], "01234"),
        ],
    )
    def test_by_name_goes_by_globs(self, outbox: SqliteOutbox, names: list[str], found: str) -> None:
        assert ids(outbox.history(names=names)) == list(found)

    def test_goes_on_after_a_place(self, outbox: SqliteOutbox) -> None:
        second = list(outbox.history())[1]
        assert ids(outbox.history(after_seq=second.seq)) == ["2", "3", "4"]

    def test_of_more_than_a_page_is_complete(self, outbox: SqliteOutbox) -> None:
        append(outbox, *(f"p{number}" for number in range(1200)))
        assert len(ids(outbox.history())) == 1205

    def test_goes_on_while_others_write(self, outbox: SqliteOutbox) -> None:
        going = outbox.history()
        assert next(going).id == "0"
        append(outbox, "5")
        assert ids(going)[:4] == list("1234")


def test_a_closed_outbox_says_so_and_may_be_closed_again(outbox: SqliteOutbox) -> None:
    outbox.subscribe("a")
    outbox.close()
    outbox.close()
    uses: list[Callable[[], object]] = [
        outbox.write,
        lambda: outbox.read("a", 1),
        lambda: outbox.stats("a"),
        lambda: ids(outbox.history()),
    ]
    for use in uses:
        with pytest.raises(OutboxError, match="has been closed"):
            use()


def test_threads_may_write_and_read_at_the_same_time(outbox: SqliteOutbox) -> None:
    outbox.subscribe("a")
    seen: list[Entry] = []
    writing = threading.Semaphore(0)

    def write(who: int) -> None:
        try:
            for number in range(50):
                append(outbox, f"{who}-{number}", f"{who}-{number}b")
        finally:
            writing.release()

    def read() -> None:
        over = 0
        batch: Sequence[Entry] = [entry("")]
        while over < 4 or batch:
            over += writing.acquire(blocking=False)  # before the read, which then sees all of it
            batch = outbox.read("a", 7)
            if batch:
                outbox.write(cursors={"a": batch[-1].seq})
            seen.extend(batch)

    together(read, *(partial(write, who) for who in range(4)))
    assert len(seen) == len(set(ids(seen))) == 400, "a cursor passes nothing that comes to light later"
    assert [e.seq for e in seen] == sorted(e.seq for e in seen)
