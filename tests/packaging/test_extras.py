"""docs/install.md has a row for each extra."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_each_extra_is_documented() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [name for name in EXTRAS if f"| `{name}` |" not in page] == []


def test_all_means_all_but_the_service_and_the_demo() -> None:
    (all_,) = EXTRAS["all"]
    named = set(all_.partition("[")[2].rstrip("]").split(","))
    assert EXTRAS.keys() - named <= {"all", "observe", "demo"}
