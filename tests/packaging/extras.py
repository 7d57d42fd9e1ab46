"""How large each extra is: what it brings beside the package and what that needs, as installed here."""

import contextlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
MB = 1e6


def documented_sizes() -> dict[str, float]:
    """Return what docs/install.md says: extra -> MB."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    return {
        name: float(size)
        for name, size in re.findall(r"^\| `([\w-]+)` \|.*\| ([\d.]+) \|$", page, re.MULTILINE)
    }


def measured_sizes() -> dict[str, float]:
    """Return the size of each extra that is installed here: MB of its distributions and of what they need."""
    core = _closure(PROJECT["dependencies"])
    sizes = {}
    for name, needs in EXTRAS.items():
        with contextlib.suppress(PackageNotFoundError):
            sizes[name] = sum(map(_size, _closure(needs) - core)) / MB
    return sizes


def too_different(measured: float, documented: float) -> bool:
    """Tell whether a size is no longer what was written down: by a tenth, and by more than a megabyte."""
    return abs(measured - documented) > max(1.0, 0.1 * documented)


def _closure(needs: Iterable[str]) -> set[str]:
    """Return the names of all distributions that requirements need on this machine."""
    found: set[str] = set()
    waiting = [Requirement(need) for need in needs]
    while waiting:
        need = waiting.pop()
        name = re.sub(r"[-_.]+", "-", need.name).lower()
        if name == PROJECT["name"]:
            waiting += [Requirement(each) for extra in need.extras for each in EXTRAS[extra]]
        elif name not in found:
            found.add(name)
            chosen = need.extras or {""}
            waiting += [
                each
                for each in map(Requirement, distribution(name).requires or ())
                if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in chosen)
            ]
    return found


def _size(name: str) -> int:
    return sum(file.size or 0 for file in distribution(name).files or ())
