"""librdkafka's properties: which say how to connect, what messages may show of them. Imports no client."""

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from kafka_partition_events.errors import ConfigurationError

_PREFIXES = ("ssl.", "sasl.", "socket.", "broker.address.", "reconnect.", "api.version.", "enable.ssl.")
_NAMES = frozenset({
    "bootstrap.servers", "metadata.broker.list", "security.protocol", "client.id", "client.dns.lookup",
    "client.rack", "broker.version.fallback", "enable.sasl.oauthbearer.unsecure.jwt", "oauth_cb",
    "resolve_cb",
    "connections.max.idle.ms", "receive.message.max.bytes", "log_level", "debug", "https.ca.location",
    "https.ca.pem", "plugin.library.paths",
})  # fmt: skip
"""Properties that say how to connect. Others (a transactional id, statistics, callbacks) would do harm to a
client that is not the user's own."""

_LONG_ENOUGH: Final = 4  # to be hidden wherever it is
_SHOWN: Final = frozenset({"bootstrap.servers", "sasl.username", "sasl.mechanism", "sasl.mechanisms"})

_FILES: Final = frozenset({
    "ssl.ca.location", "ssl.certificate.location", "ssl.crl.location", "ssl.key.location",
    "ssl.keystore.location",
})  # fmt: skip
"""Properties that name a file, which librdkafka reads once, when a client is made."""


class FromFile(str):
    """The value of a property that a file holds. It is read again for each connection: passwords are rotated.

    Attributes:
        path: The file.
    """

    __slots__ = ("path",)
    path: str

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a file.

        Raises:
            OSError, ValueError: it can't be read, or is no text in UTF-8.
        """
        value = cls(Path(path).read_text(encoding="utf-8").strip())
        value.path = path
        return value

    def __repr__(self) -> str:
        """Return where it is; the value may be a secret."""
        return f"FromFile({self.path!r})"

    def now(self) -> str:
        """Return what the file holds now; what it held before where it can't be read or is empty."""
        with contextlib.suppress(OSError, ValueError):
            return self.read(self.path) or self
        return self


def up_to_date(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's properties with what files hold now."""
    return {name: value.now() if isinstance(value, FromFile) else value for name, value in config.items()}


def connecting(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a client's properties that say how to connect, with what files hold now."""
    return up_to_date(
        {name: value for name, value in config.items() if name in _NAMES or name.startswith(_PREFIXES)}
    )


def login_of(config: Mapping[str, Any]) -> object:
    """Return what equals itself as long as a client that is made again would connect just as one made now.

    It would not, where a password or a certificate was replaced in its file.
    """
    settings, stamps = connecting(config), {}
    for name in _FILES & settings.keys():
        with contextlib.suppress(OSError, ValueError):
            found = Path(str(settings[name])).stat()
            stamps[name] = found.st_mtime_ns, found.st_ino, found.st_size
    return settings, stamps


def redacted(text: str, config: Mapping[str, str]) -> str:
    """Return a client's message without the values of properties, which may be secrets; but who, and how.

    librdkafka quotes what it refuses. A short value such as ``1`` is hidden only where it is quoted, or
    every 1 in the message would go.
    """
    for name, value in sorted(config.items(), key=lambda it: -len(str(it[1]))):  # one may hold another
        if name in _SHOWN or not value:
            continue
        for quote in "\"'":
            text = text.replace(f"{quote}{value}{quote}", "***")
        if len(value) >= _LONG_ENOUGH:
            text = text.replace(value, "***")
    return text


def refuse_greenlets() -> None:
    """Raise `ConfigurationError` where gevent or eventlet has taken the place of ``threading``."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    patched = gevent is not None and gevent.is_module_patched("threading")
    if patched or (eventlet is not None and eventlet.is_monkey_patched("thread")):
        raise ConfigurationError(
            "gevent or eventlet has patched threading, so each metadata request would stop all greenlets "
            "until it is answered (10 s while the brokers are down). Patch without threads, as "
            "gevent.monkey.patch_all(thread=False) does, or use a plain confluent_kafka.Producer"
        )
