"""`kpe outbox`: is the file sound, and what if not."""

from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.observe.outbox_lock import locked
from kafka_partition_events.outbox import SqliteOutbox, Write
from kafka_partition_events.testing import ManualClock

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "outbox.db"
    outbox = SqliteOutbox(path)
    outbox.write(Write(values={f"state/{number}": bytes(1000) for number in range(100)}))
    outbox.close()
    return path


def damaged(path: Path) -> bytes:
    with path.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * 8 * 4096)
    return path.read_bytes()


def kpe(command: str, path: Path) -> int:
    return run(["outbox", command, "--outbox", str(path)], Services(clock=ManualClock()))


def test_a_sound_one_is_told(path: Path, capsys: Captured) -> None:
    assert kpe("check", path) == 0
    assert capsys.readouterr().out == f"{path} is sound\n"


def test_one_that_is_in_use_can_be_checked(path: Path) -> None:
    outbox = SqliteOutbox(path)
    with locked(str(path)):
        assert kpe("check", path) == 0
    outbox.write(Write(values={"after": b"1"}))
    outbox.close()


def test_a_damaged_one_is_told_with_the_cure_and_left_as_it_is(path: Path, capsys: Captured) -> None:
    content = damaged(path)
    assert kpe("check", path) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith(f"kpe: {path} is damaged (")
    assert told.endswith("): stop the observer, then run kpe outbox set-aside\n")
    assert path.read_bytes() == content


def test_a_damaged_one_is_renamed_so_that_a_new_one_is_begun(path: Path, capsys: Captured) -> None:
    content = damaged(path)
    assert kpe("set-aside", path) == 0
    aside = Path(capsys.readouterr().out.strip())
    assert aside == path.with_name("outbox.db.corrupt-20240101T000000Z")
    assert aside.read_bytes() == content
    assert not path.exists()
    SqliteOutbox(path).close()
    assert kpe("check", path) == 0


def test_a_sound_one_is_not_renamed(path: Path, capsys: Captured) -> None:
    assert kpe("set-aside", path) == 2
    assert capsys.readouterr().err.startswith(f"kpe: {path} is sound, and was left alone; ")
    assert path.exists()


def test_one_that_an_observer_works_on_is_not_renamed(path: Path, capsys: Captured) -> None:
    damaged(path)
    with locked(str(path)):
        assert kpe("set-aside", path) == 2
    assert "another kpe observe works on" in capsys.readouterr().err
    assert path.exists()


@pytest.mark.parametrize("command", ["check", "set-aside"])
def test_that_there_is_none_is_told_and_none_is_made(command: str, tmp_path: Path, capsys: Captured) -> None:
    assert kpe(command, tmp_path / "none.db") == 2
    assert capsys.readouterr().err.startswith(f"kpe: {tmp_path}/none.db: there is no outbox; ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "set-aside"])
def test_help_has_examples_and_exit_codes(command: str, capsys: Captured) -> None:
    assert run(["outbox", command, "--help"]) == 0
    told = capsys.readouterr().out
    assert f"kpe outbox {command} --config" in told
    assert "Exit codes: 0" in told
