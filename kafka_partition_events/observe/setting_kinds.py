"""What kinds of values settings have. Pure."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_network
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
from attrs import frozen

from kafka_partition_events.metadata.clock import is_zone
from kafka_partition_events.observe.passwords import PasswordHash
from kafka_partition_events.observe.quantities import A_DURATION, A_SIZE, parse_duration, parse_size

_SETTING: Final = "kpe.setting"


@frozen
class Kind:
    """What a value has to be.

    Attributes:
        expected: The same in words; what follows "is not".
        read: Makes the value of what TOML holds.
        parse: Makes what TOML would hold of a text, which is all that an environment variable can be.
        items: Of a table, what each of its values has to be: each is a setting of its own.
        choices: All that it can be, if these are few fixed words.

    Both raise ValueError, TypeError or LookupError when it is something else.
    """

    expected: str
    read: Callable[[Any], Any]
    parse: Callable[[str], Any] = str
    items: "Kind | None" = None
    choices: tuple[str, ...] = ()


@frozen
class Setting:
    """What is known of one setting, beside its name.

    Attributes:
        kind: What its value has to be.
        default: As TOML would hold it; None for none.
        required: Whether somebody has to set it.
        secret: Whether it is never shown.
        in_file: Whether ``NAME_file`` may name a file that holds it. So it is with all secrets.
    """

    kind: Kind
    default: Any = None
    required: bool = False
    secret: bool = False
    in_file: bool = False


def setting(
    kind: Kind, default: Any = None, *, required: bool = False, secret: bool = False, in_file: bool = False
) -> Any:
    """Return an attrs field for one setting. Its arguments are those of `Setting`. No repr has a secret."""
    described = Setting(kind, default, required, secret, in_file=in_file or secret)
    value = attrs.NOTHING if required else None if default is None else kind.read(default)
    shown = not (described.secret or kind is PROPERTIES)
    return attrs.field(default=value, repr=shown, metadata={_SETTING: described})


def settings_of(section: type) -> Mapping[str, Setting]:
    """Return the settings of a section, an attrs class, by name."""
    return {
        field.name: field.metadata[_SETTING] for field in attrs.fields(section) if _SETTING in field.metadata
    }


def shown(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str)


def masked(value: object) -> str:
    """Return what may be told of a secret: of a URL the host, of everything else nothing."""
    if isinstance(value, str):
        try:
            url = urlsplit(value)
            port = "" if url.port is None else f":{url.port}"
        except ValueError:
            return "***"
        if url.scheme in _URL_SCHEMES and url.hostname:
            return f"{url.scheme}://{url.hostname}{port}/***"
    return "***"


# -- the kinds ---------------------------------------------------------------------------------------------

_URL_SCHEMES = ("https", "http")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value


def _name(value: object) -> str:
    text = _text(value)
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", text) is None:
        raise ValueError(value)
    return text


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(value)
    return tuple(_text(item) for item in value)


def _networks(value: object) -> tuple[str, ...]:
    return tuple(str(ip_network(text)) for text in _texts(value))


def _pattern(value: object) -> str:
    text = _text(value)
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:  # a{4294967296}, and ((((...
        raise ValueError(value) from error
    return text


def _address(value: object) -> tuple[str, int]:
    host, colon, port = _text(value).rpartition(":")
    if not (colon and host and 0 <= int(port) <= 65_535):
        raise ValueError(value)
    return host.strip("[]"), int(port)


def _url(value: object) -> str:
    text = _text(value)
    parts = urlsplit(text)
    if parts.scheme not in _URL_SCHEMES or not parts.hostname:
        raise ValueError(value)
    return text


def _urls(value: object) -> tuple[str, ...]:
    if not _texts(value):
        raise ValueError(value)
    return tuple(map(_url, _texts(value)))


def _weekly(value: object) -> tuple[str, ...]:
    day, time, *zone = _text(value).split(" ")
    if day not in {"mon", "tue", "wed", "thu", "fri", "sat", "sun"}:
        raise ValueError(value)
    if re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", time) is None:
        raise ValueError(value)
    if len(zone) > 1 or not all(map(is_zone, zone)):
        raise ValueError(value)
    return day, time, *zone


def _property(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # as it is: it may know the file that it was read from
        return value
    if not isinstance(value, int | float):
        raise TypeError(value)
    return str(value)


def whole_number(least: int) -> Kind:
    """Return the kind of whole numbers from ``least`` on."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(value)
        return value

    return Kind(f"a whole number of at least {least}", read, int)


