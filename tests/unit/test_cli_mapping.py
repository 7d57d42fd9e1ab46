"""`kpe mapping`: what is shown, what is written, and what is refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pins import Pin
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import observe

Captured = pytest.CaptureFixture[str]

NOW = 1_704_067_200.0  # 2024-01-01T00:00:00Z, when a ManualClock begins
SIX, TWELVE = Pin(1, 6, NOW - 3600), Pin(2, 12, NOW + 42)


@pytest.fixture
def store(tmp_path: Path) -> FilePinStore:
    store = FilePinStore(tmp_path / "pins.json")
    store.replace("orders", None, (SIX,))
    return store


def kpe(*arguments: str, partitions: int = 12) -> int:
    source = ScriptedSource(observe({"orders": [1] * partitions}))
    return run(["mapping", *arguments], Services(open_source=lambda _config: source, clock=ManualClock()))


def test_show_in_words(store: FilePinStore, capsys: Captured) -> None:
    store.replace("payments", None, (SIX, TWELVE))
    assert kpe("show", "--store", str(store.path), "--output", "table") == 0
    told = capsys.readouterr()
    assert told.err == ""
    headers, orders, payments = told.out.splitlines()
    six = "6 partitions from 2023-12-31 23:00:00Z, generation 1"
    twelve = "12 partitions from 2024-01-01 00:00:42Z, generation 2, in 42 s"
    assert headers.split() == ["TOPIC", "PINNED", "TO", "PENDING"]
    assert orders == f"orders    {six}  -"
    assert payments == f"payments  {six}  {twelve}"


def test_show_in_a_pipe(store: FilePinStore, capsys: Captured) -> None:
    store.replace("orders", (SIX,), (SIX, TWELVE))
    assert kpe("show", "--store", str(store.path)) == 0
    assert json.loads(capsys.readouterr().out) == {
        "topic": "orders",
        "generation": 1,
        "count": 6,
        "effective_at": "2023-12-31T23:00:00.000000Z",
        "pending": {"generation": 2, "count": 12, "effective_at": "2024-01-01T00:00:42.000000Z"},
    }


def test_show_of_a_store_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "nothing.json"
    assert kpe("show", "--store", str(path)) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"kpe: note: nothing is pinned in {path}\n")
    assert not path.exists()


def cut_over(store: FilePinStore, *more: str, count: int = 12, partitions: int = 12) -> int:
    arguments = ["--store", str(store.path), "--topic", "orders", "--count", str(count), "--yes", *more]
    return kpe("cut-over", *arguments, partitions=partitions)


def test_cut_over(store: FilePinStore, capsys: Captured) -> None:
    assert cut_over(store, "--in", "2m") == 0
    pin = Pin(2, 12, NOW + 120)
    assert store.read() == {"orders": (SIX, pin)}
    assert json.loads(capsys.readouterr().out)["pending"] == {
        "generation": 2,
        "count": 12,
        "effective_at": "2024-01-01T00:02:00.000000Z",
    }


def test_cut_over_is_a_minute_ahead_unless_told_otherwise(store: FilePinStore) -> None:
    assert cut_over(store) == 0
    assert store.read()["orders"][-1].effective_at == NOW + 60


def test_a_dry_run_shows_and_writes_nothing(store: FilePinStore, capsys: Captured) -> None:
    before = store.path.read_bytes()
    assert cut_over(store, "--dry-run", "--output", "table") == 0
    told = capsys.readouterr()
    assert told.out.strip().endswith("12 partitions from 2024-01-01 00:01:00Z, generation 2, in 60 s")
    assert told.err.splitlines() == [
        "kpe: note: without -b it is not checked that orders has 12 partitions",
        "kpe: note: nothing was written; it would be",
    ]
    assert store.path.read_bytes() == before


def test_with_brokers_the_cluster_is_asked(store: FilePinStore, capsys: Captured) -> None:
    assert cut_over(store, "-b", "x:1", partitions=11) == 2
    assert capsys.readouterr().err == "kpe: topic orders has 11 partitions, not 12; grow it first\n"
    assert cut_over(store, "-b", "x:1", partitions=12) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--topic", "nosuch", "--count", "12"], "topic nosuch is not pinned in"),
        (["--topic", "nosuch", "--count", "12", "-b", "x:1"], "there is no topic nosuch"),
        (["--topic", "orders", "--count", "6"], "keys are pinned to 6 partitions already"),
        (["--topic", "orders", "--count", "12", "--in", "1s"], "at least 5 s ahead, not 1 s"),
        (
            ["--topic", "orders", "--count", "12", "--in", "99999999h"],
            "at most 366 days ahead",
        ),
        (["--topic", "orders", "--count", "12", "--in", "soon"], "'soon' is not a duration"),
        (["--topic", "orders"], "Missing option '--count'"),
    ],
)
def test_a_cut_over_that_makes_no_sense_is_told_in_one_line(
    arguments: list[str], complaint: str, store: FilePinStore, capsys: Captured
) -> None:
    assert kpe("cut-over", "--store", str(store.path), *arguments) == 2
    told = capsys.readouterr()
    *notes, error = told.err.splitlines()
    assert complaint in error
    assert all(line.startswith("kpe: note: ") for line in notes)
    assert told.out == ""
    assert store.read() == {"orders": (SIX,)}


def test_a_second_cut_over_waits_for_the_first(store: FilePinStore, capsys: Captured) -> None:
    assert cut_over(store) == 0
    assert cut_over(store, count=18) == 2
    assert "a cut-over to 12 partitions is pending, 60 s from now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--store", "kafka:pins"], "no brokers are named: give -b HOST:PORT"),
        (["--store", "kafka:", "-b", "x:1"], "a store in Kafka needs its topic: --store kafka:TOPIC"),
    ],
)
def test_a_store_in_kafka_needs_topic_and_brokers(
    arguments: list[str], told: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KPE_BOOTSTRAP_SERVERS", raising=False)
    assert kpe("show", *arguments) == 2
    assert told in capsys.readouterr().err


def test_a_cut_over_wants_to_be_meant(store: FilePinStore, capsys: Captured) -> None:
    assert kpe("cut-over", "--store", str(store.path), "--topic", "orders", "--count", "12") == 2
    assert "move the keys of orders to 12 partitions in 60s, for good: no terminal" in capsys.readouterr().err
    assert store.read() == {"orders": (SIX,)}


def test_a_store_must_be_given(capsys: Captured) -> None:
    assert kpe("show", "--store", "") == 2
    assert capsys.readouterr().err == "kpe: no store is given; write --store PATH or --store kafka:TOPIC\n"


def test_a_file_that_is_no_store_is_told_with_the_cure(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "foreign.json"
    path.write_text("{}")
    assert kpe("show", "--store", str(path)) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"kpe: {path} holds no pins that can be read here: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "cut-over"])
def test_every_command_documents_its_exit_codes_and_has_examples(command: str, capsys: Captured) -> None:
    assert kpe(command, "--help") == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 " in text
    assert f"\n  kpe mapping {command} --store " in text


def test_help_needs_nothing(capsys: Captured) -> None:
    assert kpe("--help") == 0
    text: Any = capsys.readouterr().out
    assert "kpe mapping show --store pins.json" in text
