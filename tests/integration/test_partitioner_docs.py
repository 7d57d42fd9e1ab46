"""docs/partitioners.md: the example with both clients runs as it stands, and both place keys alike."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "partitioners.md").read_text(encoding="utf-8")
LIMIT_S = 60

pytestmark = pytest.mark.kafka


def test_the_same_partitioner_places_keys_alike_on_both_clients(orders: str, tmp_path: Path) -> None:
    (example,) = (e for e in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "localhost:9092" in e)
    program = tmp_path / "example.py"
    program.write_text(example.replace("localhost:9092", orders), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "examples")])},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    confluent = dict(re.findall(r"confluent-kafka: (\S+) (\d+)", done.stdout))
    kafka_python = dict(re.findall(r"kafka-python: (\S+) (\d+)", done.stdout))
    assert len(confluent) == 4
    assert confluent == kafka_python
    assert len(set(confluent.values())) <= 2
