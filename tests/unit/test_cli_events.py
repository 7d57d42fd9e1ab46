"""`kpe events`: what the outbox holds, to be read, followed, and delivered once more."""

import contextlib
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.events import replay as replaying
from kafka_partition_events.cli.events.recorded import parse_moment
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.outbox import DeliveryError, Entry, SqliteOutbox
from kafka_partition_events.outbox.sqlite_file import connect
from kafka_partition_events.testing import ManualClock
from tests.outbox_kit import NOW, ScriptedSink, entry

Captured = pytest.CaptureFixture[str]
Command = Callable[..., int]


def event(id_: str, minutes_ago: float = 0.0, **fields: Any) -> Entry:
    document = {"id": id_, "data": {"topic": "orders"}}
    moment = NOW - timedelta(minutes=minutes_ago)
    return entry(id_, at=moment, body=json.dumps(document).encode(), **fields)


HISTORY = (
    event("a", 90, name="topic.created", subject="topic/orders"),
    event("b", 60, name="partition.offline", subject="topic/orders/1"),
    event("c", 30, name="partition.online", subject="topic/orders/1"),
    event("d", 20, name="partition.offline", subject="topic/payments/0"),
    event("e", 10, name="broker.left", subject="broker/2"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "outbox.db"
    with contextlib.closing(SqliteOutbox(path, clock=ManualClock())) as outbox:
        outbox.subscribe("pager")
        outbox.write(HISTORY)
        for buried in outbox.read("pager", 2):
            outbox.refuse("pager", buried)
    return path


@pytest.fixture
def kpe(path: Path) -> Command:
    def command(name: str, *arguments: str, clock: ManualClock | None = None) -> int:
        services = Services(clock=clock or ManualClock())
        return run(["events", name, "--outbox", str(path), *arguments], services)

    return command


def told_ids(capsys: Captured) -> list[str]:
    return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]


# -- ls ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], "abcde"),
        (["--since", "45m"], "cde"),
        (["--until", "45m"], "ab"),
        (["--since", "2023-12-31T23:00:00Z", "--until", "2023-12-31T23:40"], "bc"),
        (["--type", "partition.*"], "bcd"),
        (["--type", "broker.left", "--type", "topic.*"], "ae"),
        (["--topics", "orders"], "abc"),
        (["--topics", ".*"], "abcd"),
        (["--topics", "order"], ""),
        (["--dead"], "ab"),
    ],
)
def test_ls_lists_what_is_asked_for(options: list[str], ids: str, kpe: Command, capsys: Captured) -> None:
    assert kpe("ls", *options) == 0
    assert told_ids(capsys) == list(ids)


