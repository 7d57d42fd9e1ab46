"""What kept a request from its answer, in words for an operator: whose fault it is, and its cure. Pure."""

import re
import ssl
from typing import Final

import httpx

from kafka_partition_events_listeners.webhook.connecting import AddressRefusedError
from kafka_partition_events_listeners.webhook.target import ProxyRefusedError

_CURES_OF_PROXY: Final = {
    "403": "; it lets nothing through to this host and port",
    "407": "; look at the login in proxy",
}
_UNKNOWN_AUTHORITY: Final = frozenset({18, 19, 20, 21})
"""What OpenSSL says of a certificate that nobody known vouches for (X509_V_ERR)."""
_OURS: Final = re.compile(r"alert.*(certificate|handshake failure|unknown ca|access denied)")
"""What the other end says of our certificate, or of there being none, in OpenSSL's words."""


def cause_of(error: httpx.TransportError) -> tuple[str, str]:
    """Return a reason for metrics, and a cause with its cure.

    What the target itself said, as in a broken answer, is in neither.
    """
    if isinstance(error, ProxyRefusedError):
        return "proxy", f"{error}{_CURES_OF_PROXY.get(error.status, '')}"
    if isinstance(error, AddressRefusedError):
        return "address_refused", str(error)
    if isinstance(error, httpx.TimeoutException):
        return "timeout", type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return "tls", _of_tls(cause)
        cause = cause.__cause__ or cause.__context__
    return "connect", str(error) if isinstance(error, httpx.ConnectError) else type(error).__name__


def _of_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        unknown = getattr(error, "verify_code", 0) in _UNKNOWN_AUTHORITY
        cure = "; if it is the target's, name its authority by ca_file" if unknown else ""
        return f"its certificate proves nothing: {getattr(error, 'verify_message', error)}{cure}"
    words = (error.reason or str(error)).lower().replace("_", " ")  # OpenSSL's own, not the target's
    return f"TLS: {words}" + ("; look at client_cert and client_key" if _OURS.search(words) else "")
