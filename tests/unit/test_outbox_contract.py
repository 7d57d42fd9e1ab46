"""What every queue does, in a file or in memory; and what a journal does beside that."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.outbox import Entry, Journal, MemoryQueue, Queue, SqliteOutbox, Stream, Write
from kafka_partition_events.outbox.store import MAX_DEAD_LETTERS
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, append, entry, ids

EVENTS, INCIDENTS = Stream.EVENTS, Stream.INCIDENTS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall=NOW)


@pytest.fixture(params=["memory", "sqlite"])
def outbox(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Queue]:
    made: Queue
    if request.param == "memory":
        made = MemoryQueue(clock=clock)
    else:
        made = SqliteOutbox(tmp_path / "outbox.db", clock=clock)
    yield made
    made.close()


@pytest.fixture
def journal(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteOutbox]:
    made = SqliteOutbox(tmp_path / "journal.db", clock=clock)
    yield made
    made.close()


class TestReaders:
    def test_read_what_was_appended_in_order(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        append(outbox, "1", "2")
        append(outbox, "3")
        assert ids(outbox.read("a", 2)) == ["1", "2"]
        assert ids(outbox.read("a", 10)) == ["1", "2", "3"]

    def test_get_entries_as_they_were_with_their_place(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        given = [
            entry("full", churn=True, at=NOW + timedelta(microseconds=1), recorded_at=NOW, body=b"\x00\xff"),
            entry("bare", subject=None, key="", body=b""),
        ]
        append(outbox, *given)
        got = outbox.read("a", 10)
        assert [evolve(e, seq=0) for e in got] == given
        assert 0 < got[0].seq < got[1].seq

    def test_read_their_own_stream_only(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("b", INCIDENTS)
        append(outbox, "1", entry("2", stream=INCIDENTS), "3")
        assert ids(outbox.read("a", 10)) == ["1", "3"]
        assert ids(outbox.read("b", 10)) == ["2"]

    def test_go_on_behind_their_own_cursor(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("b", EVENTS)
        append(outbox, "1", "2", "3")
        second = outbox.read("a", 10)[1]
        outbox.write(Write(cursors={"a": second.seq}))
        assert ids(outbox.read("a", 10)) == ["3"]
        assert ids(outbox.read("b", 10)) == ["1", "2", "3"]

    def test_never_go_back(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        append(outbox, "1", "2")
        last = outbox.read("a", 10)[-1]
        outbox.write(Write(cursors={"a": last.seq}))
        outbox.write(Write(cursors={"a": 0}))
        assert ids(outbox.read("a", 10)) == []

    def test_that_come_later_begin_with_the_oldest_entry_or_with_the_next(self, outbox: Queue) -> None:
        append(outbox, "1")
        outbox.subscribe("all", EVENTS)
        outbox.subscribe("new", EVENTS, from_start=False)
        append(outbox, "2")
        assert ids(outbox.read("all", 10)) == ["1", "2"]
        assert ids(outbox.read("new", 10)) == ["2"]

    def test_that_are_known_keep_their_cursor(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        append(outbox, "1", "2")
        outbox.write(Write(cursors={"a": outbox.read("a", 1)[0].seq}))
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("a", EVENTS, from_start=False)
        assert ids(outbox.read("a", 10)) == ["2"]

    def test_may_change_their_stream(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        append(outbox, "1", entry("2", stream=INCIDENTS))
        outbox.subscribe("a", INCIDENTS)
        assert ids(outbox.read("a", 10)) == ["2"]

    def test_that_are_no_longer_wanted_can_be_found_and_forgotten(self, outbox: Queue) -> None:
        outbox.subscribe("kept", EVENTS)
        outbox.subscribe("gone", INCIDENTS)
        outbox.subscribe("gone too", EVENTS)
        append(outbox, "1", entry("i", stream=INCIDENTS))
        outbox.refuse("gone", outbox.read("gone", 1)[0], "http_400")
        assert outbox.readers() == {"kept": EVENTS, "gone": INCIDENTS, "gone too": EVENTS}
        outbox.unsubscribe("gone")
        outbox.unsubscribe("gone too")
        assert outbox.readers() == {"kept": EVENTS}
        assert ids(outbox.read("kept", 10)) == ["1"]
        assert ids(d.entry for d in outbox.dead_letters("gone")) == ["i"]

    def test_that_come_back_are_new(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("b", EVENTS)  # who keeps it from being forgotten
        append(outbox, "1")
        outbox.refuse("a", outbox.read("a", 1)[0], "http_400")
        outbox.unsubscribe("a")
        outbox.subscribe("a", EVENTS)
        assert ids(outbox.read("a", 10)) == ["1"]
        assert outbox.stats("a").dead == 0

    def test_that_never_subscribed_are_a_mistake(self, outbox: Queue) -> None:
        uses: list[Callable[[], object]] = [
            lambda: outbox.read("nobody", 1),
            lambda: outbox.stats("nobody"),
            lambda: outbox.unsubscribe("nobody"),
            lambda: outbox.wait("nobody", 0),
            lambda: outbox.refuse("nobody", entry("1"), "x"),
            lambda: outbox.write(Write(entries=[entry("1")], cursors={"nobody": 1})),
        ]
        for use in uses:
            with pytest.raises(ConfigurationError, match="'nobody' is no reader of this outbox"):
                use()
        outbox.subscribe("nobody", EVENTS)
        assert outbox.read("nobody", 1) == [], "the write was to do all of it, or nothing"
        assert outbox.dead_letters() == []


class TestIds:
    def test_are_appended_once_for_each_stream(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("b", INCIDENTS)
        first = entry("1", body=b"first")
        append(outbox, first, entry("1", body=b"again"), "2")
        append(outbox, entry("1", body=b"later"), entry("1", stream=INCIDENTS))
        assert ids(outbox.read("a", 10)) == ["1", "2"]
        assert ids(outbox.read("b", 10)) == ["1"]
        assert outbox.read("a", 1)[0].body == b"first"

    def test_find_their_entry_the_journals_first(self, journal: Journal) -> None:
        append(journal, entry("1", stream=INCIDENTS), entry("2", stream=INCIDENTS), "1")
        found = [journal.entry(id_) for id_ in ("1", "2", "3")]
        assert [e and e.stream for e in found] == [EVENTS, INCIDENTS, None]


class TestWaiting:
    def test_ends_at_once_if_there_is_something(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        append(outbox, "1")
        assert outbox.wait("a", 60)

    def test_ends_with_the_time_given(self, outbox: Queue, clock: ManualClock) -> None:
        outbox.subscribe("a", EVENTS)
        answers = self.waiting(outbox, clock)
        append(outbox, entry("1", stream=INCIDENTS))  # not what it waits for
        clock.wait_for_waiters()
        clock.advance(60)
        assert answers() is False

    def test_ends_with_an_entry(self, outbox: Queue, clock: ManualClock) -> None:
        outbox.subscribe("a", EVENTS)
        answers = self.waiting(outbox, clock)
        append(outbox, "1")
        assert answers() is True

    def test_ends_when_the_outbox_is_closed(self, outbox: Queue, clock: ManualClock) -> None:
        outbox.subscribe("a", EVENTS)
        answers = self.waiting(outbox, clock)
        outbox.close()
        assert answers() is False
        assert outbox.wait("a", 60) is False

    def test_ends_when_its_reader_is_woken(self, outbox: Queue, clock: ManualClock) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("b", EVENTS)
        outbox.wake("b")
        answers = self.waiting(outbox, clock)
        outbox.wake("a")
        assert answers() is False

    def test_does_not_begin_for_who_was_woken_before_and_then_does_again(
        self, outbox: Queue, clock: ManualClock
    ) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.wake("a")
        assert outbox.wait("a", 60) is False
        answers = self.waiting(outbox, clock)
        clock.advance(60)
        assert answers() is False

    def waiting(self, outbox: Queue, clock: ManualClock) -> Callable[[], bool | None]:
        """Let a thread wait for 60 s; return a function that returns its answer once it has one."""
        answers: list[bool] = []
        thread = threading.Thread(target=lambda: answers.append(outbox.wait("a", 60)))
        thread.start()
        clock.wait_for_waiters()

        def answer() -> bool | None:
            thread.join(10)
            return answers[0] if answers else None

        return answer


class TestValues:
    def test_are_found_by_how_their_names_begin(self, journal: Journal) -> None:
        journal.write(Write(values={"topic/a": b"1", "topic/b": b"2", "topi": b"3", "topic0": b"4"}))
        assert journal.values("topic/") == {"topic/a": b"1", "topic/b": b"2"}
        assert len(journal.values("")) == 4
        assert journal.values("nodes") == {}

    def test_are_replaced_and_removed(self, journal: Journal) -> None:
        journal.write(Write(values={"a": b"1", "b": b"2"}))
        journal.write(Write(values={"a": b"3", "b": None, "never": None}))
        assert journal.values("") == {"a": b"3"}


class TestRefusedEntries:
    def test_go_to_the_dead_letters_and_the_cursor_goes_on(self, outbox: Queue, clock: ManualClock) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("b", EVENTS)
        append(outbox, "1", "2")
        clock.advance(5)
        first = outbox.read("a", 1)[0]
        outbox.refuse("a", first, "http_400")
        assert ids(outbox.read("a", 10)) == ["2"]
        assert ids(outbox.read("b", 10)) == ["1", "2"]
        [letter] = outbox.dead_letters()
        assert (letter.entry, letter.reader, letter.reason) == (first, "a", "http_400")
        assert letter.at == NOW + timedelta(seconds=5)

    def test_are_told_by_reader_in_order(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        outbox.subscribe("b", EVENTS)
        append(outbox, "1", "2")
        one, two = outbox.read("a", 10)
        outbox.refuse("a", one, "x")
        outbox.refuse("b", one, "y")
        outbox.refuse("a", two, "z")
        assert [(d.entry.id, d.reason) for d in outbox.dead_letters("a")] == [("1", "x"), ("2", "z")]
        assert [d.reader for d in outbox.dead_letters()] == ["a", "b", "a"]
        assert (outbox.stats("a").dead, outbox.stats("b").dead) == (2, 1)

    def test_are_kept_up_to_a_number_and_counted_beyond(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        for number in range(MAX_DEAD_LETTERS + 3):
            outbox.refuse("a", entry(str(number)), "x")
        kept = outbox.dead_letters()
        assert len(kept) == MAX_DEAD_LETTERS
        assert kept[0].entry.id == "3"
        assert outbox.stats("a").dead == MAX_DEAD_LETTERS + 3


class TestStats:
    def test_tell_what_waits_and_since_when(self, outbox: Queue) -> None:
        outbox.subscribe("a", EVENTS)
        later = NOW + timedelta(seconds=3)
        append(outbox, entry("0", stream=INCIDENTS), entry("1"), entry("2", recorded_at=later))
        stats = outbox.stats("a")
        assert (stats.waiting, stats.oldest, stats.dropped, stats.dead) == (2, NOW, 0, 0)
        outbox.write(Write(cursors={"a": outbox.read("a", 1)[0].seq}))
        assert (outbox.stats("a").waiting, outbox.stats("a").oldest) == (1, later)
        outbox.write(Write(cursors={"a": outbox.read("a", 1)[0].seq}))
        assert (outbox.stats("a").waiting, outbox.stats("a").oldest) == (0, None)

    def test_the_size_grows_with_what_is_kept(self, journal: SqliteOutbox) -> None:
        before = journal.size_bytes
        append(journal, entry("1", body=b"x" * 100_000))
        assert 95_000 < journal.size_bytes - before < 120_000


class TestHistory:
    @pytest.fixture(autouse=True)
    def told(self, journal: Journal) -> list[Entry]:
        entries = [
            entry("0", name="topic.created", subject="topic/a", at=NOW),
            entry("1", name="partition.offline", subject="topic/a", at=NOW + timedelta(seconds=1)),
            entry("2", name="broker.left", subject="broker/2", at=NOW + timedelta(seconds=2)),
            entry("i", stream=INCIDENTS, name="incident.opened", subject="incident/i"),
            entry("3", name="partition.online", subject="topic/b", at=NOW + timedelta(seconds=3)),
            entry("4", name="metadata.stale", subject=None, at=NOW + timedelta(seconds=4)),
        ]
        append(journal, *entries)
        return entries

    def test_is_all_of_a_stream_whoever_has_read_it(self, journal: Journal) -> None:
        journal.subscribe("a", EVENTS)
        journal.write(Write(cursors={"a": journal.read("a", 10)[-1].seq}))
        assert ids(journal.history(EVENTS)) == list("01234")
        assert ids(journal.history(INCIDENTS)) == ["i"]

    def test_between_two_moments_has_the_first_and_not_the_second(self, journal: Journal) -> None:
        since, until = NOW + timedelta(seconds=1), NOW + timedelta(seconds=3)
        assert ids(journal.history(EVENTS, since=since)) == list("1234")
        assert ids(journal.history(EVENTS, until=until)) == list("012")
        assert ids(journal.history(EVENTS, since=since, until=until)) == list("12")

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
    def test_by_name_goes_by_globs(self, journal: Journal, names: list[str], found: str) -> None:
        assert ids(journal.history(EVENTS, names=names)) == list(found)

    def test_goes_on_after_a_place_and_ends_at_a_limit(self, journal: Journal) -> None:
        first = list(journal.history(EVENTS, limit=2))
        assert ids(first) == ["0", "1"]
        assert ids(journal.history(EVENTS, after_seq=first[-1].seq, limit=2)) == ["2", "3"]
        assert ids(journal.history(EVENTS, limit=0)) == []

    def test_of_more_than_a_page_is_complete_and_keeps_its_limit(self, journal: Journal) -> None:
        append(journal, *(f"p{number}" for number in range(1200)))
        assert len(ids(journal.history(EVENTS))) == 1205
        assert ids(journal.history(EVENTS, limit=1100))[-1] == "p1094"

    def test_goes_on_while_others_write(self, journal: Journal) -> None:
        going = journal.history(EVENTS)
        assert next(going).id == "0"
        append(journal, "5")
        assert ids(going)[:4] == list("1234")


def test_a_closed_outbox_says_so_and_may_be_closed_and_woken_again(outbox: Queue) -> None:
    outbox.subscribe("a", EVENTS)
    outbox.close()
    outbox.close()
    outbox.wake("a")
    for use in (lambda: outbox.write(Write()), lambda: outbox.read("a", 1), lambda: outbox.stats("a")):
        with pytest.raises(OutboxError, match="has been closed"):
            use()


def test_threads_may_write_and_read_at_the_same_time(outbox: Queue) -> None:
    outbox.subscribe("a", EVENTS)
    errors: list[BaseException] = []

    def write(who: int) -> None:
        try:
            for number in range(50):
                append(outbox, f"{who}-{number}", f"{who}-{number}b")
        except BaseException as error:  # noqa: BLE001 - reported by the test
            errors.append(error)

    writers = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for writer in writers:
        writer.start()
    seen: list[Entry] = []
    while len(seen) < 400 and not errors:
        writing = any(writer.is_alive() for writer in writers)  # before the read, which then sees all of it
        batch = outbox.read("a", 7)
        if batch:
            outbox.write(Write(cursors={"a": batch[-1].seq}))
        seen += batch
        if not writing and not batch:
            break
    for writer in writers:
        writer.join()
    assert errors == []
    assert len(seen) == len(set(ids(seen))) == 400, "a cursor passes nothing that comes to light later"
    assert [e.seq for e in seen] == sorted(e.seq for e in seen)
