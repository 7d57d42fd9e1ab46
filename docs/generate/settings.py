"""The page of the settings in `kpe.toml`, from the classes that read them."""

from collections.abc import Iterator

from docs.generate.markdown import code, prose, table
from kafka_partition_events.observe.setting_kinds import Setting, settings_of, shown
from kafka_partition_events.observe.settings import SECTIONS, ClusterSettings, Window
from kafka_partition_events.observe.sink_settings import SINK_TYPES

_INTRODUCTION = """# Settings of `kpe.toml`

For `kpe observe` and `kpe tracker`. `kpe config show --config kpe.toml` shows what is in force and where
it is set; `kpe assets export DIRECTORY` writes an example. How files, environment and options go together:
[Configuration](../observe.md#configuration).

*Secret*: never shown, and `NAME_file` may name a file that holds it.
"""


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for name, section in SECTIONS.items():
        parts.extend(_section(f"[{name}]", section, f"KPE_{name.upper()}__"))
    for type_, section in SINK_TYPES.items():
        parts.extend(_section(f'[[sinks]] type = "{type_}"', section, "KPE_SINKS__NAME__"))
    parts.extend(_section("[[windows]]", Window))
    parts.extend(_section("[[clusters]]", ClusterSettings))
    return "\n".join(parts)


def _section(title: str, section: type, environment: str | None = None) -> Iterator[str]:
    yield f"## `{title}`\n"
    yield prose((section.__doc__ or "").partition("\n\n    Attributes:")[0]).replace("\n    ", "\n") + "\n"
    if environment is not None:
        yield f"In the environment: `{environment}` and the setting's name in capitals.\n"
    rows = [
        (code(name), setting.kind.expected, _default(setting))
        for name, setting in settings_of(section).items()
    ]
    yield table(("setting", "is", "default"), rows)


def _default(setting: Setting) -> str:
    words = [] if setting.default is None else [code(shown(setting.default))]
    if setting.required:
        words.append("required")
    if setting.secret:
        words.append("*secret*")
    elif setting.in_file:
        words.append("*or* `NAME_file`")
    return ", ".join(words)
