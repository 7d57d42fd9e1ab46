"""`kpe incident`: what an observer wrote last, and a closing that it is to read."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.incidents import IncidentReader
from kafka_partition_events.incidents.decisions import DECISIONS, decode_decision
from kafka_partition_events.outbox import SqliteOutbox, Write
from kafka_partition_events.testing import ManualClock
from tests.incident_kit import START, World

Captured = pytest.CaptureFixture[str]
Kpe = Callable[..., int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The outbox of an observer that has told that a broker left, and holds down another one."""
    path, clock, world = (
        tmp_path / "outbox.db",
        ManualClock(wall=START),
        World([1, 2, 3], {"orders": [[2], [3]]}),
    )
    with contextlib.closing(SqliteOutbox(path, clock=clock)) as outbox:
        reader = IncidentReader(outbox, clock=clock)
        for at, broker in ((0.0, 2), (40.0, 3)):
            outbox.write(Write(entries=world.look(at)))
            world.down(broker)
            outbox.write(Write(entries=world.look(at + 1)))
            clock.advance(40)
            reader.run_once()
    return path


@pytest.fixture
def kpe(path: Path) -> Kpe:
    def command(name: str, *arguments: str) -> int:
        return run(
            ["incident", name, "--outbox", str(path), *arguments], Services(clock=ManualClock(wall=START))
        )

    return command


def listed(kpe: Kpe, capsys: Captured) -> list[dict[str, object]]:
    assert kpe("ls", "--output", "jsonl") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_ls_lists_what_is_open_and_what_is_held_down(kpe: Kpe, capsys: Captured) -> None:
    first, second = listed(kpe, capsys)
    assert (first["cause"], first["open"], first["partitions"]) == ({"broker": 2}, True, {"orders": "0"})
    assert (second["cause"], second["open"]) == ({"broker": 3}, True)
    assert kpe("ls", "--output", "table") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["ID", "OPENED", "CAUSE", "OFFLINE", "TOLD"]
    assert ["broker" in row for row in rows] == [True, True]


def test_show_tells_one_in_full(kpe: Kpe, capsys: Captured) -> None:
    first, _ = listed(kpe, capsys)
    assert kpe("show", str(first["incident_id"])) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert kpe("show", "nosuch") == 2
    assert capsys.readouterr().err.startswith("kpe: there is no incident nosuch; ")


def test_close_leaves_a_record_for_the_observer(path: Path, kpe: Kpe, capsys: Captured) -> None:
    first, _ = listed(kpe, capsys)
    id_ = str(first["incident_id"])
    close = (id_, "--reason", "it is scrapped", "--author", "ada")
    assert kpe("close", *close, "--dry-run") == 0
    told = json.loads(capsys.readouterr().out)
    at = told.pop("at")
    cause = "/".join(map(str, *first["cause"].items()))  # type: ignore[attr-defined]
    assert told == {"verb": "close", "cause": cause, "author": "ada", "reason": "it is scrapped"}
    assert str(at).startswith("2026-")
    with contextlib.closing(SqliteOutbox(path)) as outbox:
        assert outbox.values(DECISIONS) == {}
        assert kpe("close", *close) == 0
        ((_, record),) = outbox.values(DECISIONS).items()
        assert decode_decision(record).author == "ada"
        IncidentReader(outbox, clock=ManualClock(wall=START)).run_once()
    assert kpe("close", *close) == 2
    assert "is not open" in capsys.readouterr().err
    assert [each["open"] for each in listed(kpe, capsys)] == [False, True]


def test_ack_leaves_a_record_and_a_line_in_the_audit_trail(path: Path, kpe: Kpe, capsys: Captured) -> None:
    first, _ = listed(kpe, capsys)
    id_ = str(first["incident_id"])
    assert kpe("ack", id_, "--reason", "a new disk is on its way", "--author", "ada") == 0
    assert capsys.readouterr().out == f"{id_}\n"
    with contextlib.closing(SqliteOutbox(path)) as outbox:
        ((_, record),) = outbox.values(DECISIONS).items()
        decision = decode_decision(record)
        assert (decision.verb, decision.author, decision.reason) == ("ack", "ada", "a new disk is on its way")
        IncidentReader(outbox, clock=ManualClock(wall=START)).run_once()
    lines = path.with_name(f"{path.name}.audit.jsonl").read_text().splitlines()
    (begun, ended) = map(json.loads, lines)
    assert [(line["action"], line["outcome"]) for line in (begun, ended)] == [
        ("incident.ack", "begun"),
        ("incident.ack", "done"),
    ]
    assert begun["decision"] == json.loads(record)
    assert listed(kpe, capsys)[0]["acknowledged_by"] == "ada"


@pytest.mark.parametrize("reason", ["", "x" * 501])
def test_a_reason_is_needed(kpe: Kpe, capsys: Captured, reason: str) -> None:
    first, _ = listed(kpe, capsys)
    assert kpe("close", str(first["incident_id"]), "--reason", reason) == 2
    assert "1 to 500 characters" in capsys.readouterr().err


def test_an_outbox_without_incidents_has_none(tmp_path: Path, capsys: Captured) -> None:
    SqliteOutbox(tmp_path / "new.db").close()
    assert run(["incident", "ls", "--outbox", str(tmp_path / "new.db")]) == 0
    assert capsys.readouterr().out.strip() in {"", "[]"}
