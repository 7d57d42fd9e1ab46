import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_kit import ROOT

BESIDE = Path(sys.prefix) / "docs"
"""Where `make` puts what builds the site: packages that only this needs."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The site as it is built, and what was said meanwhile."""
    if not BESIDE.is_dir() and importlib.util.find_spec("mkdocs") is None:
        missing = "mkdocs is not installed; `make docs` does that"
        if os.environ.get("CI"):
            pytest.fail(f"{missing}, and under CI no test may skip for that", pytrace=False)
        pytest.skip(missing)
    site = tmp_path_factory.mktemp("docs") / "site"
    places = [BESIDE, ROOT, ROOT / "listeners", *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(map(str, filter(None, places)))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return site, done.stderr
