"""Signed webhooks, in the way of the Standard Webhooks specification. Pure.

A request carries an id, the time and, for each secret, an HMAC-SHA256 over ``id.timestamp.body``. With two
secrets there are two signatures, and a receiver that knows either one is content: that is how a secret is
replaced without a moment in which a request is refused.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

from kafka_partition_events.errors import ConfigurationError

_ID, _TIMESTAMP, _SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_VERSION: Final = "v1,"
_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)


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
        id_: By it a receiver knows duplicates: the same for every try.
        timestamp: The time of this try, in seconds since the epoch.
        body: What is sent.
        keys: One signature for each.
    """
    headers = {_ID: id_, _TIMESTAMP: str(timestamp)}
    if signatures := [_VERSION + _signed(key, id_, str(timestamp), body) for key in keys]:
        headers[_SIGNATURE] = " ".join(signatures)
    return headers


def _signed(key: bytes, id_: str, timestamp: str, body: bytes) -> str:
    content = b".".join((id_.encode(errors="replace"), timestamp.encode(), body))
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
