"""Find a Java that can run Kafka and Spark."""

import functools
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

OLDEST_JAVA = 17
JAVA_MISSING = f"Java {OLDEST_JAVA} or newer is not installed"
"""Why a test that needs a JVM is skipped."""


def find_java(environ: Mapping[str, str]) -> Path | None:
    """Return the first ``java`` of `environ`'s JAVA_HOME and PATH that is new enough, else None."""
    candidates = []
    if home := environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        candidates.append(Path(on_path))
    for candidate in candidates:
        version = major_version(candidate)
        if version is not None and version >= OLDEST_JAVA:
            return candidate
    return None


@functools.cache
def major_version(java: Path) -> int | None:
    """Return the feature version (17, 21, ...) that an executable claims; None when it is no Java."""
    try:
        answer = subprocess.run(  # noqa: S603  # the user's own java
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # absent, not executable, or macOS's stub that only says where to download one
    # Java 8 calls itself "1.8.0_402", later ones "17.0.15" or just "21".
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else None
