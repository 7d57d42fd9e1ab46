"""Every block of Python in the documentation that takes brokers runs as it stands, on a real Kafka."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_kit import ROOT, Block, blocks

LIMIT_S = 60
BLOCKS = [block for block in blocks("python") if block.needs_kafka and block.why_not is None]
BOTH_CLIENTS = [block for block in BLOCKS if "tenant_partitioner" in block.code]

pytestmark = pytest.mark.kafka


def run(block: Block, address: str, directory: Path) -> str:
    program = directory / "example.py"
    program.write_text(block.code.replace("localhost:9092", address), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "examples")])},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("block", [block for block in BLOCKS if block not in BOTH_CLIENTS], ids=str)
def test_it_runs(block: Block, orders: str, tmp_path: Path) -> None:
    run(block, orders, tmp_path)


def test_the_same_partitioner_places_keys_alike_on_both_clients(orders: str, tmp_path: Path) -> None:
    (block,) = BOTH_CLIENTS
    said = run(block, orders, tmp_path)
    confluent = dict(re.findall(r"confluent-kafka: (\S+) (\d+)", said))
    kafka_python = dict(re.findall(r"kafka-python: (\S+) (\d+)", said))
    assert len(confluent) == 4
    assert confluent == kafka_python
    assert len(set(confluent.values())) <= 2
