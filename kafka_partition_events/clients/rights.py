"""Rights by Kafka's ACLs: who lacks which one where a broker refuses, and the line that gives it.

Imports no client.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka_partition_events.acls import Right, as_command

_REFUSALS: Final = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "transactional-id",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
}
"""Kafka's errors that mean a lacking right, and on what kind of resource."""

_CERTIFICATES: Final = frozenset({
    "ssl.certificate.location", "ssl.certificate.pem", "ssl_certificate", "ssl.keystore.location",
})  # fmt: skip
_BY_USER_NAME: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def is_refusal(error: str) -> bool:
    """Return whether an error, by Kafka's name, means that a right is lacking."""
    return error in _REFUSALS


def lacking(error: str, needed: Iterable[Right], config: Mapping[str, Any] | None) -> str | None:
    """Return who lacks which right, and the line that gives it, as one line; None if that is not the error.

    Of the rights that are ``needed`` those on the kind of resource that was refused are named. ``config`` is
    how the client connects, in librdkafka's words.
    """
    if (kind := _REFUSALS.get(error)) is None:
        return None
    who = None if config is None else principal(config)
    rights = [right for right in needed if right.kind == kind]
    if not rights:
        return f"{who or 'this principal'} lacks a right on a {kind} ({error})"
    return lacks(rights, who, str((config or {}).get("bootstrap.servers", "...")))


def lacks(rights: Sequence[Right], who: str | None, bootstrap: str) -> str:
    """Return the same where it is known which rights are lacking, and whose."""
    named = ", ".join(_in_words(right) for right in rights)
    lines = "; ".join(as_command(right, who or "User:...", bootstrap) for right in rights)
    return f"{who or 'this principal'} lacks {named}; to give it: {lines}"


def principal(config: Mapping[str, Any]) -> str | None:
    """Return the name by which brokers know a client, as far as its settings say; None if they don't.

    It is the user name of SASL. What brokers make of a certificate, a token or a Kerberos ticket goes by
    their rules (``ssl.principal.mapping.rules``, ``principal.builder.class``).
    """
    protocol = str(config.get("security.protocol", "plaintext")).lower()
    if protocol.startswith("sasl"):
        mechanism = str(config.get("sasl.mechanism", config.get("sasl.mechanisms", "GSSAPI"))).upper()
        user = config.get("sasl.username") if mechanism in _BY_USER_NAME else None
        return None if user is None else f"User:{user}"
    if protocol != "ssl":
        return "User:ANONYMOUS"
    return None if _CERTIFICATES & config.keys() else "User:ANONYMOUS"


def _in_words(right: Right) -> str:
    operations = " and ".join(_spaced(each) for each in right.operations)
    return f"{operations} on " + ("the cluster" if right.kind == "cluster" else f"{right.kind} {right.name}")


def _spaced(operation: str) -> str:
    """Return an operation as ACLs and authorizers' logs have it: DESCRIBE_CONFIGS."""
    return "".join(f"_{c}" if c.isupper() and place else c.upper() for place, c in enumerate(operation))
