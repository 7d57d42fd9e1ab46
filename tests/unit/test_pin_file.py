"""Pins in a file: whole or not at all, one writer at a time, and nothing foreign is overwritten."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pins import Pin

SIX, TWELVE = Pin(1, 6, 100.0), Pin(2, 12, 200.5)

RACER = """
import sys
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pins import Pin
store, won = FilePinStore(sys.argv[1]), 0
sys.stdin.readline()
for number in range(1, 41):
    topic = f"t{number}"
    won += store.replace(topic, None, (Pin(1, int(sys.argv[2]), 0.0),))
    while True:  # each adds itself once to a history that all share
        before = store.read().get("shared", ())
        if store.replace("shared", before or None, (*before, Pin(len(before) + 1, int(sys.argv[2]), 0.0))):
            break
print(won)
"""


@pytest.fixture
def store(tmp_path: Path) -> FilePinStore:
    return FilePinStore(tmp_path / "pins.json")


def test_a_file_that_is_not_there_is_an_empty_store_and_reading_makes_none(store: FilePinStore) -> None:
    assert store.read() == {}
    assert os.listdir(store.path.parent) == []  # noqa: PTH208


def test_what_was_written_is_read_by_others(store: FilePinStore) -> None:
    assert store.replace("orders", None, (SIX,))
    assert store.replace("payments", None, (TWELVE,))
    assert store.replace("orders", (SIX,), (SIX, TWELVE))
    store.close()
    assert FilePinStore(str(store.path)).read() == {"orders": (SIX, TWELVE), "payments": (TWELVE,)}


def test_the_file_is_for_people_too(store: FilePinStore) -> None:
    store.replace("orders", None, (SIX,))
    assert json.loads(store.path.read_text()) == {
        "format": "kpe.pins",
        "version": 1,
        "topics": {"orders": [{"generation": 1, "count": 6, "effective_at": 100.0}]},
    }


def test_it_compares_and_sets(store: FilePinStore) -> None:
    assert not store.replace("orders", (SIX,), (SIX, TWELVE))
    assert store.replace("orders", None, (SIX,))
    assert not store.replace("orders", None, (TWELVE,))
    assert store.read() == {"orders": (SIX,)}


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "Expecting value"),
        (b'{"format": "kpe.pins", "version": 1, "top', "Unterminated string"),
        (b"\xff\xfe", "not text"),
        (b"[]", "not a document of the format kpe.pins"),
        (b'{"format": "kpe.snapshot", "version": 1, "topics": {}}', "not a document of the format kpe.pins"),
        (b'{"format": "kpe.pins", "version": 2, "topics": {}}', "version 2 of kpe.pins is not known"),
    ],
)
def test_a_file_with_anything_else_is_named_with_the_cure_and_left_as_it_is(
    content: bytes, cause: str, store: FilePinStore
) -> None:
    store.path.write_bytes(content)
    for use in (store.read, lambda: store.replace("orders", None, (SIX,))):
        with pytest.raises(PinStoreError, match=cause) as refusal:
            use()
        assert str(store.path) in str(refusal.value)
        assert "restore it from a copy" in str(refusal.value)
    assert store.path.read_bytes() == content


def test_one_topics_bad_entry_is_told_kept_and_nobody_elses_affair(store: FilePinStore) -> None:
    bad = {"generation": 1}
    store.path.write_text(json.dumps({"format": "kpe.pins", "version": 1, "topics": {"t": bad}}))
    assert store.read() == {}
    assert set(store.unreadable) == {"t"}
    for part in (str(store.path), "topic 't': a history is a list", "restore it from a copy"):
        assert part in store.unreadable["t"]
    assert store.replace("orders", None, (SIX,))
    assert not store.replace("t", None, (SIX,)), "somebody may still repair it"
    assert store.read() == {"orders": (SIX,)}
    assert json.loads(store.path.read_text())["topics"]["t"] == bad


def test_what_the_system_refuses_is_told_with_the_path(tmp_path: Path) -> None:
    absent = FilePinStore(tmp_path / "absent" / "pins.json")
    with pytest.raises(PinStoreError, match=r"absent/pins\.json\.lock: can't write the pins: No such file"):
        absent.replace("orders", None, (SIX,))
    with pytest.raises(PinStoreError, match="can't read the pins: Is a directory"):
        FilePinStore(tmp_path).read()


def test_a_new_file_has_the_mode_and_the_owner_of_the_old_one(store: FilePinStore) -> None:
    """An operator who cuts over as root must not shut the application out."""
    store.replace("orders", None, (SIX,))
    owner = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(store.path, owner, os.getegid())
    store.path.chmod(0o620)
    store.replace("orders", (SIX,), (SIX, TWELVE))
    written = store.path.stat()
    assert (written.st_mode & 0o777, written.st_uid, written.st_gid) == (0o620, owner, os.getegid())


def test_a_crash_before_the_new_file_is_in_place_leaves_the_old_one(
    store: FilePinStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.replace("orders", None, (SIX,))

    def crash(_draft: Path, _target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        store.replace("orders", (SIX,), (SIX, TWELVE))
    monkeypatch.undo()
    assert store.read() == {"orders": (SIX,)}
    assert store.replace("orders", (SIX,), (SIX, TWELVE)), "and is in nobody's way"
    assert store.read() == {"orders": (SIX, TWELVE)}


def test_of_two_processes_one_is_first_each_time(store: FilePinStore) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(store.path), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in (6, 12)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate(timeout=60)[0]) for racer in racers]
    assert sum(won) == 40
    stored = store.read()
    assert Counter(history[0].count for topic, history in stored.items() if topic != "shared") == Counter(
        {count: wins for count, wins in zip((6, 12), won, strict=True) if wins}
    )
    assert [pin.generation for pin in stored["shared"]] == list(range(1, 81)), "nobody's was lost"
    assert Counter(pin.count for pin in stored["shared"]) == {6: 40, 12: 40}


def test_of_threads_one_is_first_each_time(store: FilePinStore) -> None:
    wins: list[int] = []
    together = threading.Barrier(4)

    def race(count: int) -> None:
        together.wait()
        pin = (Pin(1, count, 0.0),)
        wins.extend(number for number in range(10) if store.replace(f"t{number}", None, pin))

    threads = [threading.Thread(target=race, args=(count,)) for count in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == list(range(10))
