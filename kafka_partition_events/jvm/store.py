"""A verified directory of jars, shared by all processes of a user.

The directory appears by one rename, after every jar in it has been hashed, so a process that sees it sees all
of it. A *stamp* in it records the names and sizes that were verified: comparing those takes about a
millisecond, where hashing 45 MB takes a good part of a second.
"""

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

from attrs import field, frozen

from kafka_partition_events.errors import JvmError

STAMP = "verified.txt"
RETRY = "python -m kafka_partition_events.jvm"

Fetch = Callable[[Path, Path, Path], str]
"""``fetch(ivy_file, into, cache)``: download, and return what to quote should jars be missing."""


def read_checksums(text: str) -> dict[str, str]:
    """Parse the output of ``sha256sum``: relative path -> digest."""
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {name.lstrip("*"): digest for digest, name in pairs}


def find_faults(directory: Path, checksums: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Hash every jar; return the paths that are missing and those that are not what they should be."""
    missing, wrong = [], []
    for name, digest in checksums.items():
        try:
            with (directory / name).open("rb") as jar:
                actual = hashlib.file_digest(jar, "sha256").hexdigest()
        except FileNotFoundError:
            missing.append(name)
        else:
            if actual != digest:
                wrong.append(name)
    return missing, wrong


@frozen(kw_only=True)
class JarStore:
    """The jars of one lock.

    Attributes:
        directory: Where the verified jars are, or will be.
        ivy_file: The pinned revisions.
        checksums: Relative path -> sha256 of every jar.
    """

    directory: Path
    ivy_file: Path
    checksums: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, *, ivy_file: Path, checksums_file: Path, parent: Path) -> Self:
        """Name the directory below `parent` after the content of `ivy_file`."""
        digest = hashlib.sha256(ivy_file.read_bytes()).hexdigest()
        return cls(
            directory=parent / f"jvm-{digest[:16]}",
            ivy_file=ivy_file,
            checksums=read_checksums(checksums_file.read_text()),
        )

    def is_complete(self) -> bool:
        """Whether the jars have been verified and none has changed its name or size since."""
        try:
            return (self.directory / STAMP).read_text() == self._stamp(self.directory)
        except FileNotFoundError:
            return False

    def ensure(self, fetch: Fetch) -> Path:
        """Return the directory, calling `fetch` first if the jars are not there.

        Raises:
            JvmError: jars are missing or corrupt after the download; or whatever `fetch` raises.
        """
        if not self.is_complete():
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                if not self.is_complete():  # else another process has fetched them meanwhile
                    self._fetch(fetch)
        return self.directory

    def _fetch(self, fetch: Fetch) -> None:
        cache = self.directory.with_suffix(".ivy")
        with tempfile.TemporaryDirectory(dir=self.directory.parent, prefix="fetching-") as scratch:
            staged = Path(scratch) / "jars"
            said = fetch(self.ivy_file, staged, cache)
            missing, wrong = find_faults(staged, self.checksums)
            if wrong or not missing:
                # Ivy would hand out its cached copy of a corrupt jar for ever.
                shutil.rmtree(cache, ignore_errors=True)
            if missing or wrong:
                raise JvmError(self._complaint(missing, wrong, said))
            (staged / STAMP).write_text(self._stamp(staged))
            shutil.rmtree(self.directory, ignore_errors=True)  # an incomplete one, or of older checksums
            staged.rename(self.directory)

    def _complaint(self, missing: list[str], wrong: list[str], said: str) -> str:
        parts = [f"the download of jars to {self.directory} failed"]
        if missing:
            parts.append(f"{len(missing)} of {len(self.checksums)} missing: {', '.join(missing)}")
        if wrong:
            parts.append(f"sha256 differs from the lock's: {', '.join(wrong)}")
        parts.append(f"nothing was installed; check the network or its proxy and try again: {RETRY}")
        return "; ".join(parts) + (f"\nIvy's last words:\n{said}" if said else "")

    def _stamp(self, directory: Path) -> str:
        """Describe the jars by what is cheap to compare, and the checksums that they were held against.

        Raises:
            FileNotFoundError: a jar is missing.
        """
        listing = repr(sorted(self.checksums.items())).encode()
        sizes = (f"{(directory / name).stat().st_size} {name}" for name in sorted(self.checksums))
        return "\n".join([f"checksums {hashlib.sha256(listing).hexdigest()}", *sizes, ""])

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time fetch.

        The wait has no limit of its own, but its owner has: a download ends within `ivy.TIMEOUT_S`, and
        the operating system drops the lock of a process that dies.
        """
        with self.directory.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
