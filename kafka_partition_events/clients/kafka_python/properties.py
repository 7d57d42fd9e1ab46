"""librdkafka's properties in kafka-python's words: one configuration serves either client."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.errors import ConfigurationError

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_VERIFYING = "enable.ssl.certificate.verification"


def _one_of(choices: Collection[str], value: str) -> str:
    if value.upper() not in choices:
        raise ValueError(f"with kafka-python it can only be {', '.join(choices)}")
    return value.upper()


_mechanism = partial(_one_of, _MECHANISMS)

_WORDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "client.dns.lookup": ("client_dns_lookup", str),
    "client.id": ("client_id", str),
    "sasl.mechanism": ("sasl_mechanism", _mechanism),
    "sasl.mechanisms": ("sasl_mechanism", _mechanism),
    "sasl.password": ("sasl_plain_password", lambda value: value),  # it may know the file that it is from
    "sasl.username": ("sasl_plain_username", str),
    "security.protocol": ("security_protocol", partial(_one_of, _PROTOCOLS)),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": (
        "ssl_check_hostname",
        lambda value: _one_of(("NONE", "HTTPS"), value) == "HTTPS",
    ),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
}

_NEEDLESS = frozenset({
    "api.version.fallback.ms", "api.version.request", "api.version.request.timeout.ms", "broker.address.ttl",
    "broker.version.fallback", "client.rack", "connections.max.idle.ms", "debug", "log_level",
    "receive.message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "socket.blocking.max.ms",
    "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails",
    "socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms",
})  # fmt: skip
"""Properties that decide neither where it connects nor how safely."""


def kafka_python_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return what makes a kafka-python client connect as librdkafka does by these properties.

    Properties that say nothing of connecting, such as a producer's, are left out.

    Raises:
        ConfigurationError: there is no way to do so; each property that is in the way is named, no value.
    """
    settings: dict[str, Any] = {}
    in_the_way = []
    for name, value in connecting(properties).items():
        if name in _WORDS:
            word, translate = _WORDS[name]
            try:
                settings[word] = translate(value)
            except ValueError as why:
                in_the_way.append(f"{name}: {why}")
        elif name not in _NEEDLESS and (name, value) != (_VERIFYING, "true"):
            in_the_way.append(f"{name}: kafka-python has nothing like it")
    if not in_the_way and settings.get("security_protocol", "").startswith("SASL"):
        needed = {"sasl_plain_username": "sasl.username", "sasl_plain_password": "sasl.password"}
        in_the_way = [f"{name}: is missing" for word, name in needed.items() if word not in settings]
        if "sasl_mechanism" not in settings:  # librdkafka's default is GSSAPI
            how = ", ".join(_MECHANISMS)
            in_the_way = [f"sasl.mechanism: is missing; with kafka-python it can be {how}"]
    if in_the_way:
        raise ConfigurationError("; ".join(in_the_way))
    return settings
