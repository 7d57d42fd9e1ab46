"""Each guarantee names the test that holds it, and that test is there."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs_kit import DOCS, ROOT

PAGE: Final = (DOCS / "guarantees.md").read_text(encoding="utf-8")
GUARANTEES: Final = re.findall(r"^- (.+?)(?=\n\S|\n\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
NAMED: Final = re.compile(r"`(tests/[^`]+)`")
MOST: Final = 45
"""What nobody can keep in mind, nobody relies on. The number only ever falls."""


def test_there_are_not_more_than_can_be_read() -> None:
    assert 0 < len(GUARANTEES) <= MOST


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda guarantee: guarantee[:40])
def test_a_guarantee_names_the_test_that_holds_it(guarantee: str) -> None:
    named = NAMED.findall(guarantee)
    assert named
    for node in named:
        path, *names = node.split("::")
        assert is_collected(ROOT / path, names), node


def is_collected(path: Path, names: list[str]) -> bool:
    """Whether pytest finds it: a file of tests, or a class or function of tests in it, one in the other."""
    if not path.exists() or not path.name.startswith("test_"):
        return False
    inside: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in names:
        found = next((statement for statement in inside if name in defined(statement)), None)
        if found is None:
            return False
        inside = found.body if isinstance(found, ast.ClassDef) else []
    return bool(names) or any(each.startswith(("test_", "Test")) for s in inside for each in defined(s))


def defined(statement: ast.stmt) -> list[str]:
    """Return the names of tests that a statement makes; a machine of hypothesis is assigned."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name] if name.startswith(("test_", "Test")) else []
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name) and each.id.startswith("Test")]
    return []
