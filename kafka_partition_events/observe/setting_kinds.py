"""What kinds of values settings have, as types: what each expects in words, and how it is read. Pure."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args, get_origin
from urllib.parse import urlsplit

from kafka_partition_events.observe.quantities import A_DURATION, A_SIZE, parse_duration, parse_size

Text = Annotated[str, "Text"]
Secret = Annotated[str, "Secret"]
Name = Annotated[str, "Name"]
Pattern = Annotated[str, "Pattern"]
Url = Annotated[str, "Url"]
SecretUrl = Annotated[str, "SecretUrl"]
Seconds = Annotated[float, "Seconds"]
Bytes = Annotated[int, "Bytes"]
Count = Annotated[int, "Count"]
Address = Annotated[tuple[str, int], "Address"]
Properties = Annotated[Mapping[str, str], "Properties"]
Headers = Annotated[Mapping[str, str], "Headers"]

SECRETS: Final = frozenset({Secret, SecretUrl, Headers, tuple[Secret, ...], Secret | None, SecretUrl | None})
"""The kinds that are never shown, and that ``NAME_file`` may hold."""

_URL_SCHEMES = ("https", "http")


def shown(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str)


def masked(value: object) -> str:
    """Return what may be shown of a secret: of a URL the host, of everything else nothing."""
    if isinstance(value, str):
        try:
            url = urlsplit(value)
            port = "" if url.port is None else f":{url.port}"
        except ValueError:
            return "***"
        if url.scheme in _URL_SCHEMES and url.hostname:
            return f"{url.scheme}://{url.hostname}{port}/***"
    return "***"


# -- how they are read: ValueError, TypeError or LookupError for what is something else ---------------------


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    return value  # as it is: it may know the file that it was read from


def _name(value: object) -> str:
    text = _text(value)
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", text) is None:
        raise ValueError(value)
    return text


def _boolean(value: object) -> bool:
    if isinstance(value, str):  # of the environment or the command line
        return {"true": True, "false": False}[value.lower()]
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


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


def _count(value: object) -> int:
    number = int(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(value)
    return number


def _property(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float):
        raise TypeError(value)
    return str(value)


def _table(value: object, read: Callable[[object], str]) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return {name: read(each) for name, each in value.items()}


KINDS: Final[Mapping[Any, tuple[str, Callable[[Any], Any]]]] = {
    Text: ("a text", _text),
    Secret: ("a text", _text),
    Name: ("a name of letters, digits, - and _", _name),
    Pattern: ("a regular expression", _pattern),
    Url: ("an http:// or https:// URL", _url),
    SecretUrl: ("an http:// or https:// URL", _url),
    Seconds: (f"a duration: {A_DURATION}", lambda value: parse_duration(_text(value))),
    Bytes: (f"a size: {A_SIZE}", lambda value: parse_size(_text(value))),
    Count: ("a whole number of at least 1", _count),
    Address: ("an address such as 127.0.0.1:9404", _address),
    Properties: ("a table of librdkafka's properties", lambda value: _table(value, _property)),
    Headers: ("a table of texts", lambda value: _table(value, _text)),
    bool: ("true or false", _boolean),
}


def expected(kind: Any) -> str:
    """Return in words what a value of a kind has to be; what follows "is not"."""
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in arguments)
    if get_origin(kind) is tuple:
        return f"a list; each {expected(arguments[0])}"
    return KINDS[kind][0] if kind in KINDS else expected(arguments[0])  # of an optional one


def read(kind: Any, value: object) -> Any:
    """Return a value of a kind.

    Raises:
        ValueError: it is something else; the message says what it is, if that is no secret, and what it has
            to be.
    """
    try:
        if get_origin(kind) is Literal:
            return get_args(kind)[get_args(kind).index(value)]
        return KINDS[kind][1](value)
    except (ValueError, LookupError, TypeError):
        text = masked(value) if kind in SECRETS or kind == Properties else shown(value)
        raise ValueError(f"{text} is not {expected(kind)}") from None


# -- properties of librdkafka ------------------------------------------------------------------------------

_SECRET = re.compile(
    r"password|passphrase|secret|token(?!\.endpoint)|jaas|oauthbearer\.(config|extensions)|(private|keystore)\.key|key\.pem"
)
_CODE = re.compile(r"plugin\.library\.paths|sasl\.kerberos\.kinit\.cmd|ssl\.engine\..*|ssl\.providers")
_IN_A_SHELL = re.compile(r"sasl\.kerberos\.(principal|keytab|service\.name)")
_SHELL = re.compile(r"""[;&|<>$`"'\\(){}*?!#~\s]""")


def secret_property(name: str) -> bool:
    """Return whether the value of a librdkafka property is a secret."""
    return _SECRET.search(name) is not None


def runs_code(name: str, value: str) -> bool:
    """Return whether a librdkafka property makes the process load or run what the value names.

    The settings of Kerberos go into a command line for a shell.
    """
    if _IN_A_SHELL.fullmatch(name):
        return _SHELL.search(value) is not None
    return _CODE.fullmatch(name) is not None
