"""The outbox in a file: bounds, restarts, and files that are not as they should be."""

import fcntl
import math
import sqlite3
import stat
import struct
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.outbox import SqliteOutbox, sqlite_schema
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, append, entry, ids

KIB = 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def opened(path: Path | str, **options: Any) -> SqliteOutbox:
    """Open an outbox at a time when the entries of these tests are new."""
    return SqliteOutbox(path, **{"clock": ManualClock(wall=NOW)} | options)


def filled(path: Path, entries: int = 200) -> Path:
    """Make an outbox with so many entries of about 1 KiB and close it."""
    outbox = opened(path)
    outbox.subscribe("a")
    append(outbox, *(entry(f"{number}", body=b"x" * KIB) for number in range(entries)))
    outbox.close()
    return path


class TestRestart:
    def test_gives_no_place_away_twice_even_if_nothing_is_left(self, path: Path) -> None:
        clock = ManualClock(wall=NOW)
        outbox = opened(path, max_age_s=10, clock=clock)
        outbox.subscribe("a")
        append(outbox, "1", "2")
        outbox.write(cursors={"a": outbox.read("a", 10)[-1].seq})
        clock.advance(60)
        outbox.unsubscribe("a")
        append(outbox, entry("old", at=NOW))  # drops all, itself included: no reader waits for it
        assert ids(outbox.history()) == []
        outbox.subscribe("a")
        outbox.close()
        again = opened(path, clock=clock)
        append(again, entry("3", at=clock.now()))
        assert ids(again.read("a", 10)) == ["3"]
        again.close()

    def test_in_another_directory_does_not_move_the_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        outbox = opened("outbox.db")
        append(outbox, "1")
        monkeypatch.chdir("/")
        assert ids(outbox.history()) == ["1"]
        outbox.close()


def test_nobody_else_may_read_what_brokers_are_called(path: Path) -> None:
    with closing(opened(path)) as outbox:
        append(outbox, entry("a"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob(f"{path.name}*")}
    assert set(modes.values()) == {0o600}, modes
    assert len(modes) == 4


def test_a_second_outbox_in_one_process_ends_no_lock_of_the_first(path: Path) -> None:
    """The locks of a process on a file end when it closes any descriptor of it (fcntl(2))."""
    with closing(opened(path)) as first, path.open("rb+") as file:
        append(first, "1")
        opened(path).close()
        wanted = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
        held, *_ = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_OFD_GETLK, wanted))
        assert held == fcntl.F_RDLCK


