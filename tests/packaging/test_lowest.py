"""The lowest confluent-kafka that we allow works: before 2.13 a client can't be closed, but only collected.

The garbage collector may run on a thread of librdkafka's own, which aborts the process if a client ends
there.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytest_kit import passed

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "clients-lowest.txt"
LIMIT_S = 300.0


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python"])
def test_the_lowest_is_what_we_say(client: str) -> None:
    (lowest,) = re.findall(rf"^{client}==(\S+)", LOCK.read_text(), re.MULTILINE)
    (allowed,) = set(re.findall(rf'"{client}>=([\d.]+)', (ROOT / "pyproject.toml").read_text()))
    assert lowest in {allowed, f"{allowed}.0"}


def test_a_drop_in_is_one_there_too(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*pip, "--target", tmp_path, "-r", LOCK], check=True, timeout=LIMIT_S)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    version = "import confluent_kafka; assert confluent_kafka.__version__.startswith('2.13.')"
    subprocess.run([sys.executable, "-c", version], env=environment, check=True, timeout=LIMIT_S)
    tests = ["tests/integration/test_confluent_drop_in.py", "tests/unit/test_unassigned.py"]
    passed(ROOT, tests, {"PYTHONPATH": str(tmp_path)}, LIMIT_S)