def test_ls_in_words(kpe: Command, capsys: Captured) -> None:
    assert kpe("ls", "--type", "broker.*", "--output", "table") == 0
    headers, line = capsys.readouterr().out.splitlines()
    assert headers.split() == ["TIME", "EVENT", "SUBJECT", "ID"]
    assert line.split() == ["2023-12-31", "23:50:00.000Z", "broker.left", "broker/2", "e"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--since", "yesterday"], "'yesterday' is no time; write how long ago"),
        (["--since", "36526d"], "'36526d' is no time; write how long ago (30m, 7d; 100 years at most)"),
        (["--dead", "--type", "x"], "--dead goes alone"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(
    options: list[str], complaint: str, kpe: Command, capsys: Captured
) -> None:
    assert kpe("ls", *options) == 2
    told = capsys.readouterr()
    assert complaint in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


def test_an_outbox_that_is_not_there_is_not_made(tmp_path: Path, capsys: Captured) -> None:
    nowhere = tmp_path / "nosuch.db"
    assert run(["events", "ls", "--outbox", str(nowhere)]) == 2
    said = (
        f"kpe: {nowhere}: there is no outbox to be read (No such file or directory); kpe observe makes one."
    )
    assert capsys.readouterr().err.startswith(said)
    assert not nowhere.exists()


def test_an_outbox_that_can_not_be_reached_is_told(tmp_path: Path, capsys: Captured) -> None:
    """As one in a directory that this user may not enter; tests may run as root, who may enter all."""
    assert run(["events", "ls", "--outbox", str(tmp_path / ("x" * 300))]) == 2
    told = capsys.readouterr().err
    assert "to be read (File name too long)" in told
    assert told.count("\n") == 1


def test_an_entry_that_is_damaged_is_told_with_a_cure(path: Path, kpe: Command, capsys: Captured) -> None:
    with contextlib.closing(connect(path)) as db:
        db.execute("UPDATE entries SET body = x'00ff7b' WHERE id = 'b'")
    assert kpe("ls") == 2
    told = capsys.readouterr()
    assert told.out.count("\n") == 1, "what lies before it"
    assert told.err.startswith(f"kpe: {path}: it is damaged, or no outbox at all: restore it from a copy, or")


def test_the_configuration_names_the_outbox(path: Path, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "kpe.toml").write_text(f'[outbox]\npath = "{path}"\n')
    assert run(["events", "ls", "--config", str(tmp_path / "kpe.toml")]) == 0
    assert told_ids(capsys) == list("abcde")


def test_a_moment_is_how_long_ago_or_a_time() -> None:
    assert parse_moment("90m", NOW) == NOW - timedelta(minutes=90)
    assert parse_moment("2024-01-01T02:00:00+02:00", NOW) == NOW
    assert parse_moment("2024-01-01", NOW) == NOW
    with pytest.raises(CliError):
        parse_moment("9999999999d", NOW)


# -- follow ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("since", "told"), [(("--since", "15m"), ["e", "f"]), ((), ["f"])])
def test_follow_shows_what_comes(
    path: Path, kpe: Command, capsys: Captured, since: tuple[str, ...], told: list[str]
) -> None:
    """What happened before it began and is recorded later comes, too."""
    clock, codes, words = ManualClock(), [], ("follow", *since, "--for", "5s")
    following = threading.Thread(target=lambda: codes.append(kpe(*words, clock=clock)))
    following.start()
    clock.wait_for_waiters(1)
    with contextlib.closing(SqliteOutbox(path, clock=clock)) as outbox:
        outbox.write([event("f")])
    while following.is_alive():
        clock.advance(1)
        following.join(0.01)
    assert codes == [0]
    assert told_ids(capsys) == told


# -- replay ------------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "kpe.toml"
    file.write_text('[[sinks]]\nname = "pager"\ntype = "webhook"\nurl = "https://pager.example/"\n')
    return str(file)


@pytest.fixture
def replay(kpe: Command, config: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Replay to a sink where the configured one would be: what is tested is what is handed to it."""

    def command(sink: ScriptedSink, *options: str) -> int:
        monkeypatch.setattr(replaying, "make_sink", lambda _sink, _kafka: sink)
        return kpe("replay", "--config", config, "--sink", "pager", *options)

    return command


def test_replay_delivers_in_order_under_the_same_ids(replay: Command, capsys: Captured) -> None:
    sink = ScriptedSink(batch=2)
    assert replay(sink, "--since", "75m", "--type", "partition.*") == 0
    assert [sink.next_call(), sink.next_call()] == [["b", "c"], ["d"]]
    assert (sink.calls.empty(), sink.closed) == (True, 1)
    assert capsys.readouterr().err == "kpe: 3 events delivered to scripted\n"


def test_dead_letters_can_be_replayed(replay: Command) -> None:
    sink = ScriptedSink()
    assert replay(sink, "--dead") == 0
    assert sink.next_call() == ["a", "b"]


def test_what_the_sink_refuses_again_is_passed_over(replay: Command, capsys: Captured) -> None:
    sink = ScriptedSink(DeliveryError("no", reason="http_400", delivered=1, refused=True), batch=3)
    assert replay(sink, "--since", "2h") == 1
    assert [sink.next_call() for _ in range(3)] == [["a", "b", "c"], ["c"], ["d", "e"]]
    assert capsys.readouterr().err == "kpe: 4 events delivered to scripted, 1 refused\n"


def test_what_a_webhook_declines_is_tried_until_it_is_refused(replay: Command, capsys: Captured) -> None:
    declined = [DeliveryError("no", reason="http_400", refused=refused) for refused in (False, False, True)]
    sink = ScriptedSink(None, *declined, batch=1)
    assert replay(sink, "--since", "2h") == 1
    assert [sink.next_call() for _ in range(7)] == [["a"], ["b"], ["b"], ["b"], ["c"], ["d"], ["e"]]
    assert capsys.readouterr().err == "kpe: 4 events delivered to scripted, 1 refused\n"


def test_a_sink_that_fails_ends_it(replay: Command, capsys: Captured) -> None:
    sink = ScriptedSink(None, DeliveryError("it is\n down", reason="connect", delivered=1), batch=2)
    assert replay(sink, "--since", "2h") == 2
    assert capsys.readouterr().err == "kpe: 3 events delivered, then it failed: it is down\n"
    assert sink.closed == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--sink", "pager"], "say which events: --since TIME, or --dead"),
        (["--since", "1h"], "Missing option '--sink'"),
        (["--since", "1h", "--sink", "nosuch"], "there is no sink nosuch in the configuration, only pager"),
    ],
)
def test_a_replay_that_makes_no_sense(
    options: list[str], complaint: str, kpe: Command, config: str, capsys: Captured
) -> None:
    assert kpe("replay", "--config", config, *options) == 2
    assert complaint in capsys.readouterr().err
