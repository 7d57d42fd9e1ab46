"""A process is killed again and again while it appends and delivers. What it was told is durable arrives."""

import multiprocessing
import random
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from kafka_partition_events.outbox import SqliteOutbox
from tests.integration import outbox_life

KILLS = 50
SEED = 6
LIMIT_S = 120.0
FORKED = multiprocessing.get_context("forkserver")
"""By a process that has imported all: fifty interpreters take longer to start than to be killed."""
FORKED.set_forkserver_preload([outbox_life.__name__])


@contextmanager
def living(
    directory: Path, life: int, mode: str
) -> "Iterator[tuple[ForkServerProcess, Connection[str, str]]]":
    ours, theirs = FORKED.Pipe()
    process = FORKED.Process(target=outbox_life.live, args=(directory, str(life), mode, theirs))
    process.start()
    theirs.close()
    with ours:
        try:
            yield process, ours
        finally:
            process.kill()
            process.join()


def live_and_be_killed(directory: Path, life: int, rng: random.Random) -> None:
    with living(directory, life, "append") as (process, out):
        if life % 5:
            assert out.recv() == "ready"
            time.sleep(rng.uniform(0.1, 0.5))
            assert process.exitcode is None
        else:  # it may be killed while it opens the file
            time.sleep(rng.uniform(0.0, 0.05))


def lines_of(path: Path) -> list[list[str]]:
    """Return the fields of whole lines: the last one of a life may have been cut."""
    lines = (line.split() for line in path.read_text().splitlines())
    return [fields[:-1] for fields in lines if fields and fields[-1] == "."]


def test_fifty_kills_lose_nothing_change_no_id_and_keep_the_order_of_each_key(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for life in range(KILLS):
        live_and_be_killed(tmp_path, life, rng)
    with living(tmp_path, KILLS, "drain") as (_, last):
        assert last.recv() == "ready"
        assert last.poll(LIMIT_S)
        stats = last.recv()
    assert "waiting=0" in stats
    assert "dropped=0" in stats
    assert "dead=0" in stats

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
