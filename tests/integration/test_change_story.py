"""The story that docs/change-control.md tells happens as it is told."""

import re
import sys
from pathlib import Path

import pytest

from tests.integration.programs import ended

pytestmark = [pytest.mark.kafka, pytest.mark.weekly]
ROOT = Path(__file__).parents[2]


def test_one_change_from_plan_to_converged() -> None:
    done = ended(sys.executable, ROOT / "examples" / "change_control" / "story.py", limit_s=240)
    assert done.returncode == 0, done.stderr
    told = (ROOT / "docs" / "change-control.md").read_text(encoding="utf-8")
    assert commands(done.stdout) == commands(told.partition("examples/change_control/story.py")[2])
    assert re.search(r"^orders-to-12 +converged .*2 producers: 2 applied", done.stdout, re.MULTILINE)
    assert "gate open, by evidence" in done.stdout
    counts = re.search(r"(\d+) written; read by billing (\d+), by audit (\d+)", done.stdout)
    assert counts, done.stdout
    written, billing, audit = map(int, counts.groups())
    assert written == billing == audit > 0


def commands(text: str) -> list[str]:
    return re.findall(r"^\$ kpe .*", text, re.MULTILINE)
