"""`kpe config show`: what is in force, who has set it, and no secrets."""

import getpass
import io
import json
from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.observe.passwords import PasswordHash

Captured = pytest.CaptureFixture[str]

FILE = """
[kafka]
bootstrap_servers = "broker:9092"
[kafka.properties]
"sasl.password" = "hunter2"
[observer]
interval = "5s"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kpe.toml"
    path.write_text(FILE)
    return path


def test_in_words(file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPE_OBSERVER__TOPICS", "orders.*")
    assert run(["config", "show", "--config", str(file), "--changed", "--output", "table"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert [line.split(maxsplit=2) for line in told.out.splitlines()] == [
        ["SETTING", "VALUE", "SET BY"],
        ["kafka.bootstrap_servers", '"broker:9092"', f"file {file}"],
        ["kafka.properties.sasl.password", "***", f"file {file}"],
        ["observer.interval", '"5s"', f"file {file}"],
        ["observer.topics", '"orders.*"', "environment KPE_OBSERVER__TOPICS"],
    ]


def test_in_a_pipe_with_the_defaults(file: Path, capsys: Captured) -> None:
    assert run(["config", "show", "--config", str(file)]) == 0
    values = {value["key"]: value for value in map(json.loads, capsys.readouterr().out.splitlines())}
    assert values["outbox.max_age"] == {"key": "outbox.max_age", "value": "7d", "origin": "default"}
    assert values["kafka.properties.sasl.password"]["value"] == "***"
    assert values["metrics.max_topics"]["value"] == 2000
    assert values["observer.name"]["value"] is None


def test_the_client_is_shown_with_who_has_chosen_it(
    file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> dict[str, str]:
        assert run(["config", "show", "--config", str(file)]) == 0
        (line,) = (line for line in capsys.readouterr().out.splitlines() if "kafka.client" in line)
        value: dict[str, str] = json.loads(line)
        return value

    assert shown() == {"key": "kafka.client", "value": "kafka-python", "origin": "default"}
    file.write_text('[kafka]\nclient = "confluent-kafka"\n')
    assert shown() == {"key": "kafka.client", "value": "confluent-kafka", "origin": f"file {file}"}
    monkeypatch.setenv("KPE_KAFKA__CLIENT", "kafka-python")
    assert shown()["origin"] == "environment KPE_KAFKA__CLIENT"


def test_without_a_file_there_are_defaults(capsys: Captured) -> None:
    assert run(["config", "show"]) == 0
    assert '"key":"observer.interval","value":"10s","origin":"default"' in capsys.readouterr().out


def test_the_file_may_be_named_by_the_environment(
    file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPE_CONFIG", str(file))
    assert run(["config", "show", "--changed"]) == 0
    assert "broker:9092" in capsys.readouterr().out


def test_everything_that_is_wrong_is_told_each_in_a_line(file: Path, capsys: Captured) -> None:
    file.write_text('[observer]\nintervall = "5s"\n[outbox]\nmax_age = 7\n')
    assert run(["config", "show", "--config", str(file)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    first, second = told.err.splitlines()
    assert first.startswith(f"kpe: file {file}: observer.intervall: there is no such setting; did you mean")
    assert second.startswith(f"kpe: file {file}: outbox.max_age: 7 is not a duration")


def test_a_file_that_is_not_there(capsys: Captured) -> None:
    assert run(["config", "show", "--config", "/nowhere/kpe.toml"]) == 2
    assert capsys.readouterr().err == "kpe: /nowhere/kpe.toml: No such file or directory\n"


def test_help(capsys: Captured) -> None:
    assert run(["config", "show", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 " in text
    assert "\n  kpe config show --config" in text


def test_a_file_with_secrets_that_everybody_reads_is_told_of(
    file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_partition_events.observe.config.readable_by_all", lambda _path: True)
    assert run(["config", "show", "--config", str(file)]) == 0
    assert capsys.readouterr().err == (
        f"kpe: note: {file} holds secrets, and every user of this machine can read it; run chmod o= {file}\n"
    )


class TestHashPassword:
    def test_it_is_read_from_a_pipe(self, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("scrape me\n"))
        assert run(["config", "hash-password"]) == 0
        told = capsys.readouterr()
        assert PasswordHash(told.out.rstrip("\n")).is_of(b"scrape me")
        assert "scrape me" not in told.out + told.err

    @pytest.mark.parametrize(("typed", "code"), [(("one", "one"), 0), (("one", "two"), 2)])
    def test_it_is_asked_for_twice_on_a_terminal(
        self, typed: tuple[str, str], code: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = iter(typed)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr(getpass, "getpass", lambda *_: next(words))
        assert run(["config", "hash-password"]) == code
        assert (capsys.readouterr().out != "") is (code == 0)

    def test_none_is_an_error(self, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert run(["config", "hash-password"]) == 2
        assert capsys.readouterr().err.startswith("kpe: there is no password; type one")
