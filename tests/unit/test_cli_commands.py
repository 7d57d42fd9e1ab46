import inspect
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.events.snapshot_json import Snapshot, encode_snapshot
from kafka_partition_events.metadata.source import MetadataSource
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import TopicWords, cluster_of, observe
from tests.login_kit import login_options
from tests.unit.test_plain_words import COMMANDS

Captured = pytest.CaptureFixture[str]


def _services(source: ScriptedSource, clock: ManualClock | None = None) -> Services:
    return Services(open_source=lambda _config: source, clock=clock or ManualClock())


def _json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _watch_for_ten_seconds(source: ScriptedSource, *options: str) -> int:
    """Run `kpe watch` beside a clock that is moved on whenever poller and command wait for it."""
    clock, codes = ManualClock(), []
    arguments = ["watch", "-b", "x:1", "--interval", "5s", "--for", "10s", *options]
    command = threading.Thread(target=lambda: codes.append(run(arguments, _services(source, clock))))
    command.start()
    while command.is_alive():
        if clock.monotonic() < 10:
            clock.wait_for_waiters(2)
        clock.advance(1)
        command.join(0.01)
    return int(codes[0])


SICK = observe({"orders": [1, None], "other": [2]}, brokers=[1, 2])
RECOVERS = SICK, observe({"orders": [1, 2], "other": [2]})


def test_watch_writes_json_lines_into_a_pipe(capsys: Captured) -> None:
    assert _watch_for_ten_seconds(ScriptedSource(*RECOVERS)) == 0
    events = _json_lines(capsys.readouterr().out)
    kinds = [(e["kind"], e["initial"]) for e in events]
    first = "broker_added", "broker_added", "topic_added", "partition_offline", "topic_added"
    assert kinds == [*((kind, True) for kind in first), ("partition_online", False)]
    assert [e["sequence"] for e in events] == [1, 2, 3, 4, 5, 6]
    assert events[-1]["wall_time"].endswith("Z")


def test_watch_in_words(capsys: Captured) -> None:
    assert _watch_for_ten_seconds(ScriptedSource(*RECOVERS), "--output", "table") == 0
    told = capsys.readouterr()
    assert [re.sub(r"^\S+Z  ", "", line) for line in told.out.splitlines()] == [
        "cluster test: 2 brokers, 2 topics, 3 partitions, 1 offline",
        "partition_offline     orders-1                  no leader; replicas on none",
        "partition_online      orders-1                  leader none -> 2",
    ]
    assert re.fullmatch(r"kpe: 1 event in \d+\.\d s\n", told.err)


def test_watch_shows_only_the_topics_that_were_asked_for(capsys: Captured) -> None:
    assert _watch_for_ten_seconds(ScriptedSource(*RECOVERS), "--topics", "ot.*") == 0
    topics = {e.get("topic") for e in _json_lines(capsys.readouterr().out)}
    assert topics == {None, "other"}


def test_an_outage_is_an_event_and_not_a_log_line_too(capsys: Captured) -> None:
    first = observe({"orders": [1]})
    source = ScriptedSource(first, first, MetadataFetchError("connection refused"))
    assert _watch_for_ten_seconds(source) == 0
    told = capsys.readouterr()
    (outage,) = [e for e in _json_lines(told.out) if e["kind"] == "metadata_unavailable"]
    assert outage["error"] == "connection refused"
    assert told.err.count("\n") == 1


def test_watch_says_in_one_line_that_nobody_answers(capsys: Captured) -> None:
    source = ScriptedSource(MetadataFetchError("connection\n refused"))
    assert run(["watch", "-b", "x:1"], _services(source)) == 2
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "kpe: no metadata from x:1: connection refused\n")
    assert source.closed == 1


def test_watch_never_repeats_an_option_value(capsys: Captured) -> None:
    def refuse(config: Mapping[str, str]) -> MetadataSource:
        raise CliError(f'no such option: "{config["nonsense"]}" beside {config["sasl.password"]}')

    options = login_options({"nonsense": "1", "sasl.password": "hunter2"})
    assert run(["watch", "-b", "x:1", *options], Services(open_source=refuse)) == 2
    assert capsys.readouterr().err == "kpe: no such option: *** beside ***\n"


