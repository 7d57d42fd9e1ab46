"""All pages, the code and the help of `kpe` keep to the words of CONTRIBUTING.md."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kafka_partition_events.cli.app import app
from tests.docs_kit import ROOT, pages

PAGES = [page.relative_to(ROOT).as_posix() for page in pages()]
PAGES += ["README.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"]
NOT_PROSE = re.compile(r"```.*?```|`[^`]*`|^\| write \| not \|\n(?:\|[^\n]*\n)+", re.DOTALL | re.MULTILINE)
"""Code, and the table of words itself."""
WORDS = (
    r"tells?|told|telling(?!\.yaml)|whoever|whom|(?:some|no)body|anew|once more"
    r"|looks?(?![- ]up)|looked|he|him|his"
)
UNWANTED_IN_CODE = re.compile(rf"\b({WORDS})\b", re.IGNORECASE)
UNWANTED = re.compile(
    rf"\b({WORDS}|fallen silent|falls silent|unkeyed|times as many|times less)\b", re.IGNORECASE
)
HOUSE = ROOT / "kafka_partition_events"
PACKAGES = [
    *sorted(path.parent for path in HOUSE.glob("*/__init__.py")),
    *sorted(HOUSE.glob("*.py")),
    ROOT / "listeners",
]
"""The same in each process of a run, whichever has left its `__pycache__` there."""


def commands(group: Any, path: str = "kpe") -> Iterator[tuple[str, Any]]:
    """Yield all commands of `kpe` with their paths."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, f"{path} {name}")


ASSETS = sorted(path for path in HOUSE.joinpath("assets").rglob("*.*") if path.suffix not in {".py", ".pyc"})
COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_plain_words(page: str) -> None:
    text = NOT_PROSE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    assert UNWANTED.findall(text) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_the_code_uses_plain_words(package: Path) -> None:
    """In names, docstrings and comments: a reader of the code should not have to translate it."""
    modules = sorted(package.rglob("*.py")) if package.is_dir() else [package]
    assert modules
    found = {
        f"{module.name}:{number}": words
        for module in modules
        for number, line in enumerate(module.read_text(encoding="utf-8").splitlines(), start=1)
        if (words := UNWANTED_IN_CODE.findall(line.replace("_", " ")))
    }
    assert found == {}


@pytest.mark.parametrize("asset", ASSETS, ids=lambda path: path.name)
def test_what_ships_beside_the_code_uses_plain_words(asset: Path) -> None:
    assert UNWANTED.findall(asset.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", COMMANDS)
def test_help_uses_plain_words(path: str) -> None:
    command = COMMANDS[path]
    texts = [command.help, command.short_help, command.epilog, *(each.help for each in command.params)]
    assert [found for text in texts if text for found in UNWANTED.findall(text)] == []
