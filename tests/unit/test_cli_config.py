"""`kpe config show`: what is in force, who has set it, and no secrets."""

import json
from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run

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
    assert run(["config", "show", "--config", str(file), "--output", "table"]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert [line.split(maxsplit=2) for line in told.out.splitlines()] == [
        ["SETTING", "VALUE", "SET BY"],
        ["kafka.bootstrap_servers", '"broker:9092"', f"file {file}"],
        ["kafka.properties.sasl.password", '"***"', f"file {file}"],
        ["observer.interval", '"5s"', f"file {file}"],
        ["observer.topics", '"orders.*"', "environment KPE_OBSERVER__TOPICS"],
    ]


def test_in_a_pipe(file: Path, capsys: Captured) -> None:
    assert run(["config", "show", "--config", str(file)]) == 0
    values = {value["key"]: value for value in map(json.loads, capsys.readouterr().out.splitlines())}
    interval = {"key": "observer.interval", "value": "5s", "origin": f"file {file}"}
    assert values["observer.interval"] == interval
    assert values["kafka.properties.sasl.password"]["value"] == "***"


def test_everything_that_is_wrong_is_told_each_in_a_line(file: Path, capsys: Captured) -> None:
    file.write_text('[observer]\nintervall = "5s"\n[outbox]\nmax_age = 7\n')
    assert run(["config", "show", "--config", str(file)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    first, second = told.err.splitlines()
    assert first.startswith(f"kpe: file {file}: observer.intervall: there is no such setting; there are name")
    assert second.startswith(f"kpe: file {file}: outbox.max_age: 7 is not a duration")
