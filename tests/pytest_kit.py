"""Tests that run in a Python of their own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def passed(where: Path, arguments: list[str], environment: Mapping[str, str], limit_s: float) -> str:
    """Run pytest in a directory; return what it says, which is told if a test fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=where,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