def test_snapshot_and_diff(tmp_path: Path, capsys: Captured) -> None:
    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    for target, observation in ((before, RECOVERS[0]), (after, RECOVERS[1])):
        assert run(["snapshot", "-b", "x:1"], _services(ScriptedSource(observation))) == 0
        Path(target).write_text(capsys.readouterr().out)
    assert run(["diff", before, before]) == 0
    assert capsys.readouterr().out == ""
    assert run(["diff", before, after]) == 1
    (event,) = _json_lines(capsys.readouterr().out)
    assert (event["kind"], event["topic"], event["partition"]) == ("partition_online", "orders", 1)
    assert run(["diff", before, after, "--output", "table"]) == 1
    assert capsys.readouterr().out.split() == ["partition_online", "orders-1", "leader", "none", "->", "2"]


def test_a_selection_that_selects_nothing_is_told(capsys: Captured) -> None:
    nothing = "--topics", "ordres"
    assert run(["snapshot", "-b", "x:1", *nothing], _services(ScriptedSource(*RECOVERS))) == 2
    told = capsys.readouterr()
    assert (told.out, "no topic is called 'ordres'" in told.err) == ("", True)
    assert _watch_for_ten_seconds(ScriptedSource(*RECOVERS), *nothing) == 0
    assert "kpe: note: no topic is called 'ordres'" in capsys.readouterr().err


def _file(tmp_path: Path, name: str, topics: Mapping[str, TopicWords], cluster_id: str = "test") -> str:
    path = tmp_path / name
    path.write_text(json.dumps(encode_snapshot(Snapshot(cluster_of(topics, cluster_id=cluster_id)))))
    return str(path)


def _diff_into(stdout: int, tmp_path: Path) -> tuple[int, bytes]:
    """Let a process write a difference there; return its exit code and what it says of it."""
    one, other = _file(tmp_path, "a", {"t": [1]}), _file(tmp_path, "b", {"t": [2]})
    command = [sys.executable, "-m", "kafka_partition_events.cli", "diff", one, other]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=60, check=False)
    return done.returncode, done.stderr


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    """typer's parser makes an exit code of 1 of a broken pipe, if it gets hold of it."""
    reader, writer = os.pipe()
    os.close(reader)
    assert _diff_into(writer, tmp_path) == (0, b"")
    os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        assert _diff_into(full.fileno(), tmp_path) == (2, b"kpe: No space left on device\n")


def test_diff_notes_that_the_clusters_are_not_the_same(tmp_path: Path, capsys: Captured) -> None:
    one, other = _file(tmp_path, "a", {"t": [1]}, "one"), _file(tmp_path, "b", {"t": [1]}, "other")
    assert run(["diff", one, other]) == 0
    assert "different clusters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "not JSON: Expecting value"),
        (b"\xff\xfe", "not a text file in UTF-8"),
        (b"[]", "the document must be an object, not a list"),
        (b'{"format": "kpe.snapshot", "version": 99}', "snapshot version 99 is not known here"),
        (None, "No such file or directory"),
    ],
)
def test_diff_of_a_bad_file_names_it_and_the_cause(
    content: bytes | None, cause: str, tmp_path: Path, capsys: Captured
) -> None:
    bad = tmp_path / "bad.json"
    if content is not None:
        bad.write_bytes(content)
    assert run(["diff", str(bad), str(bad)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"kpe: {bad}: {cause}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["watch"], "no brokers are named"),
        (["watch", "-b", "x:1", "--nope"], "No such option"),
        (["wach"], "No such command"),
        (["watch", "-b", "x:1", "--interval", "5"], "is not a duration"),
        (["watch", "-b", "x:1", "--topics", "("], "is not a regular expression"),
        (["watch", "-b", "x:1", "-X", "broken"], "-X number 1"),
        (["diff", "a"], "Missing argument"),
        (["diff", "-", "-"], "one of the two can come from standard input, not both"),
        (["doctor", "-b", "x:1", "partitioner", "--topic", "t"], "write `kpe doctor partitioner ...` and"),
        (["tracker", "--prefix", "a.", "init", "-b", "x:1"], "write `kpe tracker init ...` and"),
        (["change", "ls", "-b", "x:1", "--prefix", "a b"], "'a b' can't begin the names of topics"),
        (["spark", "whatif", "--file", "a", "--partitions", "0", "--to", "2"], "--partitions"),
        (["doctor", "partitioner", "-b", "x:1", "--topic", "t", "--records", "0"], "--records"),
        (["tracker", "-b", "127.0.0.1:1", "--listen", "9405"], '--listen: "9405" is not an address such as'),
        (["tracker", "-b", "127.0.0.1:1", "-X", "no.such.option=1"], "librdkafka refuses an option"),
        (["tracker", "--config", "/nowhere/kpe.toml"], "kpe: /nowhere/kpe.toml"),
        (["change", "plan", "-b", "x:1", "--to", "12"], "Missing option '--topic'"),
        (["change", "request", "-b", "x:1", "--topic", "orders"], "Missing option '--to'"),
        (["change", "plan", "--output", "xml"], "'xml' is not one of 'table', 'jsonl'; see"),
        (
            ["change", "plan", "--topic", "t", "--to", "-3"],
            "'--to': it should be greater than or equal to 1; see",
        ),
    ],
)
def test_a_wrong_command_is_told_in_one_line(arguments: list[str], complaint: str, capsys: Captured) -> None:
    assert run(arguments, _services(ScriptedSource())) == 2
    told = capsys.readouterr()
    assert complaint in told.err
    assert "Value error" not in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["change", "--help"]])
