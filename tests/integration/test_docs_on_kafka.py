"""Every block of Python in the documentation that takes brokers runs as it stands, on a real Kafka."""

import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.docs_kit import ROOT, Block, blocks
from tests.integration.programs import ended

LIMIT_S = 60
BLOCKS = [block for block in blocks("python") if block.needs_kafka and block.why_not is None]
BOTH_CLIENTS = [block for block in BLOCKS if "tenant_partitioner" in block.code]
ENDLESS = [block for block in BLOCKS if block.is_endless]

pytestmark = pytest.mark.kafka
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "examples")])}


def written(block: Block, address: str, directory: Path) -> list[str]:
    """Write a block's program; return the command that runs it."""
    program = directory / "example.py"
    program.write_text(block.code.replace("localhost:9092", address), encoding="utf-8")
    return [sys.executable, "-u", str(program)]


def run(block: Block, address: str, directory: Path) -> str:
    done = ended(*written(block, address, directory), cwd=directory, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block not in BOTH_CLIENTS and block not in ENDLESS], ids=str
)
def test_it_runs(block: Block, orders: str, tmp_path: Path) -> None:
    run(block, orders, tmp_path)


@pytest.mark.parametrize("block", ENDLESS, ids=str)
def test_it_reads_until_it_is_stopped(block: Block, orders: str, tmp_path: Path) -> None:
    order = f"order {uuid.uuid4().hex}"
    producer = Producer({"bootstrap.servers": orders})
    producer.produce("orders", order, "42")
    assert producer.flush(LIMIT_S) == 0
    command, output = written(block, orders, tmp_path), tmp_path / "output"
    with (
        output.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as reader,
    ):
        limit = threading.Timer(LIMIT_S, reader.kill)
        limit.start()
        try:
            assert reader.stdout is not None
            assert any(order in line for line in reader.stdout), output.read_text(encoding="utf-8")
            reader.send_signal(signal.SIGINT)
            assert reader.wait() == -signal.SIGINT, output.read_text(encoding="utf-8")
        finally:
            limit.cancel()
            reader.kill()


def test_the_same_partitioner_places_keys_alike_on_both_clients(orders: str, tmp_path: Path) -> None:
    (block,) = BOTH_CLIENTS
    said = run(block, orders, tmp_path)
    confluent = dict(re.findall(r"confluent-kafka: (\S+) (\d+)", said))
    kafka_python = dict(re.findall(r"kafka-python: (\S+) (\d+)", said))
    assert len(confluent) == 4
    assert confluent == kafka_python
    assert len(set(confluent.values())) <= 2
