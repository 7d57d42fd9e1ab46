"""Passwords of those who read metrics: kept as scrypt hashes, and checked without giving anything away.

scrypt is the standard library's; bcrypt, which Prometheus' own tools use, would be one more package to trust.
"""

import base64
import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Mapping
from typing import Final

from attrs import frozen

_LOG_N, _R, _P = 14, 8, 1
"""16 MiB and a twentieth of a second: what a scrape can bear once, and whoever guesses can't often."""
_LARGEST_LOG_N: Final = 17  # 128 MiB
_MEMORY: Final = 256 << 20
_FORM: Final = re.compile(
    r"scrypt\$(\d{1,2}),(\d{1,2}),(\d{1,2})\$([A-Za-z0-9+/]{16,}=*)\$([A-Za-z0-9+/]{43}=)"
)
_PATIENCE_S: Final = 2.0


class BusyError(Exception):
    """Too many passwords are being checked; the client may come again."""


@frozen
class PasswordHash:
    """What is known of a password. Its text is what ``[http.users]`` has."""

    text: str

    def __attrs_post_init__(self) -> None:
        """Refuse what is no hash, or takes more memory than a service has to spare."""
        if (found := _FORM.fullmatch(self.text)) is None:
            raise ValueError("no hash")
        log_n, r, p = map(int, found.group(1, 2, 3))
        if not (10 <= log_n <= _LARGEST_LOG_N and 1 <= r <= 8 and 1 <= p <= 4):
            raise ValueError("too little or too much work")

    def __repr__(self) -> str:
        """Tell nothing."""
        return "PasswordHash('***')"

    def is_of(self, password: bytes) -> bool:
        """Tell whether it is this password's. Takes a while, on purpose."""
        _, cost, salt, expected = self.text.split("$")
        log_n, r, p = map(int, cost.split(","))
        found = _scrypt(password, base64.b64decode(salt), log_n, r, p)
        return hmac.compare_digest(found, base64.b64decode(expected))


def hash_password(password: str) -> PasswordHash:
    """Return a hash of a password, salted anew."""
    salt = secrets.token_bytes(16)
    digest = _scrypt(password.encode(), salt, _LOG_N, _R, _P)
    parts = (f"{_LOG_N},{_R},{_P}", base64.b64encode(salt).decode(), base64.b64encode(digest).decode())
    return PasswordHash("$".join(("scrypt", *parts)))


def _scrypt(password: bytes, salt: bytes, log_n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password, salt=salt, n=1 << log_n, r=r, p=p, maxmem=_MEMORY, dklen=32)


class Passwords:
    """Checks passwords, one at a time. Thread-safe.

    Whoever came with the right one before is known by a keyed digest of it, so that a scrape costs nothing
    and does not wait behind those who guess.
    """

    def __init__(self, users: Mapping[str, PasswordHash]) -> None:
        """Make a check for these users."""
        self._users = dict(users)
        self._nobody = hash_password(secrets.token_hex())
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}
        self._turn = threading.Lock()

    def match(self, user: str, password: bytes) -> bool:
        """Tell whether this is the user's password. Who is no user takes as long as a wrong password.

        Raises:
            BusyError: others are being checked.
        """
        digest = hmac.digest(self._key, password, "sha256")
        if hmac.compare_digest(self._known.get(user, b""), digest):
            return True
        if not self._turn.acquire(timeout=_PATIENCE_S):
            raise BusyError
        try:
            good = self._users.get(user, self._nobody).is_of(password) and user in self._users
        finally:
            self._turn.release()
        if good:
            self._known[user] = digest
        return good
