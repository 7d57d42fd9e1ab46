"""TLS for the service's HTTP: certificates from files, taken over when somebody renews them."""

import ssl
from pathlib import Path
from typing import Final

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger

VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

_log = get_logger(__name__)


class Certificates:
    """What a server presents, and whose certificates it believes. For one thread.

    Files are looked at for each connection; if one of them is another than before, all are read anew. What
    can't be read, or does not fit together (a certificate is there before its key), leaves the former ones
    in place and is logged.
    """

    def __init__(
        self, cert: str, key: str | None = None, *, client_ca: str | None = None, version: str = "1.2"
    ) -> None:
        """Read the files.

        Args:
            cert: The certificate and those that vouch for it, in PEM.
            key: Its key; None if that is in the same file.
            client_ca: Who vouches for clients. One that has no certificate gets its connection all the same:
                it is for the login to refuse it.
            version: The oldest TLS that is spoken, of `VERSIONS`.

        Raises:
            ConfigurationError: a file can't be used; the message names the setting.
        """
        self._cert, self._key, self._client_ca, self._version = cert, key, client_ca, version
        self._state = self._look()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """Return how to speak TLS with the next client."""
        if (state := self._look()) != self._state:
            self._state = state
            try:
                self._context = self._read()
                _log.info("tls_reloaded", cert=self._cert)
            except ConfigurationError as error:
                _log.error("tls_not_reloaded", error=str(error), instead="the former certificate")
        return self._context

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_state_of(path) for path in (self._cert, self._key, self._client_ca) if path is not None]

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[self._version]
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        where = f"http.tls_cert: {self._cert}" if self._key is None else f"http.tls_key: {self._key}"
        try:
            Path(self._cert).open("rb").close()  # ssl does not say which file is missing
            if self._key is not None:
                Path(self._key).open("rb").close()
            context.load_cert_chain(self._cert, self._key, password=_refuse)
            if self._client_ca is not None:
                where = f"http.client_ca: {self._client_ca}"
                context.load_verify_locations(self._client_ca)
                context.verify_mode = ssl.CERT_OPTIONAL
        except ssl.SSLError as error:
            cause = error.reason or "no PEM of the right kind"
            raise ConfigurationError(f"{where}: {cause.replace('_', ' ').lower()}") from error
        except OSError as error:
            raise ConfigurationError(f"{error.filename or where}: {error.strerror}") from error
        except _EncryptedError:
            raise ConfigurationError(f"{where}: the key must not have a passphrase") from None
        return context


class _EncryptedError(Exception):
    pass


def _refuse() -> str:
    """Stand in for a passphrase. Without it OpenSSL would ask on the terminal."""
    raise _EncryptedError


def _state_of(path: str) -> tuple[int, ...] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
