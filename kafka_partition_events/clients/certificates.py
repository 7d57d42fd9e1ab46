"""What TLS certificates say: whose they are, and what is wrong with them. Imports no client."""

import contextlib
import ssl
from collections.abc import Mapping
from typing import Any, Final

_SHORT: Final = {
    "commonName": "CN", "organizationalUnitName": "OU", "organizationName": "O", "localityName": "L",
    "stateOrProvinceName": "ST", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}  # fmt: skip
"""OpenSSL's names of a distinguished name's parts, and those of RFC 2253, as Kafka writes them."""


def subject(certificate: str) -> str | None:
    """Return the subject of a certificate in a PEM file as Kafka writes it (RFC 2253); None if unknown."""
    parts = reversed(_decoded(certificate).get("subject", ()))
    try:
        return (
            ",".join("+".join(f"{_SHORT[n]}={_escaped(value)}" for n, value in part) for part in parts)
            or None
        )
    except KeyError:  # a part that has no short name
        return None


def why_of_no_use(config: Mapping[str, Any], now: float) -> str | None:
    """Return what is wrong with a client's own certificate; None if nothing is, or there is none.

    Brokers only hang up on it, or say that it is "unknown".

    Args:
        config: How the client connects, in librdkafka's words.
        now: Seconds since 1970.
    """
    path = config.get("ssl.certificate.location")
    ends = None if path is None else _decoded(str(path)).get("notAfter")
    if ends is None or ssl.cert_time_to_seconds(ends) > now:
        return None
    return f"the client's own certificate, {path}, has expired: it was good until {ends}"


def _decoded(path: str) -> dict[str, Any]:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        # The standard library's one decoder of certificates; private, and in every version of it.
        found: dict[str, Any] = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]  # noqa: SLF001
        return found
    return {}


def _escaped(value: str) -> str:
    escaped = "".join(f"\\{c}" if c in ',+"\\<>;' else c for c in value)
    return f"\\{escaped}" if escaped[:1] in {" ", "#"} else escaped
