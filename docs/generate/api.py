"""The pages of the Python API: which names are public, by the packages' own lists."""

import ast
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import kafka_partition_events

_TOP: Final = "kafka_partition_events"
_OF_THE_TOP: Final = {  # title -> where the names of the package itself are from
    "Partitioners": ("partitioners", "routing"),
    "Events": ("metadata.events",),
    "Metadata and listeners": ("metadata",),
    "Errors": ("errors",),
}
_MODULES: Final = {  # title -> modules with an `__all__`
    "confluent-kafka": ("clients.confluent",),
    "kafka-python": ("clients.kafka_python",),
    "aiokafka": ("clients.aiokafka",),
    "Ready-made listeners": ("listeners",),
    "Change control": ("control", "control.agents.confluent"),
    "Test kit": ("testing",),
    "Spark": ("spark.partition_column",),
}
_AGENTS: Final = ("ControlLink", "RebalanceHook")
"""The public names of ``control.agents.*``, which have no ``__all__``."""


def pages() -> Mapping[str, str]:
    """Return the pages by their paths in the site."""
    return {
        f"reference/api/{title.lower().replace(' ', '-')}.md": _page(title, modules)
        for title, modules in _contents().items()
    }


def public() -> Mapping[str, str]:
    """Return where each public name is, by the name; that of the package, where two are the same."""
    found = [(module, names) for modules in _contents().values() for module, names in modules]
    return {name: f"{module}.{name}" for module, names in reversed(found) for name in names}


def _contents() -> Mapping[str, list[tuple[str, list[str]]]]:
    """Return the titles of the pages, and of each the modules with their names."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    rest = _imported()
    for title, homes in _OF_THE_TOP.items():
        own = [name for name, home in rest.items() if home.startswith(homes)]
        found[title] = [(_TOP, own)]
        rest = {name: home for name, home in rest.items() if name not in own}
    if rest:
        raise LookupError(f"no page has these public names: {', '.join(rest)}")
    for title, modules in _MODULES.items():
        found[title] = [(f"{_TOP}.{module}", _public(module)) for module in modules]
    return found


def _imported() -> Mapping[str, str]:
    """Return which module of the package each of its public names is from."""
    tree = ast.parse(Path(kafka_partition_events.__file__).read_text(encoding="utf-8"))
    return {
        alias.name: (node.module or "").removeprefix(f"{_TOP}.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in kafka_partition_events.__all__
    }


def _public(module: str) -> list[str]:
    if module.startswith("control.agents."):
        return list(_AGENTS)
    return list(importlib.import_module(f"{_TOP}.{module}").__all__)


def _page(title: str, modules: Iterable[tuple[str, list[str]]]) -> str:
    parts = [f"# {title}\n"]
    for module, names in modules:
        parts.append(f"```python\nfrom {module} import ...\n```\n")
        parts += [f"::: {module}.{name}\n" for name in names]
    return "\n".join(parts)
