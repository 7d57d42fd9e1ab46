"""Signed webhooks, in the way of the Standard Webhooks specification. Pure.

A request carries an id, the time and, for each secret, an HMAC-SHA256 over ``id.timestamp.body``. With two
secrets there are two signatures, and a receiver that knows either one is content: that is how a secret is
replaced without a moment in which somebody is refused.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Final

from kafka_partition_events.errors import ConfigurationError, KafkaPartitionEventsError

TOLERANCE_S: Final = 300.0
"""How far the clocks of sender and receiver may be apart, delivery included."""

_ID, _TIMESTAMP, _SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_VERSION: Final = "v1,"
_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)


class SignatureError(KafkaPartitionEventsError):
    """A request is not signed with a secret that is known, or was not signed lately."""


def key_of(secret: str) -> bytes:
    """Return the key that a secret stands for.

    Args:
        secret: ``whsec_`` and the base64 of 24 to 64 random bytes.

    Raises:
        ConfigurationError: it is not of that form; the message does not repeat it.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(_PREFIX) or len(key) not in _KEY_BYTES:
        raise ConfigurationError(
            "secrets must each be whsec_ and the base64 of 24 to 64 random bytes; "
            'make one with: echo "whsec_$(openssl rand -base64 32)"'
        )
    return key


def signed_headers(id_: str, timestamp: int, body: bytes, keys: Iterable[bytes] = ()) -> dict[str, str]:
    """Return the headers that identify a request and, if there are keys, sign it.

    Args:
        id_: What a receiver tells doubles by: the same for every try.
        timestamp: The time of this try, in seconds since the epoch.
        body: What is sent.
        keys: One signature for each.
    """
    headers = {_ID: id_, _TIMESTAMP: str(timestamp)}
    if signatures := [_VERSION + _signed(key, id_, str(timestamp), body) for key in keys]:
        headers[_SIGNATURE] = " ".join(signatures)
    return headers


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: Iterable[str],
    *,
    now: float,
    tolerance: float = TOLERANCE_S,
) -> None:
    """Return if a request that was received is genuine. For receivers; takes the same time for each secret.

    Args:
        body: The body as it came, before any parsing.
        headers: The headers; upper and lower case are the same.
        secrets: All secrets that are good now.
        now: The time, in seconds since the epoch.
        tolerance: By how many seconds the request's time may differ.

    Raises:
        SignatureError: it is not: the message says why.
        ConfigurationError: a secret is of no use.
    """
    given = {name.lower(): value for name, value in headers.items()}
    if missing := {_ID, _TIMESTAMP, _SIGNATURE} - given.keys():
        raise SignatureError(f"the request is not signed: it has no {', '.join(sorted(missing))}")
    id_, timestamp = given[_ID], given[_TIMESTAMP]
    if not re.fullmatch(r"[0-9]{1,12}", timestamp) or abs(now - int(timestamp)) > tolerance:
        raise SignatureError(f"the request was not signed within {tolerance:g} seconds of now")
    expected = [_signed(key_of(secret), id_, timestamp, body).encode() for secret in secrets]
    offered = [
        signature.removeprefix(_VERSION).encode(errors="replace")
        for signature in given[_SIGNATURE].split(" ")
        if signature.startswith(_VERSION)
    ]
    # All are compared, so that the time taken does not tell which one matched, or how nearly.
    if not any([hmac.compare_digest(one, other) for one in offered for other in expected]):  # noqa: C419
        raise SignatureError("no signature of the request was made with a secret that is good here")


def _signed(key: bytes, id_: str, timestamp: str, body: bytes) -> str:
    content = b".".join((id_.encode(errors="replace"), timestamp.encode(), body))
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
