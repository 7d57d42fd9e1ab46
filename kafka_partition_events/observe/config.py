"""The service's configuration: command line over environment over file over defaults, each with its origin.

The environment names a setting by its path: ``KPE_OBSERVER__INTERVAL`` is ``interval`` in ``[observer]``,
``KPE_KAFKA__PROPERTIES__SASL_USERNAME`` is librdkafka's ``sasl.username``. A secret ``NAME`` may also be
given as ``NAME_file``, the path of a file that holds it. All errors are reported at once, each with its path.
A command names the sections that it uses; others are not checked.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_origin

import attrs
from attrs import field, frozen

from kafka_partition_events.clients.librdkafka import FromFile
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.legible import legible
from kafka_partition_events.observe.setting_kinds import (
    KINDS,
    SECRETS,
    Headers,
    Properties,
    expected,
    masked,
    read,
    runs_code,
    secret_property,
    shown,
)
from kafka_partition_events.observe.settings import ALL, SECTIONS, SINK_TYPES, Settings

COMMAND_LINE: Final = "command line"
_PREFIX: Final = "KPE_"
_NESTED: Final = "__"
_FILE: Final = "_file"
_TWICE: Final = "is given twice, as a value and as a file"
_TEMPLATE: Final = "template"  # no secret, but so long that it has a file of its own
_TABLES: Final = (Properties, Headers)
_MOST_PROBLEMS: Final = 100
_LONGEST_PROBLEM: Final = 2_000


class ConfigError(ConfigurationError):
    """The configuration is wrong.

    Attributes:
        problems: One line for each error: who set which setting, what it is, what it has to be. Of a hundred
            at most, each cut where it is too long to be read.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        found = list(problems)
        more = [f"and {len(found) - _MOST_PROBLEMS:,} more"] if len(found) > _MOST_PROBLEMS else []
        self.problems = tuple(legible(problem, _LONGEST_PROBLEM) for problem in found[:_MOST_PROBLEMS] + more)
        super().__init__("; ".join(self.problems))


@frozen(kw_only=True)
class Shown:
    """A setting that is set, as it may be shown: its path, its value as given (masked), who has set it."""

    key: str
    value: Any
    origin: str


@frozen(kw_only=True)
class Config:
    """The settings in force, and where those come from that are set."""

    settings: Settings
    values: tuple[Shown, ...]
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """What must not be shown, wherever it turns up: values of secrets."""


def load_config(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    sections: Collection[str] = ALL,
) -> Config:
    """Read the configuration.

    Args:
        path: The TOML file, if there is one.
        environ: The environment.
        overrides: What the command line says: texts by the settings' paths.
        sections: Those that are used; what is wrong with others, or is no section, is passed over unless all
            are.

    Raises:
        ConfigError: it is wrong; all that is wrong is reported.
    """
    layers = _Layers(sections)
    layers.add_document(_document(path), f"file {path}")
    layers.add_environment(environ)
    layers.add_texts(overrides or {}, COMMAND_LINE)
    return layers.read()


