"""The service's configuration: command line over environment over file over defaults, each with its origin.

The environment names a setting by its path: ``KPE_OBSERVER__INTERVAL`` is ``interval`` in ``[observer]``,
``KPE_KAFKA__PROPERTIES__SASL_USERNAME`` is librdkafka's ``sasl.username``, ``KPE_SINKS__PAGER__URL`` is the
``url`` of the sink named ``pager``. A secret ``NAME`` may also be given as ``NAME_file``, the path of a file
that holds it. What is misspelt is an error that names the nearest setting; all errors are told at once.
"""

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from kafka_partition_events.clients.librdkafka import FromFile
from kafka_partition_events.control.protocol.legible import legible
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.file_modes import readable_by_all
from kafka_partition_events.observe.setting_kinds import (
    NAME,
    PROPERTIES,
    Kind,
    Setting,
    key_file_property,
    masked,
    runs_code,
    secret_property,
    settings_of,
    shown,
)
from kafka_partition_events.observe.settings import SECTIONS, ClusterSettings, Settings, Window
from kafka_partition_events.observe.sink_settings import SINK_TYPES

_PREFIX = "KPE_"
_NESTED = "__"
_FILE = "_file"
_LISTS = ("sinks", "windows", "clusters")
_OF_ONE_KIND: Mapping[str, type] = {"windows": Window, "clusters": ClusterSettings}
_DEFAULT = "default"
_CODE_ALLOWED = "kafka.allow_code"
_TAKEN = "sinks.incidents"  # what derives incidents from the journal reads under that name
_BY_PLACE = "#"  # in the path of what has no name, before its place in the file
COMMAND_LINE = "command line"
_MOST_PROBLEMS = 100
_LONGEST_PROBLEM = 2_000


