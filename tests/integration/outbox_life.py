"""One life of a process that appends and delivers, for ``test_outbox_kill.py``: it ends when it is killed."""

import os
import random
import time
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

import structlog

from kafka_partition_events.outbox import Deliverer, DeliveryError, Entry, RetryPolicy, SqliteOutbox

KEYS = ("k0", "k1", "k2", "k3")
BEGAN = datetime.now(UTC)


class Record:
    """A file of lines that outlives the process as far as it was written."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, b"\n")  # a life that ended in the middle of a line has left it open

    def add(self, lines: Iterable[str]) -> None:
        os.write(self._file, "".join(f"{line} .\n" for line in lines).encode())


class FlakySink:
    """Half the time it takes only some, and does not even know how many."""

    name = "flaky"
    batch = 100

    def __init__(self, record: Record, rng: random.Random) -> None:
        self._record = record
        self._rng = rng

    def deliver(self, entries: Sequence[Entry], /) -> None:
        fails = self._rng.random() < 0.5
        taken = self._rng.randint(0, len(entries)) if fails else len(entries)
        self._record.add(f"{e.id} {e.key} {e.seq} {zlib.crc32(e.body)}" for e in entries[:taken])
        if fails:
            raise DeliveryError("flaky", reason="flaky", delivered=self._rng.randint(0, taken))

    def close(self) -> None:
        pass


def entry(key: str, number: int) -> Entry:
    """Return a key's n-th entry, which is the same in every life but for the time."""
    id_ = f"{key}-{number}"
    body = f"{id_} ".encode() * random.Random(id_).randint(1, 400)
    return Entry(id=id_, name="n", key=key, at=BEGAN, recorded_at=BEGAN, body=body)


def append_for_ever(outbox: SqliteOutbox, written: Record, rng: random.Random) -> None:
    """Append each key's entries one after the other; how far they are is part of each write."""
    numbers = {name.removeprefix("next/"): int(value) for name, value in outbox.values("next/").items()}
    for key, number in numbers.items():  # what a restarted observer derives again
        outbox.write([entry(key, n) for n in range(max(0, number - 5), number)])
    while True:
        entries = []
        for key in rng.choices(KEYS, k=rng.randint(1, 12)):
            entries.append(entry(key, numbers.get(key, 0)))
            numbers[key] = numbers.get(key, 0) + 1
        outbox.write(entries, values={f"next/{key}": b"%d" % n for key, n in numbers.items()})
        written.add(e.id for e in entries)
        time.sleep(0.001)


def live(directory: Path, seed: str, mode: str, out: "Connection[str, str]") -> None:
    """Append for ever, or drain; say when the outbox is open, and what was left in it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))  # failures are the point
    rng = random.Random(seed)
    outbox = SqliteOutbox(directory / "outbox.db")
    sink = FlakySink(Record(directory / "delivered"), rng)
    deliverer = Deliverer(outbox, sink, retry=RetryPolicy(first_delay=0.002, max_delay=0.01))
    deliverer.start()
    out.send("ready")
    if mode == "append":
        append_for_ever(outbox, Record(directory / "written"), rng)
    deliverer.close(60)
    out.send(str(outbox.stats("flaky")))
    outbox.close()
