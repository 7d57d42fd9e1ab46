"""`kpe change apply`: a request from a file."""

from pathlib import Path

import pytest
from attrs import evolve

from kafka_partition_events.control.protocol.vocabulary import State
from tests.change_kit import StoryClient, documents

Captured = pytest.CaptureFixture[str]
REQUEST = """
id: orders-12
topic: orders
from: 6
to: 12
gate: true
execute: true
deadline: 30m
"""


def apply(client: StoryClient, file: Path, *more: str) -> int:
    return client.kpe("change", "apply", "-f", str(file), *more)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "change.yaml"
    file.write_text(REQUEST, encoding="utf-8")
    return file


def test_twice_is_once(file: Path, capsys: Captured) -> None:
    client = StoryClient()
    assert apply(client, file, "--yes") == 0
    change = client.story.ledger.changes["orders-12"]
    assert change.state is State.REQUESTED
    assert (change.spec.gate, change.spec.execute) == (True, True)
    assert change.spec.deadline_s == 1_800
    assert apply(client, file, "--yes") == 0
    assert len(client.sent) == 1
    assert [document["change_id"] for document in documents(capsys.readouterr().out)] == ["orders-12"] * 2


@pytest.mark.parametrize("again", [["apply"], ["request", "--topic", "orders", "--to", "12"]])
def test_what_came_to_nothing_is_no_success_the_second_time(again: list[str], tmp_path: Path) -> None:
    file = tmp_path / "change.yaml"
    file.write_text("id: mine\ntopic: orders\nto: 12\n", encoding="utf-8")
    words = ["change", *again, *(["-f", str(file)] if again == ["apply"] else ["--id", "mine"])]
    for state in (State.REJECTED, State.CANCELLED, State.EXPIRED):
        client = StoryClient()
        assert apply(client, file) == 0
        client.story.ledger.take_change(evolve(client.story.ledger.changes["mine"], state=state, revision=2))
        assert client.kpe(*words) == 1
        assert client.story.ledger.changes["mine"].state is state


@pytest.mark.parametrize(
    ("line", "other"),
    [("gate: true", ""), ("execute: true", ""), ("deadline: 30m", "deadline: 5m"), ("to: 12", "to: 18")],
)
def test_an_id_of_another_request_is_an_error(file: Path, capsys: Captured, line: str, other: str) -> None:
    client = StoryClient()
    assert apply(client, file, "--yes") == 0
    capsys.readouterr()
    file.write_text(REQUEST.replace(line, other), encoding="utf-8")
    assert apply(client, file, "--yes") == 2
    told = capsys.readouterr()
    assert (len(client.sent), told.out) == (1, "")
    assert "orders-12 is another change already; request this one under an id of its own" in told.err


def test_a_dry_run_writes_nothing(file: Path, capsys: Captured) -> None:
    client = StoryClient()
    assert apply(client, file, "--dry-run") == 0
    assert not client.sent
    assert documents(capsys.readouterr().out)[0]["format"] == "kpe.command"


def test_it_is_refused_where_the_topic_is_not_as_the_file_says(file: Path, capsys: Captured) -> None:
    file.write_text(REQUEST.replace("from: 6", "from: 7"), encoding="utf-8")
    assert apply(StoryClient(), file, "--yes") == 1
    assert "topic orders has 6 partitions, not 7" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("id: a\ntopic: orders\n", "lacks to"),
        ("id: a\ntopic: orders\nto: twelve\n", "to can't be 'twelve'"),
        ("id: a\ntopic: orders\nto: 12\ngat: none\n", "gat: there is no such key"),
        ("id: a\ntopic: orders\nto: 12\ngate: maybe\n", "gate can't be 'maybe'"),
        ("- 1\n", "holds no keys"),
        ("{", "change.yaml"),
        ("[" * 20_000, "change.yaml"),
        ('id: ""\ntopic: orders\nto: 12\n', "--id '' is no id"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(file: Path, capsys: Captured, text: str, complaint: str) -> None:
    file.write_text(text, encoding="utf-8")
    assert apply(StoryClient(), file) == 2
    assert complaint in capsys.readouterr().err
