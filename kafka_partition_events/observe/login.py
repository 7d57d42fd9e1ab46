"""Who may read what the service's HTTP tells: by password, by certificate, or both."""

import base64
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.observe.passwords import BusyError, PasswordHash, Passwords
from kafka_partition_events.observe.settings import Http
from kafka_partition_events.observe.tls import Certificates

_NOTE_EACH_S: Final = 10.0

_log = get_logger(__name__)


@frozen(kw_only=True)
class Refusal:
    """Why somebody may not read something.

    Attributes:
        status: What to answer.
        ask: Whether to ask for a password.
    """

    status: HTTPStatus
    why: str
    ask: bool = False


class Login:
    """Knows users by their passwords and clients by their certificates. Thread-safe."""

    def __init__(
        self,
        users: Mapping[str, PasswordHash] | None = None,
        *,
        certificate: bool = False,
        names: Collection[str] = (),
    ) -> None:
        """Make a check; without arguments it lets everybody in.

        Args:
            users: The passwords' hashes by users; none means that no password is asked for.
            certificate: Whether a client has to have a certificate. That it is a good one TLS has seen to.
            names: Of these its certificate has to have one; none means any.
        """
        self._passwords = Passwords(users) if users else None
        self._certificate, self._names = certificate, frozenset(names)
        self._lock = threading.Lock()
        self._refused, self._noted_at = 0, -_NOTE_EACH_S

    @property
    def asks(self) -> bool:
        """Whether it asks for anything."""
        return self._certificate or self._passwords is not None

    def refusal(self, connection: socket.socket, authorization: str | None) -> Refusal | None:
        """Return why a client may not read, None if it may.

        Args:
            connection: The client's.
            authorization: What it says in the header of that name.
        """
        return self._of_certificate(connection) or self._of_password(authorization)

    def _of_certificate(self, connection: socket.socket) -> Refusal | None:
        if not self._certificate:
            return None
        names = _names_of(connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None)
        if names is None:
            return Refusal(status=HTTPStatus.FORBIDDEN, why="no client certificate")
        if self._names and not self._names & names:
            return Refusal(status=HTTPStatus.FORBIDDEN, why="a certificate without one of http.client_names")
        return None

    def _of_password(self, authorization: str | None) -> Refusal | None:
        if self._passwords is None:
            return None
        given = _given(authorization)
        if given is None:
            return Refusal(status=HTTPStatus.UNAUTHORIZED, why="log in", ask=True)
        try:
            good = self._passwords.match(*given)
        except BusyError:
            return Refusal(status=HTTPStatus.SERVICE_UNAVAILABLE, why="busy")
        return (
            None if good else Refusal(status=HTTPStatus.UNAUTHORIZED, why="wrong user or password", ask=True)
        )

    def note(self, connection: socket.socket, refusal: Refusal) -> None:
        """Log a refusal, but one line in ten seconds: whoever guesses must not fill a disk.

        Without the user's name: somebody may have typed a password there.
        """
        with self._lock:
            self._refused += 1
            if time.monotonic() - self._noted_at < _NOTE_EACH_S:
                return
            refused, self._refused, self._noted_at = self._refused, 0, time.monotonic()
        _log.warning("http_refused", client=_peer(connection), why=refusal.why, since_last_line=refused)


def guard(http: Http) -> tuple[Certificates | None, Login]:
    """Return what settings ask for: TLS, and a login.

    Raises:
        ConfigurationError: they contradict one another, or a file can't be used.
    """
    if http.tls_cert is None:
        for name in ("tls_key", "client_ca"):
            if getattr(http, name) is not None:
                raise ConfigurationError(f"http.{name} is of no use without http.tls_cert")
        certificates = None
    else:
        certificates = Certificates(
            http.tls_cert, http.tls_key, client_ca=http.client_ca, version=http.tls_min_version
        )
    if http.client_names and http.client_ca is None:
        raise ConfigurationError("http.client_names is of no use without http.client_ca")
    login = Login(http.users, certificate=http.client_ca is not None, names=http.client_names)
    return certificates, login


def warn_if_open(host: str, certificates: Certificates | None, login: Login) -> None:
    """Log what anybody in the network may read, or hear, if it listens beyond the loopback."""
    missing = [
        word for word, there in (("TLS", certificates is not None), ("login", login.asks)) if not there
    ]
    if missing and not _is_loopback(host):
        _log.warning(
            "http_is_open",
            listen=host,
            missing=" and ".join(missing),
            cure="see [http] in docs/security.md, or put a proxy in front",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _given(authorization: str | None) -> tuple[str, bytes] | None:
    """Return user and password, None if there are none (RFC 7617)."""
    scheme, _, encoded = (authorization or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except ValueError:  # no base64, which no letters beyond ASCII are either, or no UTF-8
        return None


def _names_of(certificate: Mapping[str, Any] | None) -> frozenset[str] | None:
    """Return the names in a certificate: those of its subject's other names, and its common name."""
    if not certificate:
        return None
    other = {value for _, value in certificate.get("subjectAltName", ())}
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(other | common)


def _peer(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return "gone"