def _document(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not a text file in UTF-8"]) from error
    except RecursionError as error:
        raise ConfigError([f"{path}: not TOML: it is nested too deeply"]) from error
    except ValueError as error:  # TOMLDecodeError, or a number of too many digits
        raise ConfigError([f"{path}: not TOML: {error}"]) from error


class _Layers:
    """Sections as TOML has them, each setting as the last layer set it; and what is wrong with them."""

    def __init__(self, sections: Collection[str]) -> None:
        self._sections = {name: section for name, section in SECTIONS.items() if name in sections}
        self._whole = frozenset(sections) == ALL
        self._sinks_used = "sinks" in sections
        self._bodies: dict[str, dict[str, Any]] = {name: {} for name in self._sections}
        self._set: dict[str, Shown] = {}
        self._problems: list[str] = []

    # -- layers --------------------------------------------------------------------------------------

    def add_document(self, document: Mapping[str, Any], origin: str) -> None:
        for name, body in document.items():
            if name in self._sections:
                if isinstance(body, dict):
                    self._merge(name, body, origin)
                else:
                    self._problems.append(f"{origin}: {name}: has to be a section, [{name}]")
            elif name == "sinks":
                self._add_sinks(body if self._sinks_used else [], origin)
            elif name not in SECTIONS and self._whole:
                there = ", ".join(sorted(ALL))
                self._problems.append(f"{origin}: {name}: there is no such section; there are {there}")

    def _add_sinks(self, body: object, origin: str) -> None:
        if not isinstance(body, list) or not all(isinstance(item, dict) for item in body):
            self._problems.append(f"{origin}: sinks: have to be sections, [[sinks]] each")
            return
        for place, item in enumerate(body, start=1):
            name = item.get("name")
            usable = isinstance(name, str) and re.fullmatch(r"[\w-]+", name, re.ASCII) is not None
            path = f"sinks.{name}" if usable else f"sinks.#{place}"
            type_ = item.get("type")
            if path in self._bodies:
                self._problems.append(f"{origin}: {path}: there are two sinks of that name")
            elif not isinstance(type_, str) or type_ not in SINK_TYPES:
                choices = ", ".join(f'"{choice}"' for choice in SINK_TYPES)
                self._problems.append(f"{origin}: {path}.type: {shown(type_)}: has to be one of {choices}")
            else:
                self._sections[path], self._bodies[path] = SINK_TYPES[type_], {}
                self._merge(path, item, origin)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for variable, text in sorted(environ.items()):
            head, separator, rest = variable.removeprefix(_PREFIX).partition(_NESTED)
            section = head.lower()
            if not variable.startswith(_PREFIX) or not separator:
                continue  # KPE_CONFIG and the like: settings are in sections
            if section not in self._sections:
                if self._whole:
                    self._problems.append(f"environment {variable}: there is no such section")
                continue
            name, nested, property_ = rest.lower().partition(_NESTED)
            key = {name: {_property_of(property_): text}} if nested else {name: text}
            self._merge(section, key, f"environment {variable}")

    def add_texts(self, texts: Mapping[str, str], origin: str) -> None:
        for path, text in texts.items():
            section, _, name = path.partition(".")
            name, nested, property_ = name.partition(".")
            if section in self._sections:
                self._merge(section, {name: {property_: text}} if nested else {name: text}, origin)

    def _merge(self, path: str, body: Mapping[str, Any], origin: str) -> None:
        known = {attribute.name: attribute.type for attribute in attrs.fields(self._sections[path])}
        into = self._bodies[path]
        for name, value in body.items():
            plain = name.removesuffix(_FILE)
            if known.get(name) in _TABLES and isinstance(value, dict):
                table, given = into.setdefault(name, {}), dict(_flattened(value))
                if not isinstance(table, dict):
                    continue  # what an earlier layer says is refused as it stands
                for property_, each in given.items():
                    plain = property_.removesuffix(_FILE)
                    key, in_file = f"{path}.{name}.{plain}", plain != property_
                    if in_file and plain in given:
                        self._problems.append(f"{key}: {_TWICE}")
                    table[plain] = self._held(key, each) if in_file else each
                    secret = known[name] == Headers or secret_property(plain)
                    self._note(key, table[plain], origin, secret=secret)
            elif name not in known and (
                known.get(plain) in SECRETS or (plain == _TEMPLATE and plain in known)
            ):
                if plain in body:
                    self._problems.append(f"{path}.{plain}: {_TWICE}")
                text = self._held(f"{path}.{plain}", value)
                into[plain] = re.findall(r"[^,\s]+", text) if get_origin(known[plain]) is tuple else text
                self._note(f"{path}.{plain}", text, f"{origin}: {value}", secret=plain != _TEMPLATE)
            else:
                into[name] = value
                self._note(f"{path}.{name}", value, origin, secret=known.get(name) in SECRETS)

    def _note(self, key: str, value: object, origin: str, *, secret: bool) -> None:
        self._set[key] = Shown(key=key, value=masked(value) if secret else value, origin=origin)

    def _held(self, key: str, path: object) -> str:
        try:
            return FromFile.read(path)  # type: ignore[arg-type]  # what is no path is refused
        except (OSError, TypeError, ValueError) as error:  # the last: no text, or a path with a NUL
            cause = getattr(error, "strerror", None) or "not a text file"
            self._problems.append(f"{key}{_FILE}: {shown(path)}: {cause}")
            return "?"

    # -- values --------------------------------------------------------------------------------------

    def read(self) -> Config:
        built = {path: self._built(path, section) for path, section in self._sections.items()}
        self._refuse_code(built)
        if self._problems:
            raise ConfigError(self._problems)
        sinks = tuple(section for path, section in built.items() if path.startswith("sinks."))
        settings = Settings(sinks=sinks, **{name: built[name] for name in SECTIONS if name in built})
        secrets = {secret for section in built.values() for secret in _secrets_of(section)}
        shown = tuple(self._set[key] for key in sorted(self._set))
        return Config(settings=settings, values=shown, secrets=frozenset(secrets))

    def _built(self, path: str, section: type) -> Any:
        from cattrs.errors import ClassValidationError  # noqa: PLC0415 - takes a tenth of a second

        try:
            return _converter().structure(self._bodies[path], section)
        except ClassValidationError as error:
            for key, problem in _problems_of(error, path, section):
                self._complain(key, problem)
            return None

    def _complain(self, key: str, problem: str) -> None:
        found = self._set.get(key)
        self._problems.append(f"{key}: {problem}" if found is None else f"{found.origin}: {key}: {problem}")

    def _refuse_code(self, built: Mapping[str, Any]) -> None:
        allowed = built.get("kafka") is not None and built["kafka"].allow_code
        for path, section in built.items():
            properties = dict(getattr(section, "properties", {}))
            for name, value in properties.items():
                if runs_code(name, value) and not allowed:
                    self._complain(
                        f"{path}.properties.{name}",
                        "this setting runs code in the service; set kafka.allow_code = true if that is meant",
                    )
            if "bootstrap.servers" in properties:
                self._complain(
                    f"{path}.properties.bootstrap.servers", f"set {path}.bootstrap_servers instead"
                )


@cache
def _converter() -> Any:
    from cattrs import Converter  # noqa: PLC0415 - takes a tenth of a second

    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(bool, lambda value, type_: read(type_, value))
    converter.register_structure_hook_func(
        lambda type_: type_ in KINDS or _origin(type_) is Literal, lambda value, type_: read(type_, value)
    )
    converter.register_structure_hook_func(lambda type_: _origin(type_) is tuple, _items)
    return converter


def _origin(type_: Any) -> Any:
    return get_origin(type_)


def _items(value: object, type_: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"{masked(value) if type_ in SECRETS else shown(value)} is not {expected(type_)}")
    return tuple(read(type_.__args__[0], each) for each in value)


def _problems_of(error: Any, path: str, section: type) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a section, by the path of the setting."""
    from cattrs.errors import AttributeValidationNote, ForbiddenExtraKeysError  # noqa: PLC0415

    for each in error.exceptions:
        if isinstance(each, ForbiddenExtraKeysError):
            there = ", ".join(attribute.name for attribute in attrs.fields(section))
            for name in sorted(each.extra_fields):
                yield f"{path}.{name}", f"there is no such setting; there are {there}"
            continue
        name = next(note.name for note in each.__notes__ if isinstance(note, AttributeValidationNote))
        if isinstance(each, KeyError):
            kind = attrs.fields_dict(section)[name].type
            yield f"{path}.{name}", f"is missing; it has to be {expected(kind)}"
        else:
            yield f"{path}.{name}", str(each.args[0] if each.args else each)


def _secrets_of(section: Any) -> Iterator[str]:
    for attribute in attrs.fields(type(section)):
        value = getattr(section, attribute.name)
        if attribute.type == Properties:
            yield from (each for name, each in value.items() if secret_property(name))
        elif attribute.type in SECRETS and value:
            yield from (
                value.values() if isinstance(value, Mapping) else [value] if isinstance(value, str) else value
            )


def _property_of(variable: str) -> str:
    """Return which of librdkafka's properties a variable's name ends in.

    ``_FILE`` names a file for secrets only: librdkafka has properties of its own that end so.
    """
    name = variable.replace("_", ".")
    held = name.removesuffix(".file")
    return f"{held}{_FILE}" if held != name and secret_property(held) else name


def _flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values; TOML makes tables of names with dots unless they are quoted."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
