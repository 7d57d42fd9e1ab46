"""What TLS certificates say: whose they are, and what is wrong with them. Imports no client."""

import contextlib
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final

_SHORT: Final = {
    "commonName": "CN", "organizationalUnitName": "OU", "organizationName": "O", "localityName": "L",
    "stateOrProvinceName": "ST", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}  # fmt: skip
"""OpenSSL's names of a distinguished name's parts, and those of RFC 2253, as Kafka writes them."""

_HANDSHAKE_S: Final = 2.0  # to see what is wrong with a broker's certificate


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


def why_brokers_is_refused(config: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the certificate of the first broker that has one, by a handshake of our own.

    librdkafka says that it can't be verified, and not why. None if it can be, or no broker answers.

    Args:
        config: How the client connects, in librdkafka's words.
    """
    ca, deadline = config.get("ssl.ca.location"), time.monotonic() + _HANDSHAKE_S
    for address in str(config.get("bootstrap.servers", "")).split(","):
        host, _, port = address.strip().rpartition(":")
        host, left = host.strip("[]"), max(0.05, deadline - time.monotonic())
        try:
            context = ssl.create_default_context(cafile=None if ca is None else str(ca))
            with socket.create_connection((host, int(port)), left) as plain:
                context.wrap_socket(plain, server_hostname=host).close()
                return None
        except ssl.SSLCertVerificationError as error:
            return f"{address}: {error.verify_message}"
        except (OSError, ValueError):
            continue
    return None


def _decoded(path: str) -> dict[str, Any]:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        # The standard library's one decoder of certificates; private, and in every version of it.
        found: dict[str, Any] = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]  # noqa: SLF001
        return found
    return {}


def _escaped(value: str) -> str:
    escaped = "".join(f"\\{c}" if c in ',+"\\<>;' else c for c in value)
    return f"\\{escaped}" if escaped[:1] in {" ", "#"} else escaped
