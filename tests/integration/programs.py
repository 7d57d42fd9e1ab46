"""Runs programs to their end."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

KPE = (sys.executable, "-m", "kafka_partition_events.cli")


def ended(
    *command: str | Path, limit_s: float = 60.0, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a program until it ends, whatever its exit code."""
    words = [*map(str, command)]
    return subprocess.run(
        words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=limit_s
    )