def test_it_may_be_made_where_a_link_leads(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere.db"))
    with closing(opened(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


class TestBoundOfSize:
    def test_takes_the_oldest_and_their_dead_letters(self, path: Path) -> None:
        outbox = opened(path, max_bytes=350 * KIB)
        outbox.subscribe("a")
        append(outbox, *(entry(f"d{number}", body=b"x" * KIB) for number in range(100)))
        for each in outbox.read("a", 100):
            outbox.refuse("a", each)
        append(outbox, *(entry(f"{number}", body=b"x" * KIB) for number in range(200)))
        left = ids(outbox.history())
        assert left == [*(f"d{n}" for n in range(300 - len(left), 100)), *map(str, range(200))]
        assert 0 < len(left) - 200 == len(outbox.dead_letters())
        assert outbox.stats("a").dead == 100
        outbox.close()

    def test_is_not_kept_by_who_only_writes_values(self, path: Path) -> None:
        """Another process may not know the bounds of the service."""
        filled(path)
        other = opened(path, max_bytes=1, max_age_s=1e-6)
        other.write(values={"small/1": b"{}"})
        assert len(ids(other.history())) == 200
        other.close()

    def test_that_nothing_can_meet_lets_writes_through_all_the_same(self, path: Path) -> None:
        outbox = opened(path, max_bytes=1)
        outbox.subscribe("a")
        with capture_logs() as logs:
            for id_ in "12":
                outbox.write([entry(id_)], values={"v": b"x" * 100_000})
                assert ids(outbox.read("a", 10)) == [id_], "it is there to be delivered until the next one"
        assert outbox.stats("a").dropped == 1
        assert len(outbox.values("v")) == 1
        assert [log["event"] for log in logs] == ["outbox_too_small"]
        outbox.close()


class TestBoundOfAge:
    def test_lets_go_what_no_reader_waits_for(self, path: Path) -> None:
        clock = ManualClock(wall=NOW)
        outbox = opened(path, max_age_s=60, clock=clock)
        append(outbox, *(entry(f"old{i}") for i in range(250)))
        clock.advance(60)
        append(outbox, entry("on time", at=clock.now()))
        assert len(ids(outbox.history())) == 251, "60 s are not more than 60 s"
        clock.advance(0.001)
        append(outbox, entry("new", at=clock.now()))
        assert ids(outbox.history()) == ["on time", "new"]
        outbox.close()

    def test_keeps_what_a_reader_waits_for(self, path: Path) -> None:
        clock = ManualClock(wall=NOW)
        outbox = opened(path, max_age_s=60, clock=clock)
        for reader in ("a", "b"):
            outbox.subscribe(reader)
        append(outbox, "1", "2", "3")
        seqs = [each.seq for each in outbox.history()]
        outbox.write(cursors={"a": seqs[2], "b": seqs[1]})
        clock.set_back(-8 * 86_400.0)
        append(outbox, entry("new", at=clock.now()))
        assert ids(outbox.history()) == ["3", "new"], "its age may be the doing of a clock that was set"
        assert outbox.stats("b").dropped == 0
        outbox.close()

    def test_may_be_for_ever(self, path: Path) -> None:
        with closing(opened(path, max_age_s=math.inf)) as outbox:
            append(outbox, "1", "2")
            assert ids(outbox.history()) == ["1", "2"]

    def test_is_not_lifted_by_one_entry_from_a_clock_that_was_ahead(self, path: Path) -> None:
        clock = ManualClock(wall=NOW)
        outbox = opened(path, max_age_s=60, clock=clock)
        append(outbox, entry("ahead", at=NOW + timedelta(days=9)), *(f"old{i}" for i in range(250)))
        clock.advance(61)
        append(outbox, entry("new", at=clock.now()))
        assert ids(outbox.history()) == ["ahead", "new"]
        outbox.close()


@pytest.mark.parametrize("bounds", [{"max_bytes": 0}, {"max_age_s": 0}, {"max_age_s": -1.0}])
def test_bounds_must_leave_room(path: Path, bounds: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="max_bytes and max_age_s must be more than 0"):
        opened(path, **bounds)
    assert not path.exists()


class TestWriteErrors:
    def test_a_full_disk_is_told_nothing_is_half_written_and_room_is_used_again(self, path: Path) -> None:
        outbox = opened(path)
        outbox.subscribe("a")
        [pages] = outbox._db.execute("PRAGMA page_count").fetchone()
        outbox._db.execute(f"PRAGMA max_page_count = {pages + 20}")
        large = [entry(f"{i}", body=b"x" * KIB) for i in range(200)]
        with pytest.raises(OutboxError, match="no room on the disk: make some") as refusal:
            outbox.write(large, values={"v": b"1"})
        assert str(path) in str(refusal.value)
        assert (ids(outbox.history()), outbox.values("")) == ([], {})
        outbox._db.execute("PRAGMA max_page_count = 1000000")
        outbox.write(large, values={"v": b"1"})
        assert len(outbox.read("a", 1000)) == 200
        outbox.close()

    def test_a_file_that_is_locked_for_too_long_is_told(self, path: Path) -> None:
        outbox = opened(path)
        outbox._db.execute("PRAGMA busy_timeout = 1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutboxError, match="another process has held it"):
            append(outbox, "1")
        other.execute("ROLLBACK")
        other.close()
        append(outbox, "1")
        assert ids(outbox.history()) == ["1"]
        outbox.close()

    def test_a_file_that_must_not_be_written_is_told(self, path: Path) -> None:
        outbox = opened(path)
        outbox._db.execute("PRAGMA query_only = 1")
        with pytest.raises(OutboxError, match="can't be written: give this user the right"):
            append(outbox, "1")
        outbox.close()


def overwritten(path: Path, offset: int, length: int) -> Path:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * length)
    return path


def text(path: Path) -> Path:
    path.write_text("this is not an outbox\n" * 100)
    return path


DAMAGES: dict[str, Callable[[Path], Path]] = {
    "header": lambda path: overwritten(filled(path), 0, 100),
    "first page": lambda path: overwritten(filled(path), 100, 3000),
    "middle": lambda path: overwritten(filled(path), 40 * 4096, 200 * 4096),
    "text": text,
}


class TestDamagedFile:
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_is_named_with_a_cure_when_it_is_met_and_left_as_it_is(self, path: Path, damage: str) -> None:
        content = DAMAGES[damage](path).read_bytes()
        with pytest.raises(OutboxError, match=r"damaged, or no outbox at all") as refusal:
            use_everything(opened(path))
        assert str(path) in str(refusal.value)
        assert "move it away with its -wal and -shm" in str(refusal.value)
        assert path.read_bytes() == content


def use_everything(outbox: SqliteOutbox) -> None:
    """Read and write all of it: damage that opening did not meet is met here."""
    try:
        list(outbox.history())
        outbox.stats("a")
        append(outbox, *(entry(f"new{i}", body=b"x" * KIB) for i in range(200)))
        outbox.values("")
        outbox.dead_letters()
    finally:
        outbox.close()


class TestFileThatIsNoOutbox:
    def test_of_another_application_is_left_alone(self, path: Path) -> None:
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE songs (title)")
        db.close()
        content = path.read_bytes()
        with pytest.raises(OutboxError, match="is the SQLite file of another application"):
            opened(path)
        assert path.read_bytes() == content

    def test_of_a_newer_version_is_left_alone(self, path: Path) -> None:
        with sqlite3.connect(filled(path)) as db:
            db.execute("PRAGMA user_version = 4")
        db.close()
        with pytest.raises(OutboxError, match=r"newer kafka-partition-events \(its format is 4, .* 3\)"):
            opened(path)
        with sqlite3.connect(path) as db:
            assert db.execute("SELECT count(*) FROM entries").fetchone() == (200,)
        db.close()

    @pytest.mark.parametrize(
        ("place", "told"),
        [
            ("", "is a directory: give the path of a file in it"),
            ("absent/outbox.db", "No such file or directory: give a file in a directory that"),
            ("x" * 300, "File name too long: give a file in a directory that"),  # the path can't be asked for
        ],
    )
    def test_in_no_place_for_one_is_told(self, tmp_path: Path, place: str, told: str) -> None:
        with pytest.raises(OutboxError, match=told):
            opened(tmp_path / place)

    @pytest.mark.parametrize(
        ("leads_to", "told"),
        [
            ("absent/outbox.db", "No such file or directory: give a file .* no link to nowhere"),
            ("outbox.db", "can't be opened: .* no link to nowhere"),
        ],
    )
    def test_behind_a_link_to_nowhere_is_told(self, path: Path, leads_to: str, told: str) -> None:
        path.symlink_to(path.parent / leads_to)
        with pytest.raises(OutboxError, match=told):
            opened(path)

    def test_but_empty_becomes_one(self, path: Path) -> None:
        path.touch()
        outbox = opened(path)
        append(outbox, "1")
        assert ids(outbox.history()) == ["1"]
        outbox.close()


PLANS = {
    "read": ("READ", (5, 10), "USING INTEGER PRIMARY KEY (rowid>?)"),
    "stats": ("COUNT_AFTER", (5,), "USING INTEGER PRIMARY KEY (rowid>?)"),
    "dead letters": ("DEAD_LETTERS", (), "USING INDEX entries_refused (refused=?)"),
    "oldest": ("RECORDED_AFTER", (5,), "USING INTEGER PRIMARY KEY (rowid>?)"),
}


@pytest.mark.parametrize("use", PLANS)
def test_what_is_done_often_goes_by_an_index_and_sorts_nothing(path: Path, use: str) -> None:
    name, parameters, by_index = PLANS[use]
    outbox = opened(path)
    plan = outbox._db.execute(f"EXPLAIN QUERY PLAN {getattr(sqlite_schema, name)}", parameters).fetchall()
    outbox.close()
    assert [detail.split(maxsplit=2)[2] for *_, detail in plan] == [by_index]