def number(least: float) -> Kind:
    """Return the kind of numbers from ``least`` on."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(value)
        if not least <= value <= sys.float_info.max:
            raise ValueError(value)
        return float(value)

    return Kind(f"a number of at least {least:g}", read, float)


def some_of(*choices: str) -> Kind:
    """Return the kind of lists of some fixed words."""

    def read(value: object) -> tuple[str, ...]:
        texts = _texts(value)
        if set(texts) - set(choices):
            raise ValueError(value)
        return texts

    return Kind("a list of " + ", ".join(f'"{choice}"' for choice in choices), read, TEXTS.parse)


def one_of(*choices: str) -> Kind:
    """Return the kind of some fixed words."""

    def read(value: object) -> str:
        if value not in choices:
            raise ValueError(value)
        return str(value)

    return Kind("one of " + ", ".join(f'"{choice}"' for choice in choices), read, choices=choices)


TEXT = Kind("a text", _text)
TEXTS = Kind("a list of texts", _texts, lambda text: re.findall(r"[^,\s]+", text))
NETWORKS = Kind('a list of networks such as ["10.1.0.0/16"]', _networks, TEXTS.parse)
BOOLEAN = Kind("true or false", _boolean, lambda text: {"true": True, "false": False}[text.lower()])
DURATION = Kind(f"a duration: {A_DURATION}", lambda value: parse_duration(_text(value)))
SIZE = Kind(f"a size: {A_SIZE}", lambda value: parse_size(_text(value)))
NAME = Kind("a name of letters, digits, - and _", _name)
PATTERN = Kind("a regular expression", _pattern)
ADDRESS = Kind("an address such as 127.0.0.1:9404", _address)
URL = Kind("an http:// or https:// URL", _url)
URLS = Kind("a list of http:// or https:// URLs", _urls, TEXTS.parse)
WEEKLY = Kind('a day and a time such as "sun 02:30" (UTC) or "sun 02:30 Europe/Berlin"', _weekly)
PROPERTIES = Kind(
    "a table of librdkafka's properties",
    dict,
    items=Kind("a text, a number, true or false", _property, _property),
)
DURATIONS = Kind("a table of durations by regular expressions", dict, items=DURATION)
HEADERS = Kind("a table of texts", dict, items=TEXT)
PASSWORDS = Kind(
    "a table of hashes by users",
    dict,
    items=Kind("a hash that `kpe config hash-password` makes", lambda value: PasswordHash(_text(value))),
)

_SECRET = re.compile(
    r"password|passphrase|secret|token(?!\.endpoint)|jaas|oauthbearer\.(config|extensions)|(private|keystore)\.key|key\.pem"
)


def secret_property(name: str) -> bool:
    """Tell whether the value of a librdkafka property is a secret."""
    return _SECRET.search(name) is not None


_CODE = re.compile(r"plugin\.library\.paths|sasl\.kerberos\.kinit\.cmd|ssl\.engine\..*|ssl\.providers")
_IN_A_SHELL = re.compile(r"sasl\.kerberos\.(principal|keytab|service\.name)")
_SHELL = re.compile(r"""[;&|<>$`"'\\(){}*?!#~\s]""")


def runs_code(name: str, value: str) -> bool:
    """Tell whether a librdkafka property makes the process load or run what the value names.

    What Kerberos is told of goes into a command line for a shell.
    """
    if _IN_A_SHELL.fullmatch(name):
        return _SHELL.search(value) is not None
    return _CODE.fullmatch(name) is not None


def key_file_property(name: str) -> bool:
    """Tell whether the value of a librdkafka property is the path of a file with a key."""
    return name in {"ssl.key.location", "ssl.keystore.location", "sasl.kerberos.keytab"}
