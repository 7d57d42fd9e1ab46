"""The README and the help of `kpe` keep to the words of CONTRIBUTING.md."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from kafka_partition_events.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "docs/producers.md",
    "docs/install.md",
    "docs/stability.md",
    "CHANGELOG.md",
    "SECURITY.md",
)
UNWANTED = re.compile(
    r"\b(tells?|told|telling|whoever|(?:two|next|first|one) looks?|looks? (?:at|once)|looked at"
    r"|fallen silent|falls silent|unkeyed|times as many|times less)\b",
    re.IGNORECASE,
)
NOT_YET = {"spark"}
CORE = ("metadata", "routing", "health", "partitioners", "clients")
UNWANTED_IN_CODE = re.compile(
    r"\b(tells?|told|telling(?!\.yaml)|whoever|whom|(?:some|no)body|anew|once more|looks?(?![- ]up)|looked"
    r"|he|him|his)\b",
    re.IGNORECASE,
)


def commands(group: Any, path: str = "kpe") -> Iterator[tuple[str, Any]]:
    """Yield all commands of `kpe` with their paths."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        if path != "kpe" or name not in NOT_YET:
            yield from commands(command, f"{path} {name}")


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_plain_words(page: str) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert UNWANTED.findall(text) == []


@pytest.mark.parametrize("wing", CORE)
def test_the_core_uses_plain_words(wing: str) -> None:
    """In names, docstrings and comments: a reader of the code should not have to translate it."""
    modules = sorted((ROOT / "kafka_partition_events" / wing).rglob("*.py"))
    assert modules
    found = {
        f"{module.name}:{number}": words
        for module in modules
        for number, line in enumerate(module.read_text(encoding="utf-8").splitlines(), start=1)
        if (words := UNWANTED_IN_CODE.findall(line.replace("_", " ")))
    }
    assert found == {}


@pytest.mark.parametrize("path", COMMANDS)
def test_help_uses_plain_words(path: str) -> None:
    command = COMMANDS[path]
    texts = [command.help, command.short_help, command.epilog, *(each.help for each in command.params)]
    assert [found for text in texts if text for found in UNWANTED.findall(text)] == []