class ConfigError(ConfigurationError):
    """The configuration is wrong.

    Attributes:
        problems: One line for each error: where, which setting, what it is, what it has to be. Of a hundred
            at most, each cut where it is too long to be read.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        found = list(problems)
        more = [f"and {len(found) - _MOST_PROBLEMS:,} more"] if len(found) > _MOST_PROBLEMS else []
        self.problems = tuple(legible(problem, _LONGEST_PROBLEM) for problem in found[:_MOST_PROBLEMS] + more)
        super().__init__("; ".join(self.problems))


@frozen(kw_only=True)
class Shown:
    """One setting as it may be shown.

    Attributes:
        key: Its path, such as ``observer.interval``.
        value: As TOML writes it, masked if it is a secret; empty for none.
        origin: Who has set it.
    """

    key: str
    value: str
    origin: str


@frozen(kw_only=True)
class Config:
    """The settings in force, and where each one comes from."""

    settings: Settings
    values: tuple[Shown, ...]
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """What must not be told, wherever it turns up: values of secrets."""
    exposed: tuple[str, ...] = ()
    """Files with secrets that every user of the machine can read."""


@frozen(kw_only=True)
class _Given:
    """What somebody has set a setting to, unread."""

    value: Any
    origin: str
    is_text: bool = False
    in_file: bool = False


_Layer = dict[str, _Given]


def load_config(
    path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, str] | None = None
) -> Config:
    """Read the configuration.

    Args:
        path: The TOML file, if there is one.
        environ: The environment.
        overrides: What the command line says: texts by the settings' paths.

    Raises:
        ConfigError: it is wrong; all that is wrong is told.
    """
    return _Reader(path).read(_document(path), f"file {path}", environ, overrides or {})


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


class _Reader:
    """Reads one configuration and collects what is wrong with it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._secrets: set[str] = set()
        self._private: dict[str, None] = {}  # paths of files that hold secrets, in order
        self._problems: list[str] = []
        self._values: list[Shown] = []
        self._sections: dict[str, type] = dict(SECTIONS)  # by path, with those of the sinks
        self._variables = set(map(_variable, SECTIONS))

    def read(
        self,
        document: Mapping[str, Any],
        origin: str,
        environ: Mapping[str, str],
        overrides: Mapping[str, str],
    ) -> Config:
        in_file = self._from_file(document, origin)
        given = {**in_file, **self._from_environment(environ), **self._from_command_line(overrides)}
        sections = {path: self._build(path, section, given) for path, section in self._sections.items()}
        if self._problems:
            raise ConfigError(self._problems)
        parts: dict[str, Any] = {path: sections[path] for path in SECTIONS}
        for name in _LISTS:
            parts[name] = tuple(part for path, part in sections.items() if path.startswith(f"{name}."))
        settings = Settings(**parts)
        try:
            settings.by_cluster()
        except ConfigurationError as error:
            raise ConfigError([str(error)]) from error
        if settings.http.tls_cert is not None:
            self._private[settings.http.tls_key or settings.http.tls_cert] = None
        return Config(
            settings=settings,
            values=tuple(self._values),
            secrets=frozenset(self._secrets),
            exposed=tuple(filter(readable_by_all, self._private)),
        )

    # -- layers --------------------------------------------------------------------------------------

    def _from_file(self, document: Mapping[str, Any], origin: str) -> _Layer:
        layer: _Layer = {}
        for name, body in document.items():
            if name in _LISTS:
                self._add_list(layer, name, body, origin)
            elif name not in SECTIONS:
                self._unknown(origin, name, [*SECTIONS, *_LISTS])
            elif not isinstance(body, dict):
                self._problems.append(f"{origin}: {name}: has to be a section, [{name}]")
            else:
                self._add_section(layer, name, body, origin)
        return layer

    def _add_list(self, layer: _Layer, list_: str, body: object, origin: str) -> None:
        if not isinstance(body, list) or not all(isinstance(item, dict) for item in body):
            self._problems.append(f"{origin}: {list_}: have to be sections, [[{list_}]] each")
            return
        for place, item in enumerate(body, start=1):
            path = self._path_of(list_, place, item, origin)
            type_ = item.get("type")
            section = _OF_ONE_KIND.get(list_) or SINK_TYPES.get(str(type_))
            if section is None:
                choices = "one of " + ", ".join(f'"{choice}"' for choice in SINK_TYPES)
                hint = _nearest(type_, SINK_TYPES)
                self._problems.append(f"{origin}: {path}.type: has to be {choices}{hint}")
                continue
            self._sections[path] = section
            named = item if _BY_PLACE not in path else {**item, "name": "nameless"}  # which has been told
            self._add_section(layer, path, named, origin)

    def _path_of(self, list_: str, place: int, item: Mapping[str, Any], origin: str) -> str:
        """Return the path of a sink or a window: by its name, or by its place if that is of no use.

        So all else that is wrong with it is told, too.
        """
        by_place = f"{list_}.{_BY_PLACE}{place}"
        try:
            path = f"{list_}.{NAME.read(item.get('name'))}"
        except ValueError:
            self._problems.append(f"{origin}: {by_place}.name: has to be {NAME.expected}")
            return by_place
        if path == _TAKEN:
            self._problems.append(f"{origin}: {path}: the outbox has a reader of that name already")
            return by_place
        if _variable(path) in self._variables:
            self._problems.append(f"{origin}: {path}: there are two {list_} of that name")
            return by_place
        self._variables.add(_variable(path))
        return path

    def _add_section(self, layer: _Layer, path: str, body: Mapping[str, Any], origin: str) -> None:
        settings = settings_of(self._sections[path])
        for name, value in body.items():
            held = settings.get(name.removesuffix(_FILE))
            if name in settings and settings[name].kind.items is not None:
                self._add_table(layer, f"{path}.{name}", settings[name], value, origin)
            elif name in settings:
                self._put(layer, f"{path}.{name}", _Given(value=value, origin=origin))
            elif held is not None and held.in_file:
                key = f"{path}.{name.removesuffix(_FILE)}"
                self._put(layer, key, _Given(value=value, origin=origin, in_file=True))
            else:
                self._unknown(origin, f"{path}.{name}", self._known())

    def _add_table(self, layer: _Layer, key: str, setting: Setting, body: object, origin: str) -> None:
        if not isinstance(body, dict):
            self._problems.append(f"{origin}: {key}: has to be {setting.kind.expected}")
            return
        for name, value in _flattened(body):
            given = _Given(value=value, origin=origin, in_file=name.endswith(_FILE))
            self._put(layer, f"{key}.{name.removesuffix(_FILE)}", given)

    def _from_environment(self, environ: Mapping[str, str]) -> _Layer:
        layer: _Layer = {}
        tables = {_variable(key): key for key, setting in self._settings() if setting.kind is PROPERTIES}
        known = {_variable(key): key for key in self._known(tables=False) if _BY_PLACE not in key}
        files = {f"{key}{_FILE}" for key, setting in self._settings() if setting.in_file}
        for name, text in sorted(environ.items()):
            if not name.startswith(_PREFIX) or _NESTED not in name:
                continue  # KPE_CONFIG and the like: settings are in sections
            given = _Given(value=text, origin=f"environment {name}", is_text=True)
            table, _, property_ = name.rpartition(_NESTED)
            key = known.get(name)
            if table in tables:
                named, in_file = _property_of(property_)
                self._put(layer, f"{tables[table]}.{named}", evolve(given, in_file=in_file))
            elif key is None:
                self._unknown("environment", name, known, _NESTED)
            elif key in files:
                self._put(layer, key.removesuffix(_FILE), evolve(given, in_file=True))
            else:
                self._put(layer, key, given)
        return layer

    def _from_command_line(self, overrides: Mapping[str, str]) -> _Layer:
        return {key: _Given(value=text, origin=COMMAND_LINE, is_text=True) for key, text in overrides.items()}

    def _put(self, layer: _Layer, key: str, given: _Given) -> None:
        if key in layer:
            self._problems.append(f"{given.origin}: {key}: is given twice, as a value and as a file")
        layer[key] = given

    def _settings(self) -> Iterator[tuple[str, Setting]]:
        for path, section in self._sections.items():
            for name, setting in settings_of(section).items():
                yield f"{path}.{name}", setting

    def _known(self, *, tables: bool = True) -> Iterator[str]:
        """Yield the paths of settings, with those of files; not of what is in tables."""
        for key, setting in self._settings():
            if tables or setting.kind.items is None:
                yield key
                if setting.in_file and not setting.kind.items:
                    yield f"{key}{_FILE}"

    def _unknown(self, origin: str, name: str, known: Iterable[str], separator: str = ".") -> None:
        """Complain, and name what may be meant: the nearest beside it, or what is called so elsewhere."""
        if (
            len(self._problems) > _MOST_PROBLEMS
        ):  # nobody will see it, and looking for a name takes a millisecond
            self._problems.append(name)
            return
        path, _, last = name.rpartition(separator)
        parted = [(key.rpartition(separator), key) for key in known]
        beside = {its_last: key for (its_path, _, its_last), key in parted if its_path == path}
        anywhere = {its_last: key for (_, _, its_last), key in parted}
        if near := difflib.get_close_matches(last, beside, n=1):
            hint = f"did you mean {beside[near[0]]}?"
        elif near := difflib.get_close_matches(last, anywhere, n=1, cutoff=0.8):
            hint = f"did you mean {anywhere[near[0]]}?"
        else:
            hint = f"there are {', '.join(beside or anywhere)}"
        self._problems.append(f"{origin}: {name}: there is no such setting; {hint}")

    # -- values --------------------------------------------------------------------------------------

    def _build(self, path: str, section: type, given: _Layer) -> Any:
        values: dict[str, Any] = {}
        for name, setting in settings_of(section).items():
            key = f"{path}.{name}"
            if setting.kind.items is not None:
                values[name] = self._table(key, setting, setting.kind.items, given)
            elif key in given:
                values[name] = self._value(key, setting, given[key])
            elif setting.required:
                self._problems.append(f"{key}: is missing; it has to be {setting.kind.expected}")
            else:
                text = "" if setting.default is None else shown(setting.default)
                self._values.append(Shown(key=key, value=text, origin=_DEFAULT))
        return None if self._problems else section(**values)

    def _table(self, key: str, table: Setting, items: Kind, given: _Layer) -> dict[str, Any]:
        prefix = f"{key}."
        found = {}
        for path in [path for path in given if path.startswith(prefix)]:
            name = path.removeprefix(prefix)
            if table.kind is PROPERTIES and name == "bootstrap.servers":
                instead = f"{key.rpartition('.')[0]}.bootstrap_servers"
                self._problems.append(f"{given[path].origin}: {path}: set {instead} instead")
                continue
            secret = table.secret or (table.kind is PROPERTIES and secret_property(name))
            found[name] = value = self._value(path, Setting(items, secret=secret), given[path])
            if table.kind is PROPERTIES and value is not None:
                self._look_at(name, value, path, given)
        return found

    def _look_at(self, name: str, value: str, path: str, given: _Layer) -> None:
        """Refuse a property that is code, and remember one that names a key."""
        if key_file_property(name):
            self._private[value] = None
        allowed = given.get(_CODE_ALLOWED)
        if runs_code(name, value) and (allowed is None or str(allowed.value).lower() != "true"):
            self._problems.append(
                f"{given[path].origin}: {path}: this setting runs code in the service; "
                f"set {_CODE_ALLOWED} = true if that is meant"
            )

    def _value(self, key: str, setting: Setting, given: _Given) -> Any:
        """Return the value that is meant, None if there is none."""
        told = masked if setting.secret or given.in_file else shown
        raw, origin, is_text = given.value, given.origin, given.is_text
        if given.in_file:
            try:
                raw, is_text = FromFile.read(given.value), True
            except (OSError, TypeError, ValueError) as error:  # the last: no text, or a path with a NUL
                cause = getattr(error, "strerror", None) or "not a text file"
                self._problems.append(f"{origin}: {key}{_FILE}: {shown(given.value)}: {cause}")
                return None
            origin = f"{origin}: {given.value}"
        try:
            raw = setting.kind.parse(raw) if is_text else raw
            value = setting.kind.read(raw)
        except (ValueError, LookupError, TypeError):
            expected = f"{setting.kind.expected}{_nearest(raw, setting.kind.choices)}"
            self._problems.append(f"{given.origin}: {key}: {told(raw)} is not {expected}")
            return None
        if setting.secret:
            self._keep(raw, given)
        self._values.append(Shown(key=key, value=told(raw), origin=origin))
        return value

    def _keep(self, secret: object, given: _Given) -> None:
        """Remember a secret, to keep it out of logs, and the file that has it."""
        self._secrets.update(map(str, secret if isinstance(secret, list) else [secret]))
        if given.in_file:
            self._private[str(given.value)] = None
        elif self._path is not None and given.origin == f"file {self._path}":
            self._private[str(self._path)] = None


def _variable(key: str) -> str:
    """Return how the environment calls a setting."""
    return _PREFIX + key.replace("-", "_").replace(".", _NESTED).upper()


def _nearest(word: object, choices: Iterable[str]) -> str:
    """Return a hint at the choice that is meant; nothing if none resembles it."""
    near = difflib.get_close_matches(word.lower(), choices, n=1) if isinstance(word, str) else []
    return f'; did you mean "{near[0]}"?' if near else ""


def _property_of(variable: str) -> tuple[str, bool]:
    """Return which of librdkafka's properties a variable's name ends in, and whether a file holds it.

    ``_FILE`` means that for secrets only: librdkafka has properties of its own that end so.
    """
    name = variable.lower().replace("_", ".")
    held = name.removesuffix(".file")
    return (held, True) if held != name and secret_property(held) else (name, False)


def _flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values; TOML makes tables of names with dots unless they are quoted."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
