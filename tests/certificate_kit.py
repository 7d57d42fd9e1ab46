"""What tests of TLS share: an authority, and certificates that it signs, made by openssl."""

import ssl
import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a directory."""

    def __init__(self, directory: Path, openssl: str, name: str = "ca") -> None:
        self.directory, self._openssl, self._name = directory, openssl, name
        pair = ("-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.pem"))
        self._run("req", "-x509", *_NEW, "-days", "2", "-subj", f"/CN={name}", *pair)

    @property
    def ca(self) -> str:
        return str(self.directory / f"{self._name}.pem")

    def issue(self, name: str, *, days: int = 2) -> tuple[str, str]:
        """Return the paths of a certificate and its key; they replace those of that name.

        Of less than no days it has expired.
        """
        pem, key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        request, extensions = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1\n")
        self._run("req", *_NEW, "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request))
        by = ("-CA", self.ca, "-CAkey", str(self.directory / f"{self._name}.key"), "-CAcreateserial")
        signed = ("-days", str(days), "-extfile", str(extensions), "-out", str(pem))
        self._run("x509", "-req", "-in", str(request), *by, *signed)
        return str(pem), str(key)

    def client(self, pair: tuple[str, str] | None = None) -> ssl.SSLContext:
        """Return how a client of this authority speaks TLS, with a certificate of its own if given."""
        context = ssl.create_default_context(cafile=self.ca)
        if pair is not None:
            context.load_cert_chain(*pair)
        return context

    def _run(self, *command: str) -> None:
        subprocess.run([self._openssl, *command], check=True, capture_output=True, timeout=60)


_NEW = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
