"""What is public is written down with the promise that goes with it (docs/stability.md)."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIERS = tomllib.loads(Path(__file__).with_name("public_names.toml").read_text(encoding="utf-8"))
PUBLIC: dict[str, list[str]] = {module: names for tier in TIERS.values() for module, names in tier.items()}
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "change-control").glob("*.md")]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
EXAMPLES = [*(ROOT / "examples").rglob("*.py")]


def shown() -> Iterator[tuple[str, str]]:
    """Yield module and name of each import that a page or an example shows."""
    code = [
        each for page in PAGES for each in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    for program in [*code, *(example.read_text(encoding="utf-8") for example in EXAMPLES)]:
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafka_partition_events"):
                yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_those_that_are_written_down(module: str) -> None:
    names = PUBLIC[module]
    assert names == sorted(names)
    loaded = importlib.import_module(module)
    assert sorted(getattr(loaded, "__all__", names)) == names
    for name in names:
        assert hasattr(loaded, name)


def test_pages_and_examples_show_public_names_only() -> None:
    assert {(module, name) for module, name in shown() if name not in PUBLIC.get(module, ())} == set()


def test_a_name_that_is_imported_when_it_is_asked_for_is_what_a_type_checker_sees() -> None:
    package = importlib.import_module("kafka_partition_events")
    tree = ast.parse(Path(package.__file__ or "").read_text(encoding="utf-8"))
    (checked,) = (
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.name: (node.module or "").removeprefix("kafka_partition_events.")
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == package._HOME
    assert set(dir(package)) >= {*seen, "__version__"}
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


def test_each_extra_is_documented() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [name for name in EXTRAS if f"| `{name}` |" not in page] == []


def test_all_means_all_but_the_service_and_the_demo() -> None:
    (all_,) = EXTRAS["all"]
    named = set(all_.partition("[")[2].rstrip("]").split(","))
    assert EXTRAS.keys() - named <= {"all", "observe", "demo"}
