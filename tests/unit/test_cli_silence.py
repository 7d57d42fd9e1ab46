"""`kpe silence`: records in the outbox that keep sinks quiet."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.incidents import decode_silence
from kafka_partition_events.observe.settings import Window
from kafka_partition_events.observe.windows import keep_windows
from kafka_partition_events.outbox import SqliteOutbox
from kafka_partition_events.testing import ManualClock
from tests.control_kit import EVIL, SHOWN
from tests.outbox_kit import scratch_journal

Captured = pytest.CaptureFixture[str]
ADD = ("add", "--broker", "2", "--for", "2h", "--reason", "new disks", "--author", "noc")

SUNDAY = Window(name="sunday", reason="updates", weekly=("sun", "02:30"), lasts=5_400.0, broker=2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "outbox.db"
    SqliteOutbox(path).close()
    return path


@pytest.fixture
def kpe(path: Path) -> Callable[..., int]:
    def command(name: str, *arguments: str) -> int:
        return run(["silence", name, "--outbox", str(path), *arguments], Services(clock=ManualClock()))

    return command


def records(path: Path) -> dict[str, bytes]:
    with contextlib.closing(SqliteOutbox(path)) as outbox:
        return dict(outbox.values("silence/"))


def test_add_writes_a_record_and_tells_its_id(path: Path, kpe: Callable[..., int], capsys: Captured) -> None:
    assert kpe(*ADD) == 0
    id_ = capsys.readouterr().out.strip()
    ((name, record),) = records(path).items()
    assert name == f"silence/{id_}"
    silence = decode_silence(record)
    assert (silence.broker, silence.author, silence.reason) == (2, "noc", "new disks")
    assert silence.until is not None
    assert (silence.until - silence.since).total_seconds() == 7_200


def test_the_author_is_the_user_unless_told_otherwise(
    path: Path, kpe: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "alice")
    assert kpe("add", "--topics", "test-.*", "--for", "1d", "--reason", "load test") == 0
    (record,) = records(path).values()
    assert decode_silence(record).author == "alice"


def test_a_dry_run_shows_the_record_and_writes_nothing(
    path: Path, kpe: Callable[..., int], capsys: Captured
) -> None:
    assert kpe(*ADD, "--dry-run") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["reason"] == "new disks"
    assert told.err == "kpe: note: nothing was written; it would be\n"
    assert records(path) == {}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--for", "2h", "--reason", "r"],
            "say what is to be muted: --topics, --broker, --cluster or --event",
        ),
        (["--broker", "2", "--for", "2h", "--reason", " "], "reason is required"),
        (["--broker", "2", "--for", "2h"], "Missing option '--reason'"),
        (["--broker", "2", "--for", "soon", "--reason", "r"], "'soon' is not a duration"),
        (["--topics", "(", "--for", "1h", "--reason", "r"], "is no regular expression"),
    ],
)
def test_a_silence_that_makes_no_sense(
    arguments: list[str], complaint: str, path: Path, kpe: Callable[..., int], capsys: Captured
) -> None:
    assert kpe("add", "--author", "noc", *arguments) == 2
    told = capsys.readouterr()
    assert complaint in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert records(path) == {}


def test_ls(path: Path, kpe: Callable[..., int], capsys: Captured) -> None:
    with contextlib.closing(SqliteOutbox(path)) as outbox:
        keep_windows(outbox, [SUNDAY])
    assert kpe(*ADD) == 0
    id_ = capsys.readouterr().out.strip()
    assert kpe("ls", "--output", "table") == 0
    silence, window = sorted(capsys.readouterr().out.splitlines(), key=lambda line: "window" in line)
    assert silence.split(maxsplit=5) == [id_, "until", "2024-01-01", "02:00Z", "broker=2", "noc: new disks"]
    assert window.split(maxsplit=7) == [
        "window.sunday", "each", "sun", "02:30", "90min", "broker=2", "event=*", "configuration: updates",
    ]  # fmt: skip
    assert kpe("ls") == 0
    assert {json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()} == {
        id_,
        "window.sunday",
    }


def test_a_reason_that_is_made_for_a_terminal_is_shown_and_not_obeyed(
    kpe: Callable[..., int], capsys: Captured
) -> None:
    assert kpe("add", "--broker", "2", "--for", "2h", "--reason", EVIL, "--author", EVIL) == 0
    capsys.readouterr()
    assert kpe("ls", "--output", "table") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(f"  {SHOWN}: {SHOWN}")


def test_rm(path: Path, kpe: Callable[..., int], capsys: Captured) -> None:
    assert kpe(*ADD) == 0
    id_ = capsys.readouterr().out.strip()
    assert kpe("rm", id_, "--dry-run") == 0
    assert json.loads(capsys.readouterr().out)["id"] == id_
    assert len(records(path)) == 1
    assert kpe("rm", id_) == 0
    assert records(path) == {}
    assert kpe("rm", id_) == 2
    assert capsys.readouterr().err == f"kpe: there is no silence {id_}; see `kpe silence ls`\n"


def test_a_window_of_the_configuration_is_not_removed_here(
    path: Path, kpe: Callable[..., int], capsys: Captured
) -> None:
    with contextlib.closing(SqliteOutbox(path)) as outbox:
        keep_windows(outbox, [SUNDAY])
    assert kpe("rm", "window.sunday") == 2
    assert "is the window sunday of the configuration" in capsys.readouterr().err
    assert len(records(path)) == 1


def test_windows_come_and_go_with_the_configuration_and_leave_other_silences_alone() -> None:
    outbox = scratch_journal()
    keep_windows(outbox, [SUNDAY])
    keep_windows(outbox, [Window(name="monday", reason="r", weekly=("mon", "00:00"), lasts=60.0)])
    ((key, record),) = outbox.values("silence/").items()
    silence = decode_silence(record)
    assert (key, silence.name, silence.until) == ("silence/window.monday", "*", None)
    assert silence.weekly == "mon 00:00 1min"
    keep_windows(outbox, [])
    assert outbox.values("silence/") == {}
    outbox.close()


@pytest.mark.parametrize("command", ["add", "ls", "rm"])
def test_every_command_documents_its_exit_codes_and_has_examples(command: str, capsys: Captured) -> None:
    assert run(["silence", command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 " in text
    assert f"\n  kpe silence {command} " in text
