"""Authorities and certificates for tests, made by the openssl command."""

import subprocess
from pathlib import Path

from attrs import frozen

_EXTENSIONS = """\
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
subjectAltName = DNS:{name}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


@frozen
class Issued:
    """Files of one certificate."""

    cert: Path
    key: Path

    def locked(self, passphrase: str) -> Path:
        """Return the key, encrypted."""
        locked = self.key.with_suffix(".locked")
        _openssl("ec", "-in", self.key, "-aes256", "-passout", f"pass:{passphrase}", "-out", locked)
        return locked


class Authority:
    """An authority of its own, with its certificate in ``ca``."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory, self._name = directory, name
        self._number = 0
        self.ca, self._key = directory / f"{name}.pem", directory / f"{name}.key"
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self._key)
        self._extended(name)
        request = directory / f"{name}.csr"
        _openssl("req", "-new", "-key", self._key, "-subj", f"/CN={name}", "-out", request)
        _openssl(
            "x509", "-req", "-in", request, "-signkey", self._key, "-days", "2", "-out", self.ca,
            "-extfile", self._extfile, "-extensions", "authority",
        )  # fmt: skip

    def issue(self, name: str, *, days: int = 1) -> Issued:
        """Return a certificate for a name; of less than no days it has expired."""
        self._number += 1
        stem = f"{self._name}-{self._number}"
        key, request, cert = (self._directory / f"{stem}.{end}" for end in ("key", "csr", "pem"))
        self._extended(name)
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        _openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-days", days, "-out", cert,
            "-set_serial", self._number, "-extfile", self._extfile, "-extensions", "leaf",
        )  # fmt: skip
        return Issued(cert, key)

    def _extended(self, name: str) -> None:
        self._extfile = self._directory / f"{self._name}.cnf"
        self._extfile.write_text(_EXTENSIONS.format(name=name))


def _openssl(*arguments: object) -> None:
    done = subprocess.run(
        ["openssl", *map(str, arguments)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
