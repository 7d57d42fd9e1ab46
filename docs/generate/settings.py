"""The page of the settings in `kpe.toml`, from the classes that read them."""

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from docs.generate.markdown import code, prose, table
from kafka_partition_events.observe.setting_kinds import SECRETS, Address, Bytes, Seconds, expected, shown
from kafka_partition_events.observe.settings import SECTIONS, SINK_TYPES

_INTRODUCTION = """# Settings of `kpe.toml`

For `kpe observe` and `kpe tracker`. `kpe config show --config kpe.toml` shows what is set, and where;
`kpe assets export DIRECTORY` writes an example. How files, environment and options go together:
[Configuration](../observe.md#configuration).

*Secret*: never shown, and `NAME_file` may name a file that holds it.
"""


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for name, section in SECTIONS.items():
        parts.extend(_section(f"[{name}]", section, f"KPE_{name.upper()}__"))
    for type_, section in SINK_TYPES.items():
        parts.extend(_section(f'[[sinks]] type = "{type_}"', section))
    return "\n".join(parts)


def _section(title: str, section: type, environment: str | None = None) -> Iterator[str]:
    yield f"## `{title}`\n"
    yield prose((section.__doc__ or "").partition("\n\n    Attributes:")[0]).replace("\n    ", "\n") + "\n"
    if environment is not None:
        yield f"In the environment: `{environment}` and the setting's name in capitals.\n"
    rows = [(code(field.name), expected(field.type), _default(field)) for field in attrs.fields(section)]
    yield table(("setting", "is", "default"), rows)


def _default(field: "attrs.Attribute[Any]") -> str:
    if field.default is attrs.NOTHING:
        words = ["required"]
    else:
        words = [code(_as_text(field.type, field.default))] if field.default else []
    return ", ".join(words + (["*secret*"] if field.type in SECRETS else []))


def _as_text(kind: Any, value: Any) -> str:
    """Return a value as the file has it, units and all."""
    if kind == Seconds:
        return shown(_quantity(value, {"d": 86_400, "h": 3_600, "m": 60, "s": 1}, "ms", 0.001))
    if kind == Bytes:
        return shown(_quantity(value, {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}, "B", 1))
    return shown("{}:{}".format(*value)) if kind == Address else shown(value)


def _quantity(value: float, units: Mapping[str, float], smallest: str, size: float) -> str:
    unit, of = next(((u, s) for u, s in units.items() if value >= s and value % s == 0), (smallest, size))
    return f"{value / of:g}{unit}"
