"""A process is killed again and again while it appends and delivers. What it was told is durable arrives."""

import random
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from kafka_partition_events.outbox import SqliteOutbox

LIFE = Path(__file__).with_name("outbox_life.py")
KILLS = 50
SEED = 6


def live(directory: Path, life: int, mode: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(LIFE), str(directory), str(life), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def live_and_be_killed(directory: Path, life: int, rng: random.Random) -> None:
    with live(directory, life, "append") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            if life % 5:  # every fifth may be killed while it opens the file
                assert process.stdout.readline() == "ready\n", process.stderr.read()
            time.sleep(rng.uniform(0.1, 0.5))
            assert process.poll() is None, process.stderr.read()
        finally:
            process.kill()


def lines_of(path: Path) -> list[list[str]]:
    """Return the fields of whole lines: the last one of a life may have been cut."""
    lines = (line.split() for line in path.read_text().splitlines())
    return [fields[:-1] for fields in lines if fields and fields[-1] == "."]


def test_fifty_kills_lose_nothing_change_no_id_and_keep_the_order_of_each_key(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for life in range(KILLS):
        live_and_be_killed(tmp_path, life, rng)
    with live(tmp_path, KILLS, "drain") as last:
        told, errors = last.communicate(timeout=120)
    assert "waiting=0" in told, errors
    assert "dropped=0" in told
    assert "dead=0" in told

    written = {id_ for (id_,) in lines_of(tmp_path / "written")}
    delivered = lines_of(tmp_path / "delivered")
    first_of: dict[str, list[str]] = {}
    for id_, *facts in delivered:
        assert first_of.setdefault(id_, facts) == facts, "one id, one key, one place, one body"
    assert len(written) > 100 * KILLS
    assert len(delivered) > len(first_of), "at least once: some arrived twice"
    assert written - first_of.keys() == set(), "lost"

    numbers = defaultdict(list)
    for id_, (key, _, _) in first_of.items():
        numbers[key].append(int(id_.removeprefix(f"{key}-")))
    for key, order in numbers.items():
        assert order == list(range(len(order))), f"{key}: in order, and none is missing in between"
    places = [int(place) for _, place, _ in first_of.values()]
    assert places == sorted(places)

    with closing(sqlite3.connect(tmp_path / "outbox.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with closing(SqliteOutbox(tmp_path / "outbox.db")) as outbox:
        ends = {name.removeprefix("next/"): int(value) for name, value in outbox.values("next/").items()}
    assert ends == {key: len(order) for key, order in numbers.items()}, "entries and values, or neither"
