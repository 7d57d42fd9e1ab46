"""Several processes with one outbox, and one process that may write no more."""

import json
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from kafka_partition_events.outbox import SqliteOutbox, Write
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, append, entry, ids

WRITER = """
import sys
from datetime import UTC, datetime
from kafka_partition_events.outbox import Entry, SqliteOutbox, Write
path, who = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
outbox = SqliteOutbox(path)
now = datetime.now(UTC)
for number in range(50):
    ids = [f"{who}-{number}", f"shared-{number}"]
    entries = [Entry(id=i, name="n", key="k", severity=9, at=now, recorded_at=now, body=b"") for i in ids]
    outbox.write(Write(entries=entries, values={f"v/{who}": str(number).encode()}))
outbox.close()
"""

READER = """
import json, sys
from kafka_partition_events.outbox import SqliteOutbox
outbox = SqliteOutbox(sys.argv[1])
print("ready", flush=True)
looks = []
while not looks or looks[-1] < int(sys.argv[2]):
    seen = [entry.id for entry in outbox.history()]
    assert seen == [str(number) for number in range(len(seen))], seen
    looks.append(len(seen))
print(json.dumps(looks))
"""

LIMITED = """
import json, resource, sys
from kafka_partition_events.errors import OutboxError
from kafka_partition_events.outbox import SqliteOutbox, Write
sys.path.insert(0, sys.argv[2])
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, append, entry
outbox = SqliteOutbox(sys.argv[1], clock=ManualClock(wall=NOW))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
written, errors = [], []
for number in range(5000):
    try:
        append(outbox, entry(str(number), body=b"x" * 1000))
        written.append(str(number))
    except OutboxError as error:
        errors.append(str(error))
        if len(errors) == 3:
            break
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
append(outbox, "after")
print(json.dumps({"written": written, "errors": errors}))
outbox.close()
"""


def opened(path: Path) -> SqliteOutbox:
    """Open an outbox at a time when the entries of these tests are new."""
    return SqliteOutbox(path, clock=ManualClock(wall=NOW))


def start(program: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.db"


def test_processes_that_make_one_outbox_at_once_all_write_to_it(path: Path) -> None:
    writers = [start(WRITER, path, who) for who in range(5)]
    for writer in writers:
        assert line_of(writer.stdout) == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    with closing(opened(path)) as outbox:
        counts = Counter(id_.partition("-")[0] for id_ in ids(outbox.history()))
        assert counts == {**{str(who): 50 for who in range(5)}, "shared": 50}
        assert outbox.values("v/") == {f"v/{who}": b"49" for who in range(5)}


def test_a_process_that_only_looks_sees_whole_writes_and_hinders_nobody(path: Path) -> None:
    with closing(opened(path)) as outbox, start(READER, path, 3000) as reader:
        assert line_of(reader.stdout) == "ready\n"
        outbox.subscribe("a")
        for number in range(0, 3000, 10):
            entries = [entry(str(n)) for n in range(number, number + 10)]
            outbox.write(Write(entries=entries, cursors={"a": number}))
        out, errors = reader.communicate(timeout=60)
        assert reader.returncode == 0, errors
    looks = json.loads(out)
    assert {look % 10 for look in looks} == {0}
    assert looks == sorted(looks)


def test_a_process_that_may_write_no_more_is_told_loses_nothing_and_goes_on(path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    with start(LIMITED, path, root) as limited:
        out, errors = limited.communicate(timeout=60)
        assert limited.returncode == 0, errors
    told = json.loads(out)
    assert len(told["errors"]) == 3
    for error in told["errors"]:
        assert str(path) in error
        assert "disk" in error
    with closing(opened(path)) as outbox:
        append(outbox, "again")
        assert ids(outbox.history()) == [*told["written"], "after", "again"]
