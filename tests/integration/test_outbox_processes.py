"""A process that reads an outbox while another one writes to it."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from kafka_partition_events.outbox import SqliteOutbox
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, entry

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


def test_a_process_that_only_looks_sees_whole_writes_and_hinders_nobody(tmp_path: Path) -> None:
    path, pipe = tmp_path / "outbox.db", subprocess.PIPE
    command = [sys.executable, "-c", READER, str(path), "3000"]
    with (
        closing(SqliteOutbox(path, clock=ManualClock(wall=NOW))) as outbox,  # when the entries are new
        subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as reader,
    ):
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        outbox.subscribe("a")
        for number in range(0, 3000, 10):
            entries = [entry(str(n)) for n in range(number, number + 10)]
            outbox.write(entries, cursors={"a": number})
        out, errors = reader.communicate(timeout=60)
        assert reader.returncode == 0, errors
    looks = json.loads(out)
    assert {look % 10 for look in looks} == {0}
    assert looks == sorted(looks)
