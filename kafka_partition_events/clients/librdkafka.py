"""librdkafka's properties: which of them say how to connect, and what of its messages may be told.

And where it can't be used. Imports no client.
"""

import sys
from collections.abc import Mapping
from typing import Any

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

_LONG_ENOUGH = 4


def connecting(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a client's properties that say how to connect."""
    return {name: value for name, value in config.items() if name in _NAMES or name.startswith(_PREFIXES)}


def redacted(text: str, config: Mapping[str, str]) -> str:
    """Return a client's message without the values of properties, which may be secrets.

    librdkafka quotes what it refuses. A short value such as ``1`` is hidden only where it is quoted, or
    every 1 in the message would go.
    """
    for name, value in config.items():
        if name == "bootstrap.servers" or not value:
            continue
        for quote in "\"'":
            text = text.replace(f"{quote}{value}{quote}", "***")
        if len(value) >= _LONG_ENOUGH:
            text = text.replace(value, "***")
    return text


def refuse_greenlets() -> None:
    """Raise where the thread that asks would be a greenlet: librdkafka would stop all of them while it waits.

    Raises:
        ConfigurationError: gevent or eventlet has taken the place of ``threading``.
    """
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    patched = gevent is not None and gevent.is_module_patched("threading")
    if patched or (eventlet is not None and eventlet.is_monkey_patched("thread")):
        raise ConfigurationError(
            "gevent or eventlet has patched threading, so each metadata request would stop all greenlets "
            "until it is answered (10 s while the brokers are down). Patch without threads, as "
            "gevent.monkey.patch_all(thread=False) does, or use a plain confluent_kafka.Producer"
        )
