"""The example of testing an application's own producer runs as it is printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parents[2]


def test_an_applications_own_producer_is_tested_on_a_bad_network() -> None:
    options = ("-q", "-p", "no:cacheprovider", "-c", "pyproject.toml")
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "examples/test_order_sender.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"3 passed", finished.stdout)