def test_a_page_of_commands_has_an_example_and_fits_80x24(arguments: list[str], capsys: Captured) -> None:
    assert run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("-b localhost:9092" in line for line in lines[:12])
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


OURS = {
    path: command
    for path, command in COMMANDS.items()
    if not path.startswith("kpe spark")
    and (not getattr(command, "commands", {}) or command.invoke_without_command)
}


@pytest.mark.parametrize("path", OURS)
def test_help_begins_with_an_example_and_ends_with_exit_codes(path: str) -> None:
    _summary, examples, *_, last = inspect.cleandoc(OURS[path].help).split("\n\n")
    assert re.match(rf"\x08\n{path}\b", examples)
    assert last.startswith("Exit codes")


def test_an_option_is_written_the_same_everywhere() -> None:
    """`--topics` takes a regular expression in all commands that have it, `--timeout` a duration."""
    forms: dict[str, set[tuple[str | None, bool]]] = {}
    for command in OURS.values():
        for option in (each for each in command.params if each.param_type_name == "option"):
            forms.setdefault(max(option.opts, key=len), set()).add((option.metavar, option.is_flag))
    assert {name: found for name, found in forms.items() if len(found) > 1} == {}


def test_version(capsys: Captured) -> None:
    assert run(["--version"]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"kpe \d+\.\d+\.\d+\S*", first)
    assert {line.split()[0] for line in others} >= {"confluent-kafka", "librdkafka", "Python", "system"}


@pytest.mark.parametrize(
    ("absent", "arguments", "told", "extras"),
    [
        ("typer", [], "the command line needs typer, which is not installed", "cli"),
        ("aiokafka", ["demo", "--asyncio"], "this needs aiokafka", "demo,aiokafka"),
    ],
)
def test_without_an_extra_it_is_named(absent: str, arguments: list[str], told: str, extras: str) -> None:
    script = (
        "import sys\n"
        f"sys.modules['{absent}'] = None\n"  # import then raises ModuleNotFoundError
        "from kafka_partition_events.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    cure = f'run: pip install "kafka-partition-events[{extras}]"'
    assert (done.returncode, done.stderr) == (2, f"kpe: {told}; {cure}\n")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kpe wa", ["watch"]),
        ("kpe change ap", ["apply"]),
        ("kpe events ", ["ls", "follow", "replay"]),
        ("kpe watch --to", ["--topics"]),
    ],
)
def test_a_shell_completes(words: str, offered: list[str]) -> None:
    asked = {"_KPE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": f"{words.count(' ')}"}
    command, env = [sys.executable, "-m", "kafka_partition_events.cli"], {**os.environ, **asked}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == (offered, "")
